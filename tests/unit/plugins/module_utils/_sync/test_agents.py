"""Which agents a sync signals itself, and which it leaves to systemd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import TOLD_TO_STOP
from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import RunFiles
from ansible_collections.tpu.fleet.plugins.module_utils._sync import agents

GROUP = "0::/system.slice/system-tpu.slice/tpu-fleet-run@digits.service\n"
COMMAND = b"python3\0-I\0/opt/tpu-fleet/tpu_fleet_run.py\0agent\0--definition\0x\0"
STATUS = "Name:\tx\nUid:\t{uid}\nSigBlk:\t0\nSigCgt:\t{handled:016x}\n"
HEARS = 1 << (signal.SIGHUP - 1)


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as child:
        yield child
        child.kill()


def files_of(
    root: Path,
    pid: Any,
    *,
    reason: str = "",
    group: str = GROUP,
    command: bytes = COMMAND,
    uid: str = "0 0 0 0",
    handled: int = HEARS | 1 << 14,
) -> RunFiles:
    """Write what a worker has of an agent."""
    files = RunFiles(root)
    place, process = files.states / "digits", files.processes / str(pid)
    for folder in (place, process):
        folder.mkdir(parents=True, exist_ok=True)
    (place / "status.json").write_text(json.dumps({"agent_pid": pid, "reason": reason}))
    (process / "cgroup").write_text(group)
    (process / "cmdline").write_bytes(command)
    (process / "status").write_text(STATUS.format(uid=uid, handled=handled))
    return files


def test_the_agent_in_its_unit_gets_the_signal(
    tmp_path: Path, agent: subprocess.Popen[bytes]
) -> None:
    assert agents.signalled(files_of(tmp_path, agent.pid), "digits")
    assert agent.wait(20) == -signal.SIGHUP


@pytest.mark.parametrize(
    "more",
    [
        {"reason": TOLD_TO_STOP},
        {"reason": f"{TOLD_TO_STOP}; worker 1 stands out"},
        {"group": "0::/system.slice/tpu-fleet-run@other.service\n"},
        {"group": "0::/user.slice/session-3.scope\n"},
        {"group": "0::/\n"},
        {"command": b"python3\0train.py\0"},
        {"command": b""},
        {"uid": "1000 1000 1000 1000"},
        {"uid": "0 1000 0 0"},
        {"handled": HEARS << 1},
    ],
    ids=repr,
)
def test_all_else_is_left_to_systemd(
    tmp_path: Path, agent: subprocess.Popen[bytes], more: dict[str, Any]
) -> None:
    assert not agents.signalled(files_of(tmp_path, agent.pid, **more), "digits")
    assert agent.poll() is None


@pytest.mark.parametrize("pid", [None, True, "7", 2**22 + 1, 0, -1])
def test_without_a_process_systemd_is_asked(tmp_path: Path, pid: Any) -> None:
    assert not agents.signalled(files_of(tmp_path, pid), "digits")
    assert not agents.signalled(RunFiles(tmp_path / "empty"), "digits")


def test_a_process_that_has_ended_is_none(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    files = files_of(tmp_path, child.pid)
    files.processes = Path("/proc")
    assert not agents.signalled(files, "digits")
    child.wait()
    assert not agents.signalled(files, "digits")


def test_systemd_is_asked_for_the_others_alone(
    tmp_path: Path, agent: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(words: list[str], **_more: Any) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        return subprocess.CompletedProcess(words, int(words[1] == "reload"), "", "not active\n")

    monkeypatch.setattr(agents.subprocess, "run", run)
    files = files_of(tmp_path, agent.pid)
    agents.take_up(files, ["digits", "other"], [])
    agents.take_up(files, [], [])
    assert asked == [["systemctl", "reload-or-restart", "tpu-fleet-run@other.service"]]
    with pytest.raises(OSError, match=r"systemctl reload tpu-fleet-run@other\.service: not active"):
        agents.take_up(files, [], ["other"])
