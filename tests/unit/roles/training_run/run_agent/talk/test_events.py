"""The event log: whole lines, full disks, odd files."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from run_agent.act import (
    hand,
    user_files,
)
from run_agent.talk import events

ME = hand.Hand(pwd.getpwuid(os.geteuid()).pw_name)


def log_in(folder: Path, **more: Any) -> events.EventLog:
    given: dict[str, Any] = {"limit": 1000, "keep": 2, "prepare": lambda: None, "hand": ME, **more}
    return events.EventLog(folder / "log/events.jsonl", folder / "memory/events.jsonl", **given)


def told(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def test_events_are_whole_lines_in_files_that_rotate(tmp_path: Path) -> None:
    log = log_in(tmp_path, limit=40, prepare=lambda: (tmp_path / "log").mkdir(exist_ok=True))
    for number in range(20):
        log.write({"n": number})
    files = [log.path.with_name(f"events.jsonl{end}") for end in (".2", ".1", "")]
    kept = [number for path in files for number in told(path)]
    assert kept == list(range(20))[-len(kept) :]
    assert len(kept) >= 10
    assert all(path.stat().st_size <= 40 for path in files)


def test_events_of_a_full_disk_follow_later(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.write({"n": 1})  # the folder is not there
    log.write({"n": 2})
    assert "cannot be written" in log.error
    (tmp_path / "log").mkdir()
    log.catch_up()
    assert (told(log.path), log.error, log.spare.exists()) == ([1, 2], "", False)
    log.write({"n": 3})
    assert told(log.path) == [1, 2, 3]


def test_an_event_after_half_a_line_stands_alone(tmp_path: Path) -> None:
    log = log_in(tmp_path, prepare=lambda: None)
    log.path.parent.mkdir()
    log.path.write_text('{"n": 1}\n{"n":')
    log.write({"n": 2})
    assert log.path.read_text().splitlines()[-1] == '{"n":2}'


@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe"])
def test_root_is_led_nowhere_by_the_users_folder(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "shadow"
    secret.write_text("secret\n")
    log = log_in(tmp_path)
    log.path.parent.mkdir()
    if kind == "symlink":
        log.path.symlink_to(secret)
    elif kind == "hard link":
        os.link(secret, log.path)
    else:
        os.mkfifo(log.path)
    log.write({"n": 1})
    assert secret.read_text() == "secret\n"
    assert user_files.tail(log.path, 100) == b""
    assert told(log.spare) == [1]
    assert log.spare.stat().st_mode & 0o777 == 0o600
