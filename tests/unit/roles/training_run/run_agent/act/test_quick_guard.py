"""The checkpoint folder as a worker without a mark to write sees it when an attempt begins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from run_agent.act.quick_guard import QuickGuard
from waiting import wait_until

OWN = {"attempt": 3, "owner": "ours"}


def guard_of(folder: Path, every: float = 0.05) -> QuickGuard:
    told = {"path": str(folder / ".fence"), "mark": OWN, "write": False}
    order = {"fence": told, "folder": str(folder), "look_every": every, "checkpoints_every": 0.1}
    return QuickGuard(order)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ({"attempt": 2, "owner": "ours"}, ""),
        ({"attempt": 3, "owner": "ours"}, ""),
        ({"attempt": 3, "owner": "ours", "ended": True}, "attempt 3 has ended, as the fence says"),
        ({"attempt": 4, "owner": "ours"}, "fenced by attempt 4"),
        ({"attempt": 2, "owner": "theirs"}, ""),
        ({"attempt": 3, "owner": "theirs", "where": "there"}, "fenced by attempt 3 on there"),
        ({"attempt": "2", "owner": "ours"}, ""),
        ({"attempt": True, "owner": "ours"}, ""),
        ({}, ""),
    ],
)
def test_it_says_what_the_guard_says(tmp_path: Path, mark: dict[str, Any], said: str) -> None:
    (tmp_path / ".fence").write_text(json.dumps(mark))
    found = guard_of(tmp_path)
    assert found.claim() == said
    assert found._whole().claim() == said


def test_of_its_own_gang_or_of_none_no_guard_is_needed(tmp_path: Path) -> None:
    found = guard_of(tmp_path)
    assert found.claim() == ""
    (tmp_path / ".fence").write_text("not json")
    assert found.claim() == ""
    (tmp_path / ".fence").write_text(json.dumps({"attempt": 2, "owner": "ours"}))
    assert (found.claim(), found._guard) == ("", None)
    (tmp_path / ".fence").write_text(json.dumps({"attempt": 2, "owner": "theirs"}))
    assert (found.claim(), found._guard is None) == ("", False)


def test_the_guard_is_in_memory_before_it_looks(tmp_path: Path) -> None:
    """The files may be replaced until then; a guard of two versions would fail in silence."""
    found = guard_of(tmp_path, every=60.0)
    found.watch(os.getpid())
    wait_until(lambda: found._guard is not None, "it is imported", 20)


def test_a_program_that_is_shut_out_later_is_killed(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        found = guard_of(tmp_path)
        found.watch(child.pid)
        until = time.monotonic() + 20
        while not (tmp_path / "checkpoints.json").exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert (child.poll(), found.shut_out) == (None, "")
        (tmp_path / ".fence").write_text(json.dumps({"attempt": 4, "owner": "theirs"}))
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert found.shut_out == "fenced by attempt 4"
        assert child.wait(20) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()
