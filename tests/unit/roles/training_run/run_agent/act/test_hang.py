"""The notes of an attempt that hangs, or does not finish its start."""

from __future__ import annotations

import json
import os
import pwd
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_agent.act import evidence, hand, hang
from run_agent.decide import config
from run_definition import PUBLIC


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hang.Note:
    """Return the notes of late starts of a run, whose evidence is made up."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    run = config.parse({**PUBLIC, "user": user, "paths": {"log": str(tmp_path / "run.log")}}, {})
    found = evidence.Found({"worker": 1}, "where it stands")
    monkeypatch.setattr(evidence, "gather", lambda _config, _hand: found)
    return hang.Note(run, hand.Hand(user), "start")


def written(note: hang.Note, attempt: int) -> None:
    deadline = time.monotonic() + 20
    while not note.done(attempt):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_note_is_for_people_and_for_the_command(note: hang.Note, tmp_path: Path) -> None:
    written(note, 3)
    assert (tmp_path / "start-3.txt").read_text() == "where it stands"
    assert json.loads((tmp_path / "start-3.json").read_text()) == {"worker": 1}
    assert note.result == str(tmp_path / "start-3.txt")


def test_the_newest_five_are_kept(note: hang.Note, tmp_path: Path) -> None:
    for attempt in range(1, 8):
        written(note, attempt)
        os.utime(tmp_path / f"start-{attempt}.txt", (attempt, attempt))
        os.utime(tmp_path / f"start-{attempt}.json", (attempt, attempt))
        note.forget()
    names = {path.name for path in tmp_path.glob("start-*")}
    assert names == {f"start-{n}.{end}" for n in range(3, 8) for end in ("txt", "json")}


def test_a_full_disk_is_no_obstacle(note: hang.Note, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(note, "_hand", SimpleNamespace(create=create))
    written(note, 1)
    assert note.result == "not written: No space left on device"


def test_one_note_for_each_attempt(note: hang.Note, tmp_path: Path) -> None:
    written(note, 1)
    (tmp_path / "start-1.txt").unlink()
    written(note, 1)
    assert not (tmp_path / "start-1.txt").exists()


def of_attempt(folder: Path, attempt: int) -> dict[str, Any]:
    """Return the definition of a run whose agent is at an attempt."""
    (folder / "status.json").write_text(json.dumps({"attempt": attempt}))
    user = pwd.getpwuid(os.geteuid()).pw_name
    paths = {"log": str(folder / "run.log"), "state": str(folder), "runtime": str(folder / "r")}
    return {**PUBLIC, "user": user, "paths": paths}


@pytest.mark.parametrize(("attempt", "found"), [(7, 3), (2, 1), (0, None), (40, None)])
def test_the_newest_note_of_an_attempt_is_found(
    tmp_path: Path, attempt: int, found: int | None
) -> None:
    for number, kind in ((1, "hang"), (3, "start")):
        (tmp_path / f"{kind}-{number}.json").write_text(json.dumps({"worker": number}))
        (tmp_path / f"{kind}-{number}.txt").write_text("where it stood")
    # One that its user has written.
    (tmp_path / "hang-4.json").write_text("[" * 100_000)
    (tmp_path / "hang-5.json").write_text("[]")
    definition = of_attempt(tmp_path, attempt)
    note = hang.newest(config.parse(definition, {}), hand.Hand(definition["user"]))
    assert (note and note.evidence) == ({"worker": found} if found else None)
    assert note is None or note.text == "where it stood"
