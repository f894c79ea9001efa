"""What people ask of an agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from run_agent import cli
from run_agent.decide import config
from run_definition import USUAL

SLEEP = "import time; print(flush=True); time.sleep(600)"
# Dies of the signal that asks an agent to try again, as whatever has its number by then would.
OTHER = [sys.executable, "-c", SLEEP]
AGENT = [sys.executable, "-c", SLEEP, "/opt/tpu_fleet_run.py", "agent", "--definition", "demo.json"]


@pytest.mark.parametrize(
    ("words", "ask", "code"), [(OTHER, "again", 1), (OTHER, "check", 1), (AGENT, "check", 0)]
)
def test_a_number_that_is_another_process_by_now_is_no_agent(
    tmp_path: Path, words: list[str], ask: str, code: int
) -> None:
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert command(tmp_path, process.pid)(ask) == code
            assert process.poll() is None
        finally:
            process.kill()


def test_one_that_is_gone_is_none(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        process.wait()
    assert command(tmp_path, process.pid)("again") == 1
    assert command(tmp_path, os.getpid(), worker=1)("again") == 2


def test_another_user_is_told_to_use_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    with subprocess.Popen(AGENT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            ask = command(tmp_path, process.pid)
            monkeypatch.setattr(os, "kill", refuse)
            assert ask("again") == 2
        finally:
            monkeypatch.undo()
            process.kill()
    assert capsys.readouterr().err == "the agent is root's: sudo tpu-fleet-run again demo\n"


def command(folder: Path, pid: int, worker: int = 0) -> Callable[[str], int]:
    """Return the commands of a run whose status names an agent."""
    public = {
        **USUAL,
        "run": "demo", "user": "alice", "command": "true", "workdir": "/", "worker": worker,
        "hosts": ["10.0.0.2", "10.0.0.3"], "port": 1, "peer_port": 1, "coordinator_port": 2,
        "paths": {"state": str(folder / "state"), "runtime": str(folder / "r")},
    }  # fmt: skip
    (folder / "demo.json").write_text(json.dumps(public))
    (folder / "state").mkdir(exist_ok=True)
    status = {
        "agent_pid": pid, "definition": config.definition_of(public, {}),
        "state": "running", "attempt": 1, "pid": None, "reason": "",
    }  # fmt: skip
    (folder / "state/status.json").write_text(json.dumps(status))
    return lambda ask: cli.main([ask, "demo", "--definitions", str(folder), "--wait", "0"])
