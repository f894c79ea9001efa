"""What the kernel knows of each thread of a process: its state, its call, and what that is about.

Only root sees all of it for other users' processes.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..decide import bounds, syscalls
from ..decide.values import one_line
from . import processes

PROC = Path(processes.PROC)
_MACHINE = platform.machine()
_MOST_MAPS = 8 * 1024 * 1024


class Call(NamedTuple):
    """The system call in which a thread is."""

    name: str = ""
    first: int | None = None
    """Its first argument."""
    pointer: int = 0
    """Where its stack is; 0 if it runs."""


def _text(path: Path, most: int = 65536) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


def _fields(place: Path) -> list[str]:
    return _text(place / "stat").rpartition(")")[2].split()


def state_of(pid: int, proc: Path = PROC) -> str:
    """Return the letter of a process's state; Z for one that is gone."""
    return (_fields(proc / str(pid)) or ["Z"])[0]


def tids(pid: int, proc: Path = PROC) -> list[int]:
    """Return the numbers of a process's threads."""
    try:
        return sorted(int(name) for name in os.listdir(proc / str(pid) / "task"))  # noqa: PTH208
    except (OSError, ValueError):
        return []


def cpu_seconds(pid: int, proc: Path = PROC) -> float | None:
    """Return the CPU time that a process has used."""
    fields = _fields(proc / str(pid))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else None


def age(pid: int, proc: Path = PROC) -> float | None:
    """Return the seconds since a process began."""
    fields, up = _fields(proc / str(pid)), _text(proc / "uptime").split()
    if not fields or not up:
        return None
    return max(0.0, float(up[0]) - int(fields[19]) / os.sysconf("SC_CLK_TCK"))


def parent(pid: int, proc: Path = PROC) -> int:
    """Return the number of a process's parent; 0 if it is gone."""
    fields = _fields(proc / str(pid))
    return int(fields[1]) if fields else 0


def areas(pid: int, proc: Path = PROC) -> list[tuple[int, int]]:
    """Return the areas of a process's memory."""
    return list(_areas(_text(proc / str(pid) / "maps", _MOST_MAPS)))


def _areas(maps: str) -> Iterator[tuple[int, int]]:
    for line in maps.splitlines():
        begin, _dash, end = line.partition(" ")[0].partition("-")
        with contextlib.suppress(ValueError):
            yield int(begin, 16), int(end, 16)


def mapped(pid: int, proc: Path = PROC) -> set[str]:
    """Return the files that a process has in its memory, such as libraries."""
    lines = _text(proc / str(pid) / "maps", _MOST_MAPS).splitlines()
    return {words[5] for words in (line.split(None, 5) for line in lines) if len(words) == 6}


def _call(task: Path) -> Call:
    words = _text(task / "syscall").split()
    # A thread that waits for another reason, such as a page of memory, is in no call: -1.
    if len(words) < 3 or not words[0].lstrip("-").isdigit():
        return Call()
    number = int(words[0])
    if number < 0:
        return Call(pointer=int(words[1], 16))
    return Call(syscalls.name_of(number, _MACHINE), int(words[1], 16), int(words[-2], 16))


def stack_pointer(pid: int, tid: int, proc: Path = PROC) -> int:
    """Return where a thread's stack is; 0 if it runs, or that cannot be seen."""
    return _call(proc / str(pid) / "task" / str(tid)).pointer


def _about(call: Call, process: Path) -> str:
    """Return the file or the socket that a call is about."""
    if call.name not in syscalls.ON_A_FILE or call.first is None or call.first > 1 << 20:
        return ""
    try:
        found = os.readlink(str(process / "fd" / str(call.first)))  # noqa: PTH115 - as elsewhere
    except OSError:
        return ""
    return one_line(found, bounds.TEXT)


def thread(pid: int, tid: int, proc: Path = PROC) -> dict[str, Any]:
    """Return what the kernel knows of a thread, as the evidence has it."""
    task = proc / str(pid) / "task" / str(tid)
    call = _call(task)
    waits = one_line(_text(task / "wchan"), 100)
    return {
        "tid": tid,
        "name": one_line(_text(task / "comm"), 40),
        "state": (_fields(task) or ["Z"])[0],
        "wchan": "" if waits == "0" else waits,
        "syscall": call.name,
        "on": _about(call, proc / str(pid)),
    }


def way(pid: int, tid: int, proc: Path = PROC) -> str:
    """Return the way in the kernel to where a thread waits, which only root sees."""
    words = _text(proc / str(pid) / "task" / str(tid) / "stack").split()
    calls = [word.partition("+")[0] for word in words if not word.startswith("[")]
    return " < ".join(calls[:8])
