"""What a worker reports of its runs' past."""

from __future__ import annotations

import ast
import getpass
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import listing
from event_file import event, record

from tpu_fleet import on_worker
from tpu_fleet.on_worker import log_places, past
from tpu_fleet.on_worker.log_files import Open
from tpu_fleet.on_worker.run_reader import BEGINNING
from tpu_fleet.on_worker.runs import LOG_LEAST, RunFiles
from tpu_fleet.workers.ask.worker_program import modules, past_commands, program


def line(at: float, name: str = "hang", **more: Any) -> str:
    return json.dumps({"at": at, "worker": 0, "attempt": 1, "event": name, **more}) + "\n"


def names(log: Path, place: Any) -> tuple[list[float], Any]:
    events, after = past.events_after(log, place)
    return [event["at"] for event in events], after


def test_events_are_told_once_also_when_the_log_rotates(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    assert names(log, None) == ([], None)
    log.write_text(line(1) + line(2) + line(3)[:10])
    told, place = names(log, None)
    assert told == [1, 2]
    log.write_text(line(1) + line(2) + line(3))
    told, place = names(log, place)
    assert told == [3]
    log.rename(tmp_path / "events.jsonl.1")
    log.write_text(line(4))
    told, place = names(log, place)
    assert told == [4]
    assert names(log, place)[0] == []
    # Another machine has another log: all of it is new.
    assert names(log, ["another file", 5, 5])[0] == [1, 2, 3]


def test_much_is_told_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "AT_ONCE", 1000)
    log = tmp_path / "events.jsonl"
    log.write_text("".join(line(n) for n in range(1, 101)))
    found: list[float] = []
    place: Any = None
    for _time in range(20):
        told, place = names(log, place)
        found += told
    assert found == list(range(1, 101))


@pytest.mark.parametrize("place", ["x", 5, [1], ["a", "b", "c"], {"a": 1}, ["x", -5, 0]])
def test_a_place_that_nobody_gave_out_harms_nothing(tmp_path: Path, place: Any) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text(line(1))
    assert names(log, place)[0] in ([1], [])


def test_what_its_user_wrote_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text("[]\n{}\nnull\n{\n" + '{"event": 5}\n' + "[" * 50_000 + "\n" + line(1, tail="x"))
    (told,), _place = past.events_after(log, None)
    assert told == {"at": 1, "attempt": 1, "event": "hang"}


def test_curves_are_of_worker_0(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "events.tfevents").write_bytes(record(event(5.0, 1, {"loss": 0.5})))
    files = RunFiles(tmp_path)
    for worker in (0, 1):
        status = {"user": getpass.getuser(), "checkpoint_dir": str(saved), "worker": worker}
        folder = files.states / f"r{worker}"
        folder.mkdir(parents=True)
        (folder / "status.json").write_text(json.dumps(status))
    told = past.past_of(files, "r0", None)
    assert told["curves"] == {"loss": [[5.0, 1, 0.5]]}
    assert past.past_of(files, "r0", told["place"])["curves"] == {}
    assert past.past_of(files, "r1", None)["curves"] == {}


def test_a_share_that_hangs_holds_nobody_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = {"user": getpass.getuser(), "checkpoint_dir": str(tmp_path)}
    monkeypatch.setattr(past, "SECONDS", 0.3)
    monkeypatch.setattr(past, "curves", lambda *_: time.sleep(60))
    begun = time.monotonic()
    assert past.of_user(status, None) == {}
    assert time.monotonic() - begun < 10
    files = RunFiles(tmp_path)
    folder = files.states / "digits"
    folder.mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps({**status, "worker": 0}))
    asked: list[Any] = []
    monkeypatch.setattr(past, "of_user", lambda *given: asked.append(given) or {})
    for hurry in (True, False):
        assert past.past_of(files, "digits", None, hurry)["curves"] == {}
    assert len(asked) == 1


def test_it_is_for_the_pythons_of_workers() -> None:
    for _name, text in modules(on_worker.PAST):
        ast.parse(text, feature_version=(3, 8))


def test_the_watchers_question_is_answered() -> None:
    argv = [sys.executable, "-I", "-", json.dumps({"places": {}})]
    text = program(*on_worker.PAST).encode()
    done = subprocess.run(argv, input=text, capture_output=True, check=True)
    assert {"now", "boot_id", "runs", "set_up", "applied", "used"} == set(json.loads(done.stdout))


def test_the_question_of_the_page_is_answered() -> None:
    class Target:
        name = "pair-w0"

    text = past_commands({"pair-w0": {"digits": {"events": None}}})(Target())  # type: ignore[arg-type]
    command = text.replace("/usr/bin/python3", sys.executable)
    # It is one word of a command line for all that.
    assert len(command) < 120_000
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True)
    first, _piece, answer = done.stdout.splitlines()
    assert first.decode() == BEGINNING
    assert set(json.loads(answer)) == {"now", "boot_id", "runs", "disk"}


def test_a_log_of_any_size_is_searched_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user can make it 2 TiB long, without any bytes on the disk."""
    log = tmp_path / "events.jsonl"
    log.write_text(line(1) + line(2))
    _told, place = names(log, None)
    log.write_text("x" * len(log.read_text()))
    os.truncate(log, 1 << 41)
    mapped, parts = log_places.mapped, []

    def noted(one: Open, begin: int, end: int) -> Any:
        parts.append(end - begin)
        return mapped(one, begin, end)

    monkeypatch.setattr(log_places, "mapped", noted)
    for _question in range(3):
        told, place = names(log, place)
        assert told == []
    assert names(log, [place[0], (1 << 41) - 5, 5])[0] == []
    assert parts
    assert max(parts) <= 2 * log_places.SEARCHED
    assert place[1] >= (1 << 41) - LOG_LEAST


@pytest.mark.parametrize(
    "value", ["9" * 3000, "[" * 60 + "]" * 60, '{"a": {"b": 1}}', '"' + "x" * 3000 + '"', "1e999"]
)
def test_what_a_user_writes_into_an_event_is_bounded(tmp_path: Path, value: str) -> None:
    log = tmp_path / "events.jsonl"
    keys = ", ".join(f'"{key}": {value}' for key in past.SHOWN if key not in ("at", "event"))
    log.write_text(f'{{"at": 1, "event": "hang", {keys}}}\n' + line(2))
    told, _place = past.events_after(log, None)
    assert [event["at"] for event in told] == [1, 2]
    answer = {"now": 1.0, "boot_id": "b", "runs": [{"run": "a", "past": {"events": told}}]}
    text = json.dumps(answer)
    assert len(text) < 20_000
    assert len(listing("w", text).runs) == 1


def test_the_events_of_one_run_leave_room_for_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = RunFiles(tmp_path)
    monkeypatch.setattr(past, "RunFiles", lambda: files)
    monkeypatch.setattr(past.sys, "argv", ["past", '{"framed": true}'])
    monkeypatch.setattr(files, "boot_id", lambda: "b")
    monkeypatch.setattr(past, "ALTOGETHER", 3000)
    for run in ("alices", "bobs", "carols"):
        (files.states / run).mkdir(parents=True)
        (files.states / run / "status.json").write_text(json.dumps({"run": run}))
        (files.logs / run).mkdir(parents=True)
        (files.logs / run / "events.jsonl").write_text(line(1))
    # More than fits, in whatever order they are looked at.
    (files.logs / "alices/events.jsonl").write_text("".join(line(n) for n in range(200)))
    past.main()
    runs = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert [one["run"] for one in runs if one.get("past")] == ["bobs", "carols"]
