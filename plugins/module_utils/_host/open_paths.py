# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What processes have open and were given, as /proc lists it. Private to tpu.fleet.

Users may have thousands of processes, each with many thousands of files and mappings. So the look
has a limit; the caller keeps everything if it is reached. Links are read and never followed,
because what they lead to may be on a server that does not answer.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

SECONDS = 20.0
MOST_BYTES = 1 << 20
"""Bytes of a command line or an environment that are read."""


class TooMuchError(Exception):
    """There is more to look at than the limit allows."""


def open_paths(proc: str = "/proc", seconds: float = SECONDS) -> set[str]:
    """Return the paths that processes have open, mapped, or work in; raise TooMuchError."""
    return set(_paths(Path(proc), time.monotonic() + seconds))


def users_below(folder: str, proc: str = "/proc", seconds: float = SECONDS) -> Iterator[Path]:
    """Yield the folder in /proc of each process that uses a path in this folder.

    Raise TooMuchError.
    """
    until, inside = time.monotonic() + seconds, f"{folder.rstrip('/')}/"
    for process in sorted(_processes(Path(proc), until), key=lambda path: int(path.name)):
        if any(f"{path}/".startswith(inside) for path in _paths_of(process, until)):
            yield process


def _paths(proc: Path, until: float) -> Iterator[str]:
    for process in _processes(proc, until):
        yield from _paths_of(process, until)


def _paths_of(process: Path, until: float) -> Iterator[str]:
    for link in ("cwd", "root", "exe"):
        with contextlib.suppress(OSError):
            yield os.readlink(process / link)  # noqa: PTH115 - a link of the kernel, no path
    with contextlib.suppress(OSError), os.scandir(process / "fd") as files:
        for file in files:
            _check(until)
            with contextlib.suppress(OSError):
                yield os.readlink(file.path)  # noqa: PTH115 - as above
    with contextlib.suppress(OSError), (process / "maps").open(errors="replace") as lines:
        for line in lines:
            _check(until)
            if "/" in line:
                yield line[line.index("/") :].rstrip("\n")


def is_mentioned(text: str, proc: str = "/proc", seconds: float = SECONDS) -> bool:
    """Return whether a path, a command line or an environment has a text; raise TooMuchError."""
    until = time.monotonic() + seconds
    if any(text in path for path in _paths(Path(proc), until)):
        return True
    needle = os.fsencode(text)
    for process in _processes(Path(proc), until):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError), (process / name).open("rb") as stream:
                if needle in stream.read(MOST_BYTES):
                    return True
    return False


def _processes(proc: Path, until: float) -> Iterator[Path]:
    for process in proc.glob("[0-9]*"):
        _check(until)
        yield process


def _check(until: float) -> None:
    if time.monotonic() > until:
        raise TooMuchError("processes have too many files and mappings to look at")
