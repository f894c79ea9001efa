"""Where the Python code of a run's processes stands.

Two ways, each where it works: py-spy, if the run's environment or the host has it; and the stacks
that each Python process of a run writes to the run's file on a signal (python_hook). A process that
does not wait for the signal, or has closed the file, never gets it: it would end by it, or write
into another file.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..decide import python_stacks
from ..decide.config import Config
from ..decide.python_stacks import Frames
from . import as_user, kernel_view, locks, processes, terminal
from .hand import Hand

SIGNAL = 59  # a real-time signal, which nothing else uses; the hook knows the same number
_PY_SPY_SECONDS = 5.0
_PAUSE = 0.01
_STILL = 3  # pauses without more: on a busy machine it may be stopped in between
_ONE_SECONDS = 1.0  # that a process is waited for; nearly always it is a hundredth of that
_ALL_SECONDS = 5.0
_LOCK_SECONDS = 5.0
_MOST_BYTES = 1024 * 1024
_FIRST_FILES = 64  # the hook opens its file before the program opens any


@dataclass(frozen=True)
class Said:
    """What one process, or py-spy, said of its threads."""

    by: str = ""
    text: str = ""
    threads: dict[int, Frames] = field(default_factory=dict)
    why_not: str = ""


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


def said_by(config: Config, hand: Hand, pids: Sequence[int]) -> dict[int, Said]:
    """Return the stacks of those of the processes that are Python's and the user's."""
    uid = terminal.uid_of(config.user)
    command = py_spy(config)
    asked = [pid for pid in pids if processes.belongs_to(pid, uid)]
    found = {pid: _by_py_spy(command, pid) for pid in asked if command and processes.is_python(pid)}
    rest = [pid for pid in asked if not found.get(pid, Said()).threads]
    deadline = time.monotonic() + _ALL_SECONDS
    with _one_at_a_time(config) as why_not:
        for pid in rest:
            own = Said(why_not=why_not) if why_not else _by_itself(config, hand, pid, deadline)
            before = found.get(pid, Said())
            found[pid] = own if own.threads or not before.why_not else before
    return found


def _by_py_spy(command: Sequence[str], pid: int) -> Said:
    words = [*command, "dump", "--json", "--pid", str(pid)]
    try:
        done = as_user.run(words, seconds=_PY_SPY_SECONDS, most_bytes=_MOST_BYTES)
    except (OSError, as_user.UserError) as error:
        return Said(why_not=f"py-spy: {error}")
    threads = python_stacks.of_py_spy(done.out)
    if not threads:
        said = done.err.decode("utf-8", "replace").strip()
        return Said(why_not=f"py-spy: {said[:300] or 'it found no thread'}")
    return Said("py-spy", python_stacks.shown(threads), threads)


@contextlib.contextmanager
def _one_at_a_time(config: Config) -> Iterator[str]:
    """Yield why the file cannot be used; empty while no other process asks for stacks."""
    with contextlib.ExitStack() as held:
        try:
            lock = config.paths.runtime / "why" / "stacks.lock"
            held.enter_context(locks.locked(lock, _LOCK_SECONDS))
            why_not = ""
        except OSError as error:
            why_not = str(error)
        yield why_not


def _by_itself(config: Config, hand: Hand, pid: int, deadline: float) -> Said:
    """Have a process write its stacks, and read them."""
    path = config.paths.stacks
    state = kernel_view.state_of(pid)
    if state in "TtZX":
        return Said(why_not="it is stopped" if state in "Tt" else "it has ended")
    if not processes.catches(pid, SIGNAL) or not _has_open(pid, path):
        return Said(
            why_not="" if not processes.is_python(pid) else "it does not wait for the signal"
        )
    begun = _size(hand, path)
    if not processes.send([pid], SIGNAL, terminal.uid_of(config.user)):
        return Said(why_not="it has ended")
    text = _written(hand, path, begun, min(deadline, time.monotonic() + _ONE_SECONDS))
    return _read(pid, text) if text else Said(why_not="it did not answer the signal")


def _has_open(pid: int, path: Path, proc: Path = kernel_view.PROC) -> bool:
    """Return whether the process still has the file open, and no other in its place."""
    for number in range(3, _FIRST_FILES):
        with contextlib.suppress(OSError):
            file = proc / str(pid) / "fd" / str(number)
            if os.readlink(str(file)) == str(path):  # noqa: PTH115 - as in chip_holders.py
                return True
    return False


def _written(hand: Hand, path: Path, begun: int, deadline: float) -> str:
    """Return what is added to the file, once it is whole and stands still."""
    data, still = b"", 0
    while time.monotonic() < deadline and still < _STILL:
        time.sleep(_PAUSE)
        more = hand.read(path, _MOST_BYTES - len(data), begun + len(data))
        data += more
        still = 0 if more or not python_stacks.looks_whole(data) else still + 1
    if begun + len(data) > _MOST_BYTES:
        with contextlib.suppress(OSError):  # else it grows with each time that it is asked for
            hand.empty(path)
    return data.decode("utf-8", "replace")


def _size(hand: Hand, path: Path) -> int:
    found = hand.stamp(path)
    return found[1] if found else 0


def _read(pid: int, text: str) -> Said:
    found = python_stacks.blocks(text)
    tids = kernel_view.tids(pid)
    pointers = {tid: kernel_view.stack_pointer(pid, tid) for tid in tids}
    waiting = {tid: pointer for tid, pointer in pointers.items() if pointer}
    known = python_stacks.by_thread(found, pid, waiting, kernel_view.areas(pid))
    running = [tid for tid in tids if tid not in waiting]
    return Said("faulthandler", text, python_stacks.with_the_rest(known, found, running))
