"""Where the files of the agent are on this machine, and how one of its commands is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

Stamp = tuple[tuple[str, int, int, int], ...]

FILES = Path(__file__).resolve().parents[2]


def stamp(folder: Path = FILES) -> Stamp:
    """Return what changes whenever a file of the agent, or its interpreter, is replaced."""
    found = []
    program = [folder / "tpu_fleet_run.py", *sorted((folder / "run_agent").rglob("*.py"))]
    for path in (*map(str, program), os.path.realpath(sys.executable)):
        there = os.stat(path)  # noqa: PTH116 - of a path as text
        found.append((path, there.st_ino, there.st_size, there.st_mtime_ns))
    return tuple(found)


def command(*words: str) -> list[str]:
    """Return how to start a helper; the standard library is enough for it."""
    return [sys.executable, "-I", "-S", str(FILES / "tpu_fleet_run.py"), *words]
