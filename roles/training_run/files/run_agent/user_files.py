"""Files in folders of the run's user: opened without being led elsewhere, or held up, by a link."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Open a plain file that has no other name; raises OSError for anything else."""
    descriptor = os.open(str(path), flags | _PLAIN, 0o644)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise OSError(errno.EPERM, "not a plain file of its own")
        yield descriptor
    finally:
        os.close(descriptor)


def read(path: Path, limit: int, start: int = 0) -> bytes:
    """Return at most so many bytes; none when there is no such file."""
    try:
        with opened(path, os.O_RDONLY) as descriptor:
            return os.pread(descriptor, limit, start)
    except OSError:
        return b""


def load(path: Path) -> Optional[Dict[str, Any]]:
    """Return a small file's object; None when it is missing or broken."""
    try:
        data = json.loads(read(path, 65536))
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def tail(path: Path, limit: int) -> bytes:
    """Return the end of a file."""
    try:
        with opened(path, os.O_RDONLY) as descriptor:
            return os.pread(descriptor, limit, max(0, os.fstat(descriptor).st_size - limit))
    except OSError:
        return b""


def create(path: Path, content: bytes) -> None:
    """Write a new file in the place of an older one; raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        while content:
            content = content[os.write(descriptor, content) :]
