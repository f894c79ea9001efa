"""Files of a rotating log, each with a lasting identity.

An identity is a file's inode and the time of its birth: both stay when the file is renamed, as logs
are, and over reboots; and an inode that is given to another file has another time.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Open(NamedTuple):
    """A file of a log."""

    name: str
    descriptor: int


def born(descriptor: int) -> str:
    """Return the birth time of a file; None if the file system has none."""
    told = ctypes.create_string_buffer(256)  # struct statx
    try:
        failed = ctypes.CDLL(None).statx(descriptor, b"", 0x1000, 0x800, told)
    except AttributeError:
        return ""
    (mask,) = struct.unpack_from("=I", told, 0)
    if failed or not mask & 0x800:
        return ""
    seconds, nanoseconds = struct.unpack_from("=qI", told, 80)
    return f"{seconds}.{nanoseconds:09}"


def opened(path: Path) -> Open | None:
    """Open a file of a log; anything but a plain file counts as missing.

    The folder is that of the run's user, and we may be root: a link would lead to other people's
    files, and a pipe would hold us up.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(str(path), flags)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return Open(f"{os.fstat(descriptor).st_ino}-{born(descriptor)}", descriptor)


def files_of(path: Path) -> list[Open]:
    """Open all files of a log, the oldest first.

    While we look, the log may rotate: run.log becomes run.log.1, that run.log.2, and so on. From
    the lowest number upwards, a file can be met twice, but never missed; the last place counts.
    """
    aside = (one.name[len(path.name) + 1 :] for one in path.parent.glob(path.name + ".*"))
    numbers = (int(text) for text in aside if text.isdigit() and len(text) < 4)
    last = max(numbers, default=0)
    met: list[Open] = []
    number, missing = 0, 0
    # The last files move too; of two adjacent names one may be missing meanwhile.
    while number <= last or missing < 2:
        one = opened(path.with_name(f"{path.name}.{number}") if number else path)
        number += 1
        if one is None:
            missing += 1
            continue
        missing = 0
        for before in [before for before in met if before.name == one.name]:
            os.close(before.descriptor)
            met.remove(before)
        met.append(one)
    return met[::-1]


def size_of(one: Open) -> int:
    """Return the size of a file."""
    return os.fstat(one.descriptor).st_size


@contextlib.contextmanager
def mapped(one: Open) -> Iterator[Any]:
    """Map a whole file into memory for searching."""
    if not size_of(one):
        yield b""
        return
    with mmap.mmap(one.descriptor, 0, access=mmap.ACCESS_READ) as text:
        yield text
