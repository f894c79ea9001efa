"""A gang that an earlier version runs keeps its attempt while this one is put over it.

Needs the repository's history, and takes agents of two versions that talk with each other.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

harness = sys.modules["run_agent_harness"]

# In CI tests/unit/roles/training_run/run_agent/talk/test_wire_bytes.py has the bytes of the gang,
# and tests/unit/roles/test_definitions.py the order of the files.
pytestmark = pytest.mark.night

FIRST_RELEASE = "fc0d642b"
FILES = "roles/training_run/files"
NEWER_PATHS = ("cache",)
"""The places of a worker that the first release does not know."""


def installed(place: Path) -> Path:
    """Install the agent of the first release; return its folder."""
    names = [FILES, "plugins/module_utils/_core", "plugins/module_utils/_host"]
    archive = subprocess.run(
        ["git", "archive", FIRST_RELEASE, *names], cwd=harness.ROOT, capture_output=True, check=True
    ).stdout
    place.mkdir()
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive, check=True)
    shutil.copytree(place / FILES, place / "opt")  # and what its links lead to
    return place / "opt"


def put_over(folder: Path) -> None:
    """Do what the role does: write the rooms, then what imports them, and remove what is old."""
    new = [path.relative_to(harness.ROOT / FILES) for path in (harness.ROOT / FILES).rglob("*.py")]
    for path in sorted(new, key=lambda path: (-len(path.parts), path)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(harness.ROOT / FILES / path, folder / path)
    for path in (folder / "run_agent").rglob("*.py"):
        if path.relative_to(folder) not in new:
            path.unlink()


def test_a_gang_of_the_first_release_keeps_its_attempt(
    gang: Callable[..., list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The role writes no paths; those of the test have to be known to the agent that reads them.
    workers = gang("exec sleep 1000", paths=dict.fromkeys(NEWER_PATHS))
    folders = [installed(tmp_path / str(worker.index)) for worker in workers]
    assert (folders[0] / "run_agent" / "wire.py").exists()
    for worker, folder in zip(workers, folders, strict=True):
        monkeypatch.setattr(harness, "SCRIPT", folder / "tpu_fleet_run.py")
        worker.up()
    attempt = max(worker.wait(state="running")["attempt"] for worker in workers)
    pids = [worker.wait_running(attempt) for worker in workers]
    ended = [len(worker.events("attempt-ended")) for worker in workers]

    for number in (1, 0):  # once the new one is led by the old one, then both are new
        worker, folder = workers[number], folders[number]
        put_over(folder)
        worker.define({**worker.given, "paths": {}})
        assert not (folder / "run_agent" / "wire.py").exists()
        worker.send(signal.SIGHUP)
        harness.wait_until(lambda one=worker: len(one.events("agent-started")) == 2, "a new agent")
        # A gang whose agents did not understand each other would end its attempt.
        time.sleep(harness.TIMING["lost"] + 2)
        for other, pid in zip(workers, pids, strict=True):
            assert other.wait_running(attempt) == pid
    assert [len(worker.events("attempt-ended")) for worker in workers] == ended
    os.kill(pids[1], signal.SIGKILL)
    for worker in workers:
        assert worker.wait_running(attempt + 1) not in pids
