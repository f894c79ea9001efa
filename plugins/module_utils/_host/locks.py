# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks that no other user can hold. Private to tpu.fleet.

To lock a file, a process only needs to open it for reading. So no other user may enter the folder
of a lock, or open its file, and nothing waits for one without a limit.

The apply agent and the run agent use this file too, so it needs only Python 3.8.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

SECONDS = 60.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class HeldError(OSError):
    """A lock stayed held; the text names the file, the holder and the remedy."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.says = (
            f"{path} has been locked for more than {round(seconds)} seconds by {holder(path)}. "
            "Wait for it, or end it: nothing is lost. Then try again."
        )
        super().__init__(errno.EAGAIN, self.says)

    def __str__(self) -> str:
        return self.says


@contextlib.contextmanager
def attempt(path: str | Path) -> Iterator[bool]:
    """Yield whether this process got the lock, without waiting. Its children keep the lock too."""
    descriptor = _opened(Path(path))
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        yield free
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: str | Path, seconds: float = SECONDS) -> Iterator[None]:
    """Hold the lock; raise HeldError if another process does so for `seconds`."""
    end, pause = time.monotonic() + seconds, _SHORTEST_PAUSE
    while True:
        with attempt(path) as free:
            if free:
                yield
                return
        if time.monotonic() >= end:
            raise HeldError(Path(path), seconds)
        time.sleep(pause)
        pause = min(pause * 1.2, _LONGEST_PAUSE)


def _opened(path: Path) -> int:
    """Open the file of a lock; refuse one that another user could open too."""
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(str(path), flags, 0o600)
    if all(_is_open(seen) for seen in (folder.stat(), os.fstat(descriptor))):
        os.close(descriptor)
        raise OSError(errno.EPERM, "others can open this lock", str(path))
    return descriptor


def _is_open(seen: os.stat_result) -> bool:
    """Return whether another user can enter a folder, or open a file."""
    return seen.st_uid != os.geteuid() or bool(seen.st_mode & 0o077)


def holder(path: str | Path) -> str:
    """Return which process holds a lock, as the kernel lists it."""
    try:
        inode = str(Path(path).stat().st_ino)
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return "another process"
    for words in (line.split() for line in lines):
        # Number, kind, manner, read or write, process, device:inode, begin, end.
        if len(words) == 8 and words[1] == "FLOCK" and words[5].split(":")[-1] == inode:
            return _process(words[4])
    return "another process"


def _process(pid: str) -> str:
    place = Path("/proc", pid)
    try:
        name = (place / "comm").read_text(encoding="utf-8", errors="replace").strip()
        user = pwd.getpwuid(place.stat().st_uid).pw_name
    except (OSError, KeyError):
        return f"process {pid}"
    return f"process {pid} ({name}) of {user}"
