"""Locks that only root holds, for a limited time, and whose holder is named."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import locks, state
from ansible_collections.tpu.fleet.plugins.module_utils._host.locks import (
    HeldError,
    attempt,
    holder,
    locked,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import ahead

ROOT = Path(__file__).resolve().parents[5]
ME = pwd.getpwuid(os.getuid()).pw_name


def held_by_another(path: Path) -> subprocess.Popen[bytes]:
    """Start a process that holds a lock."""
    program = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'a'); fcntl.flock(file, fcntl.LOCK_EX);"
        "print(flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_one_has_it_and_the_next_gets_it(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "one"
    with locked(path), attempt(path) as free:
        assert not free
    with attempt(path) as free:
        assert free
    with locked(path):
        pass


def test_a_held_lock_costs_its_limit_and_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "one"
    with locked(path):
        pass
    with held_by_another(path) as process:
        try:
            begun = time.monotonic()
            with pytest.raises(HeldError) as caught, locked(path, 0.3):
                pass
            assert 0.3 <= time.monotonic() - begun < 60
            held = rf"process {process.pid} \(python[\d.]*\) of {ME}"
            assert re.fullmatch(
                rf"{re.escape(str(path))} has been locked for more than 0 seconds by {held}\. "
                r"Wait for it, or end it: nothing is lost\. Then try again\.",
                str(caught.value),
            )
        finally:
            process.send_signal(signal.SIGKILL)
    with locked(path, 20):
        pass
    assert holder(path) == "another process"


def test_a_lock_that_others_can_open_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    with attempt(folder / "one"):
        pass
    assert (folder.stat().st_mode & 0o777, (folder / "one").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )
    (folder / "one").chmod(0o644)
    with attempt(folder / "one") as free:
        assert free  # nobody enters the folder
    folder.chmod(0o755)
    with pytest.raises(OSError, match="others can open this lock"), attempt(folder / "one"):
        pass
    (folder / "one").chmod(0o600)
    with attempt(folder / "one") as free:
        assert free  # nobody opens the file
    (folder / "link").symlink_to(folder / "one")
    with pytest.raises(OSError, match="symbolic link"), attempt(folder / "link"):
        pass


def test_no_user_opens_the_locks_of_an_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that holds what older versions locked delays no other."""
    monkeypatch.setattr(ahead, "LOCK", tmp_path / state.LOCKS / "venvs")
    for old in (tmp_path / ".lock", tmp_path / "venvs.lock"):
        old.touch()
    with (tmp_path / ".lock").open() as one, (tmp_path / "venvs.lock").open() as two:
        for stream in (one, two):
            fcntl.flock(stream, fcntl.LOCK_EX)
        state.record("host_base", {"hash": "x"}, state_dir=tmp_path)
        with ahead.alone() as free:
            assert free
    assert (tmp_path / state.LOCKS).stat().st_mode & 0o777 == 0o700
    assert {path.name for path in (tmp_path / state.LOCKS).iterdir()} == {"state", "venvs"}


def test_all_locks_on_machines_are_these() -> None:
    """A lock elsewhere could be opened, and so held, by any user."""
    places = [ROOT / "plugins/module_utils", ROOT / "src/tpu_fleet/on_worker"]
    places += [ROOT / "plugins/modules", *ROOT.glob("roles/*/files")]
    found = {
        str(path.resolve().relative_to(ROOT))
        for place in places
        for path in place.rglob("*.py")
        if re.search(r"\b(flock|lockf)\(", path.read_text(encoding="utf-8"))
    }
    # The profiler has the rights of the run's user, and waits for nothing that holds its lock.
    assert found == {"plugins/module_utils/_host/locks.py", "src/tpu_fleet/on_worker/profiler.py"}
    assert locks.SECONDS <= 60
