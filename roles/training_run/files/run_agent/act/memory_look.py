"""The machine's memory, and whether the kernel ended a process for want of it."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any

from ..decide.values import one_line
from .kernel_view import PROC

_KILLED = re.compile(r"Killed process (\d+) \(([^)]{1,40})\).*? UID:(\d+)")
_MOST_RECORDS = 20_000
_CGROUPS = Path("/sys/fs/cgroup")


def memory(uid: int | None, since: float | None, agent: int, proc: Path = PROC) -> dict[str, Any]:
    """Return the memory, and what the kernel ended of a user's since a time."""
    figures = _figures((proc / "meminfo").read_text(encoding="ascii"))
    records = _records()
    killed = "" if records is None else last_killed(records, uid, since, _boot(proc))
    # A container does not see the kernel's messages; its own counter is since its agent's start.
    counted = records is None and _count(agent, proc) > 0
    return {
        "free_bytes": figures.get("MemAvailable"),
        "size_bytes": figures.get("MemTotal"),
        "oom": bool(killed) or counted,
        "oom_killed": killed,
    }


def _figures(text: str) -> dict[str, int]:
    rows = (line.split() for line in text.splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1}


def _boot(proc: Path) -> float:
    return time.time() - float((proc / "uptime").read_text(encoding="ascii").split()[0])


def _records() -> list[str] | None:
    """Return the kernel's messages; None if they cannot be read."""
    found: list[str] = []
    try:
        handle = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        while len(found) < _MOST_RECORDS:
            try:
                found.append(os.read(handle, 8192).decode("utf-8", "replace"))
            except BrokenPipeError:  # it was overwritten meanwhile
                continue
            except OSError:
                return found
    finally:
        os.close(handle)
    return found


def last_killed(records: list[str], uid: int | None, since: float | None, boot: float) -> str:
    """Return the last process of a user that the kernel ended for want of memory since a time."""
    for record in reversed(records):
        head, _semicolon, said = record.partition(";")
        found = _KILLED.search(said)
        words = head.split(",")
        if not found or found[3] != str(uid) or len(words) < 3 or not words[2].isdigit():
            continue
        if since is None or boot + int(words[2]) / 1e6 >= since:
            return one_line(f"process {found[1]} ({found[2]})", 100)
    return ""


def _count(pid: int, proc: Path) -> int:
    """Return how many processes of the agent's group the kernel has ended so."""
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        lines = (proc / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines()
        group = next(line[3:] for line in lines if line.startswith("0::"))
        path = Path(f"{_CGROUPS}{group}", "memory.events")
        for line in path.read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
