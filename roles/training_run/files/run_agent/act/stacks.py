"""Where a program that hangs stands: written down before it is ended.

Three ways, each where it works: py-spy, if the run's environment or the host has it; the stacks of
Python, which every Python process of a run with `hang_seconds` writes to its own log on a signal
(hang_hook/sitecustomize.py); and what the kernel knows of every thread. A process that does not
wait for the signal never gets it: it would end by it, without the chance to save.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from ..decide.config import Config
from . import as_user, processes, terminal
from .hand import Hand

SIGNAL = 59  # a real-time signal, which nothing else uses; the hook knows the same number
_PY_SPY_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_LOOKS = 10  # on a host that is very busy; otherwise it is two
_LOG_BYTES = 256 * 1024
_KEPT = 5


def py_spy(config: Config) -> list[str] | None:
    """Return how to start py-spy, if it is there; as root where only root can change it."""
    places = [config.venv + "/bin"] if config.venv else []
    places += ["/usr/local/bin", "/usr/bin"]
    found = [Path(os.path.realpath(folder), "py-spy") for folder in places]
    found = [path for path in found if path.is_file()]
    for path in found:
        if terminal.only_roots(path) and _is_program(path):
            return [str(path)]
    # With ptrace_scope 1, as Ubuntu has it, a user's own py-spy may look at its children only.
    return as_user.command_as(config.user, [str(found[0])]) if found else None


def _is_program(path: Path) -> bool:
    # A script would have its interpreter looked up elsewhere.
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def _by_py_spy(command: Sequence[str], pid: int) -> str:
    words = [*command, "dump", "--pid", str(pid)]
    try:
        done = as_user.run(words, seconds=_PY_SPY_SECONDS, most_bytes=_LOG_BYTES)
    except (OSError, as_user.UserError) as error:
        return f"py-spy: {error}\n"
    return (done.out + done.err).decode("utf-8", "replace")


def write(config: Config, hand: Hand, pids: Sequence[int], target: Path, title: str) -> None:
    """Write down where the run's processes stand; raises OSError when the disk does not take it."""
    parts = [title, ""]
    uid = terminal.uid_of(config.user)
    pids = [pid for pid in pids if processes.belongs_to(pid, uid)]
    command = py_spy(config)
    log = config.paths.log
    begun = _size(hand, log)
    waiting = processes.send([pid for pid in pids if processes.catches(pid, SIGNAL)], SIGNAL, uid)
    for pid in sorted(pids):
        parts.append(f"== process {pid}: {processes.command_line(pid)}")
        if command and processes.is_python(pid):
            parts.append(_by_py_spy(command, pid))
        parts += processes.threads(pid)
        parts.append("")
    if waiting:
        _wait_for_the_log(hand, log, begun)
        shown = ", ".join(map(str, sorted(waiting)))
        parts.append(f"== what they wrote themselves (Python's stacks of {shown}), as in the log")
        size = _size(hand, log)
        start = begun if begun <= size else 0
        parts.append(hand.read(log, _LOG_BYTES, start).decode("utf-8", "replace").replace("\r", ""))
    hand.create(target, "\n".join(parts).encode("utf-8", "replace"))
    hand.keep_newest(target.parent, "hang-*.txt", _KEPT)


def _wait_for_the_log(hand: Hand, path: Path, begun: int) -> None:
    """Let tmux take what they write to the log: it has changed, and then stands still."""
    before = begun
    for _look in range(_LOOKS):
        time.sleep(_LOOK_SECONDS)
        size = _size(hand, path)
        if size == before != begun:
            return
        before = size


def _size(hand: Hand, path: Path) -> int:
    found = hand.stamp(path)
    return found[1] if found else 0
