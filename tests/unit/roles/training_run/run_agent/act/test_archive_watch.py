"""The agent's side of an archive; its rounds are processes, as in an agent."""

from __future__ import annotations

import getpass
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from object_server import Objects
from run_agent.act import archive_watch, installed
from run_agent.act.archive_watch import Archive
from run_agent.act.hand import Hand
from run_agent.decide.config import Config, Paths, Timing, parse
from run_definition import PUBLIC


def config_of(folder: Path, lab: Objects, **more: Any) -> Config:
    config = parse({**PUBLIC, "user": getpass.getuser(), "worker": 1}, {})
    paths = Paths(folder / "state", folder / "r", folder / "log/run.log")
    paths.log.parent.mkdir(exist_ok=True)
    given = {"archive": "gs://lab/all", "storage": lab.url, "metadata": "", "workdir": str(folder)}
    return replace(config, paths=paths, **{**given, **more})


def archive_of(config: Config) -> Archive:
    return Archive(config, Hand(config.user))


def settled(one: Archive, now: float, running: bool = True, hurry: bool = False) -> None:
    """Look, wait for the rounds that begin, and take them in."""
    one.look(now, running, hurry)
    for lane in one._lanes.values():
        one._take_in(lane, now, seconds=30)


def parts(lab: Objects) -> int:
    return sum("/parts/" in name for name in lab.items)


def test_what_is_new_is_written_every_half_minute(tmp_path: Path, lab: Objects) -> None:
    config = config_of(tmp_path, lab)
    one = archive_of(config)
    config.paths.log.write_text("one\n")
    settled(one, 1000.0)
    (name,) = lab.items
    assert name == f"all/demo/pair/pair-w1/{one.life}/parts/0000000000-0000000000"
    config.paths.log.write_text("one\ntwo\n")
    settled(one, 1029.0)
    assert parts(lab) == 1
    settled(one, 1031.0)
    assert parts(lab) == 2
    asked = len(lab.requests)
    settled(one, 1062.0)  # nothing is new
    assert len(lab.requests) == asked
    shown = one.shown() or {}
    assert (shown["address"], shown["life"], shown["log_at"]) == ("gs://lab/all", one.life, 8)
    assert shown["log_file"][1] == 8


def test_the_end_of_an_attempt_and_the_loss_of_the_machine_hurry(
    tmp_path: Path, lab: Objects
) -> None:
    config = config_of(tmp_path, lab, results=["best"])
    (tmp_path / "best").write_text("x")
    one = archive_of(config)
    config.paths.log.write_text("one\n")
    settled(one, 1000.0)
    config.paths.log.write_text("one\ntwo\n")
    settled(one, 1006.0, hurry=True)
    assert parts(lab) == 2
    (tmp_path / "best").write_text("xx")
    one.soon()
    settled(one, 1007.0, running=False)
    (best,) = [name for name in lab.items if name.endswith("/results/best")]
    assert lab.contents[best] == b"xx"
    (tmp_path / "best").write_text("xxx")
    settled(one, 2000.0, running=False)
    assert lab.contents[best] == b"xx"  # no program runs, so nothing has changed it


def test_an_agent_goes_on_in_the_life_of_its_machine(tmp_path: Path, lab: Objects) -> None:
    config = config_of(tmp_path, lab)
    config.paths.log.write_text("one\n")
    first = archive_of(config)
    settled(first, 1000.0)
    second = archive_of(config)
    assert second.life == first.life
    settled(second, 1000.0)
    assert parts(lab) == 1
    elsewhere = archive_of(replace(config, archive="gs://lab/other"))
    assert elsewhere.life != first.life


def test_the_last_round_waits_for_no_slow_bucket(
    tmp_path: Path, lab: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path, lab)
    config.paths.log.write_text("one\n")
    one = archive_of(config)
    one.finish()
    assert parts(lab) == 1
    config.paths.log.write_text("one\ntwo\n")
    lab.delay = 20.0
    monkeypatch.setattr(archive_watch, "_LAST", 0.5)
    begun = time.monotonic()
    one.finish()
    assert time.monotonic() - begun < 5


def test_what_stands_in_the_way_is_a_problem_when_it_lasts(tmp_path: Path, lab: Objects) -> None:
    one = archive_of(config_of(tmp_path, lab, timing=Timing(lost=30, archive_late=0.0)))
    (tmp_path / "log/run.log").write_text("one\n")
    lab.refusal = (403, "no")
    settled(one, time.monotonic())
    assert one.problem.startswith("archive: 0m behind: the bucket refuses (403): give the")
    lab.refusal = None
    settled(one, time.monotonic() + 31)
    assert one.problem == ""
    patient = archive_of(config_of(tmp_path, lab, archive="gs://gone/all"))
    settled(patient, time.monotonic())
    assert patient.problem == ""


@pytest.mark.parametrize(
    "answer", ["", "[]", '{"state": 3}', '{"error": ["\\u001b"]}', "x" * 200_000]
)
def test_an_answer_that_is_none_changes_nothing(
    tmp_path: Path, lab: Objects, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "command", lambda *_words: ["/bin/echo", answer[:120_000] * 2])
    one = archive_of(config_of(tmp_path, lab))
    settled(one, 1000.0)
    kept = json.loads((tmp_path / "state/archive.json").read_text())
    assert (kept["parts"], kept["life"]) == ({}, one.life)
    assert one.problem.isprintable()


def test_without_an_archive_nothing_is_asked(tmp_path: Path, lab: Objects) -> None:
    one = archive_of(config_of(tmp_path, lab, archive=""))
    settled(one, 1000.0)
    one.finish()
    assert (one.shown(), one.problem, lab.requests) == (None, "", [])
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("more", "host"),
    [
        ({"hosts": ["a"], "worker": 0}, "pair"),
        ({"hosts": ["a", "b"], "worker": 1}, "pair-w1"),
        (
            {"slices": [["a", "b"], ["c", "d"]], "hosts": ["a", "b", "c", "d"], "worker": 2},
            "pair-w0",
        ),
        ({"slices": [["a"], ["b"]], "hosts": ["a", "b"], "worker": 1}, "pair"),
    ],
)
def test_a_worker_has_the_name_that_the_fleet_gives_it(
    tmp_path: Path, lab: Objects, more: dict[str, Any], host: str
) -> None:
    assert archive_of(config_of(tmp_path, lab, **more)).host == host
