"""Helper processes of a cloud, one of each kind, independent of the API server."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from .layout import Layout, locked
from .patience import wait_for

START_LIMIT = 5.0
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _lock(layout: Layout, name: str) -> Path:
    return layout.run_dir / f"{name}.lock"


def sole(layout: Layout, name: str) -> IO[str] | None:
    """Take the lock of the helper of this name; return None if one runs already."""
    handle = _lock(layout, name).open("a+")
    # Callers that only check for a helper hold the lock too, for a moment.
    if not wait_for(lambda: _try_lock(handle), 1):
        handle.close()
        return None
    handle.seek(0)
    handle.truncate()
    handle.write(f"{os.getpid()}\n")
    handle.flush()
    return handle


def helper_pid(layout: Layout, name: str) -> int | None:
    """Return the running helper's process id."""
    try:
        handle = _lock(layout, name).open("r+")
    except FileNotFoundError:
        return None
    with handle:
        if _try_lock(handle):
            return None
        text = handle.read().strip()
        return int(text) if text else None


def _try_lock(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def enter_network(pid: int) -> None:
    """Let this thread be in the network of a process."""
    with open(f"/proc/{pid}/ns/net") as space:
        if _libc.setns(space.fileno(), _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def start_helper(
    layout: Layout, name: str, module: str, *words: str, wrap: Sequence[str] = ()
) -> None:
    """Start a module as the helper of this name, unless it runs."""
    if helper_pid(layout, name) is not None:
        return
    with locked(layout.run_dir / f"{name}.starting.lock"):
        if helper_pid(layout, name) is None:
            _start(layout, name, module, words, wrap)
            # Otherwise the next caller would start a second one.
            wait_for(lambda: helper_pid(layout, name) is not None, START_LIMIT)


def _start(
    layout: Layout, name: str, module: str, words: Sequence[str], wrap: Sequence[str]
) -> None:
    with (layout.home / f"{name}.log").open("a") as output:
        # Through a shell that exits immediately, so that the helper is a child of init.
        command = [*wrap, sys.executable, "-m", module, str(layout.state_dir), *words]
        subprocess.run(
            ["sh", "-c", '"$@" &', "sh", *command],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )


def stop_helper(layout: Layout, name: str) -> None:
    """End the helper of this name, if it runs."""
    pid = helper_pid(layout, name)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        wait_for(lambda: helper_pid(layout, name) is None, 5)
