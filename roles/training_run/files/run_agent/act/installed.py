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
    program = [str(folder / "tpu_fleet_run.py")]
    # Each reload waits for this, and Path.rglob takes three times as long.
    for place, _folders, names in os.walk(folder / "run_agent"):
        program += [f"{place}/{name}" for name in names if name.endswith(".py")]
    for path in (*sorted(program), os.path.realpath(sys.executable)):
        there = os.stat(path)  # noqa: PTH116 - of a path as text
        found.append((path, there.st_ino, there.st_size, there.st_mtime_ns))
    return tuple(found)


def keep_compiled(folder: Path = FILES) -> None:
    """Keep the compiled form of all files, as far as they were not compiled before.

    A helper has the rights of a user, who can keep none there: it would compile them each time.
    """
    import compileall

    if not sys.dont_write_bytecode:
        compileall.compile_dir(str(folder / "run_agent"), quiet=2)


def command(*words: str) -> list[str]:
    """Return how to start a helper; the standard library is enough for it."""
    return [sys.executable, "-I", "-S", str(FILES / "tpu_fleet_run.py"), *words]
