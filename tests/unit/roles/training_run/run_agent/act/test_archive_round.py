"""One round of an archive: what is new goes to the bucket, once, whatever becomes of an answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from object_server import Objects
from run_agent.act import archive_round, user_files
from run_agent.decide import archive
from run_agent.decide.archive import Joined, Life, Thing, frames_of

PREFIX = "all/digits/solo/solo/L/"


class Machine:
    """A worker's log folder, and the state that goes from round to round."""

    def __init__(self, folder: Path, lab: Objects) -> None:
        self.log, self.lab = folder / "log/run.log", lab
        self.log.parent.mkdir()
        self.workdir = folder / "work"
        self.workdir.mkdir()
        self.states: dict[str, Any] = {"parts": {}, "results": {}}

    def say(self, text: str) -> None:
        with self.log.open("a") as stream:
            stream.write(text)

    def round(self, what: str = "parts", **more: Any) -> dict[str, Any]:
        asked = {
            "what": what, "storage": self.lab.url, "metadata": self.lab.url, "bucket": "lab",
            "prefix": PREFIX, "log": str(self.log), "declared": [], "writes": 9,
            "workdir": str(self.workdir), "state": self.states[what], **more,
        }  # fmt: skip
        answer = archive_round.done(asked)
        self.states[what] = answer["state"]
        return answer

    def read(self, stream: str = archive.LOG) -> tuple[str, int]:
        """Return what the bucket has of a stream, and how often something is missing."""
        names = [one for one in self.lab.items if one.startswith(f"{PREFIX}parts/")]
        life = Life("s", "s", "L", [Thing(one.removeprefix(PREFIX), 1, 1.0) for one in names])
        joined, text, gaps = Joined(), b"", 0
        for part in life.needed:
            for one in frames_of(self.lab.contents[PREFIX + part.name]):
                new, lost = joined.taken(one)
                text += new if one.stream == stream else b""
                gaps += lost
        return text.decode(), gaps


@pytest.fixture
def machine(tmp_path: Path, lab: Objects) -> Machine:
    return Machine(tmp_path, lab)


def test_each_round_writes_what_is_new_as_one_object(machine: Machine, lab: Objects) -> None:
    machine.say("one\n")
    machine.log.with_name("events.jsonl").write_text('{"event":"agent-started"}\n')
    machine.log.with_name("hang-3.txt").write_text("stacks\n")
    machine.log.with_name("start-4.json").write_text('{"worker": 0}')
    assert machine.round() == {
        "state": machine.states["parts"], "more": False, "note": "", "error": "",
    }  # fmt: skip
    machine.say("two\n")
    machine.round()
    machine.round()
    assert list(lab.items) == [f"{PREFIX}parts/{n:010}-{n:010}" for n in (0, 1)]
    assert machine.read() == ("one\ntwo\n", 0)
    assert machine.read("events") == ('{"event":"agent-started"}\n', 0)
    assert machine.read("hang-3.txt") == ("stacks\n", 0)
    assert machine.read("start-4.json") == ('{"worker": 0}', 0)


def test_a_lost_answer_costs_no_line_and_writes_none_twice(machine: Machine, lab: Objects) -> None:
    machine.say("one\n")
    lab.loses_answers = 1
    assert "does not answer" in machine.round()["error"]
    machine.say("two\n")
    assert machine.round()["error"] == ""
    assert len(lab.items) == 2
    assert machine.read() == ("one\ntwo\n", 0)


def test_a_log_that_rotates_is_followed(machine: Machine) -> None:
    text = ""
    for number in range(40):
        line = f"line {number}\n"
        machine.say(line)
        text += line
        if number % 3 == 0:
            user_files.rotate(machine.log, 5)
        if number % 4 == 0:
            machine.round()
    machine.round()
    assert machine.read() == (text, 0)


def test_what_was_rotated_away_is_said_to_be_missing(machine: Machine) -> None:
    machine.say("one\n")
    machine.round()
    user_files.rotate(machine.log, 1)
    machine.say("two\n")
    user_files.rotate(machine.log, 1)
    machine.say("three\n")
    user_files.rotate(machine.log, 1)
    machine.say("four\n")
    machine.round()
    assert machine.read() == ("one\nthree\nfour\n", 1)


def test_a_log_that_lost_its_end_with_the_power_goes_on(machine: Machine) -> None:
    machine.say("one\ntwo\n")
    machine.round()
    os.truncate(machine.log, 4)
    machine.round()
    machine.say("three\n")
    machine.round()
    assert machine.read() == ("one\ntwo\nthree\n", 1)


def test_many_parts_become_one(machine: Machine, lab: Objects) -> None:
    text = ""
    for number in range(70):
        text += f"{number}\n"
        machine.say(f"{number}\n")
        machine.round()
    assert machine.read() == (text, 0)
    assert len(lab.items) < 12
    writes = sum(method == "POST" for method, _path in lab.requests)
    assert writes <= 70 * (1 + 1 / (archive.TOGETHER - 1)) + 1


def test_a_large_log_is_written_in_several_parts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(archive_round._MOST, archive.LOG, 10)
    machine.say("0123456789abcdef\n")
    assert machine.round()["more"]
    assert not machine.round()["more"]
    assert machine.read() == ("0123456789abcdef\n", 0)


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        ((403, "no access"), "roles/storage.objectUser"),
        ((404, "no bucket"), "correct its address"),
        ((429, "rate limit"), "the bucket answers 429 rate limit"),
        ((503, "backend"), "the bucket answers 503 backend"),
    ],
)
def test_a_refusal_is_said_and_nothing_is_lost(
    machine: Machine, lab: Objects, refusal: tuple[int, str], said: str
) -> None:
    machine.say("one\n")
    lab.refusal = refusal
    answer = machine.round()
    assert (said in answer["error"], answer["more"]) == (True, True)
    lab.refusal = None
    machine.round()
    assert machine.read() == ("one\n", 0)


def test_links_are_not_followed(machine: Machine, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    machine.log.symlink_to(secret)
    machine.log.with_name("events.jsonl").symlink_to(secret)
    machine.round()
    (machine.workdir / "best").symlink_to(secret)
    os.link(secret, machine.workdir / "named-twice")
    machine.round("results", declared=["best", "named-twice"])
    assert machine.lab.items == {}


def test_results_are_written_when_they_change(machine: Machine, lab: Objects) -> None:
    plots = machine.workdir / "plots"
    plots.mkdir()
    (plots / "a.png").write_bytes(b"A")
    outside = machine.workdir.parent / "best.npz"
    outside.write_bytes(b"B")
    declared = ["plots", str(outside), "missing"]
    for _round in range(2):
        assert machine.round("results", declared=declared)["error"] == ""
    names = [f"{PREFIX}results/plots/a.png", f"{PREFIX}results{outside}"]
    assert sorted(lab.contents) == sorted(names)
    assert sum(method == "POST" for method, _path in lab.requests) == 2
    (plots / "a.png").write_bytes(b"AA")
    machine.round("results", declared=declared)
    assert lab.contents[names[0]] == b"AA"


def test_no_more_results_are_written_than_allowed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (machine.workdir / f"{number}").write_text("x")
    assert machine.round("results", declared=["."], writes=3)["more"]
    assert len(machine.lab.items) == 3
    assert not machine.round("results", declared=["."], writes=3)["more"]
    assert len(machine.lab.items) == 4
    monkeypatch.setattr(archive, "MOST_RESULTS", 2)
    assert "only the first 2 files" in machine.round("results", declared=["."])["note"]
    monkeypatch.setattr(archive, "MOST_RESULT", 0)
    assert "more than 1 GiB" in machine.round("results", declared=["1"])["note"]
