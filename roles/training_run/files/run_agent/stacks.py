"""Where a program that hangs stands: written down before it is ended.

Three ways, each where it works: py-spy, if the run's environment or the host has it; the stacks of
Python, which every Python process of a run with `hang_seconds` writes to its own log on a signal
(hang_hook/sitecustomize.py); and what the kernel knows of every thread. A process that does not
wait for the signal never gets it: it would end by it, without the chance to save.
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path
from typing import List, Optional, Sequence

from . import processes, terminal, user_files
from .config import Config

SIGNAL = 59  # a real-time signal, which nothing else uses; the hook knows the same number
_PY_SPY_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_LOOKS = 10  # on a host that is very busy; otherwise it is two
_LOG_BYTES = 256 * 1024
_KEPT = 5


def only_roots(path: Path) -> bool:
    """Say whether nobody but root can change a program: only then root may run it."""
    for place in (path, *path.parents):
        try:
            found = place.stat()
        except OSError:
            return False
        if found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return True


def py_spy(config: Config) -> Optional[List[str]]:
    """Return how to start py-spy, if it is there."""
    places = [config.venv + "/bin"] if config.venv else []
    for folder in [*places, "/usr/local/bin", "/usr/bin"]:
        path = Path(os.path.realpath(folder), "py-spy")
        if path.is_file():
            mine = [] if only_roots(path) else terminal.become(config.user)
            return [*mine, str(path)]
    return None


def _by_py_spy(command: Sequence[str], pid: int) -> str:
    try:
        done = subprocess.run(
            [*command, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PY_SPY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"py-spy: {error}\n"
    return done.stdout.decode("utf-8", "replace")


def write(config: Config, pids: Sequence[int], target: Path, title: str) -> None:
    """Write down where these processes stand; raises OSError when the disk does not take it."""
    parts = [title, ""]
    command = py_spy(config)
    begun = _size(config.paths.log)
    waiting = [pid for pid in pids if processes.catches(pid, SIGNAL)]
    processes.send(waiting, SIGNAL)
    for pid in sorted(pids):
        parts.append(f"== process {pid}: {processes.command_line(pid)}")
        if command and processes.is_python(pid):
            parts.append(_by_py_spy(command, pid))
        parts += processes.threads(pid)
        parts.append("")
    if waiting:
        _wait_for_the_log(config.paths.log, begun)
        shown = ", ".join(map(str, sorted(waiting)))
        parts.append(f"== what they wrote themselves (Python's stacks of {shown}), as in the log")
        size = _size(config.paths.log)
        start = begun if begun <= size else 0
        parts.append(
            user_files.read(config.paths.log, _LOG_BYTES, start)
            .decode("utf-8", "replace")
            .replace("\r", "")
        )
    user_files.create(target, "\n".join(parts).encode("utf-8", "replace"))
    _forget_old(target)


def _wait_for_the_log(path: Path, begun: int) -> None:
    """Let tmux take what they write to the log: it has changed, and then stands still."""
    before = begun
    for _look in range(_LOOKS):
        time.sleep(_LOOK_SECONDS)
        size = _size(path)
        if size == before != begun:
            return
        before = size


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _forget_old(target: Path) -> None:
    found = sorted(target.parent.glob("hang-*.txt"), key=lambda path: path.lstat().st_mtime)
    for path in found[:-_KEPT]:
        path.unlink()
