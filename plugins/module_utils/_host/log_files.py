# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a rotating log, each with a lasting identity. Private to tpu.fleet.

An identity is a file's inode and birth time. Both survive reboots and the renaming of logs; if
another file gets the inode, its birth time differs.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import mmap
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SUMMED = 256
ENTRIES = 10_000
"""Entries of a log's folder that are looked at: its user may create any number."""


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

    The run's user owns the folder, and the reader may be root: a link could lead to other people's
    files, and a pipe could block the reader.
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

    The log may rotate meanwhile: run.log becomes run.log.1, that run.log.2, and so on. Going from
    the lowest number upwards finds a file twice at worst, but misses none; the last place counts.
    """
    aside = (
        name[len(path.name) + 1 :]
        for name in names_in(path.parent)
        if name.startswith(f"{path.name}.")
    )
    numbers = (int(text) for text in aside if text.isdigit() and len(text) < 4)
    last = max(numbers, default=0)
    met: list[Open] = []
    number, missing = 0, 0
    # The last files move too, so one of two adjacent names may be missing meanwhile.
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


def names_in(folder: Path) -> list[str]:
    """Return names in a folder, up to ENTRIES of them."""
    try:
        with os.scandir(folder) as found:
            return [one.name for one in itertools.islice(found, ENTRIES)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def size_of(one: Open) -> int:
    """Return the size of a file."""
    return os.fstat(one.descriptor).st_size


@contextlib.contextmanager
def mapped(one: Open, begin: int, end: int) -> Iterator[tuple[Any, int]]:
    """Map a part of a file for searching; yield also where the map begins.

    The caller bounds the part, because a user's file may have any size.
    """
    begin -= begin % mmap.ALLOCATIONGRANULARITY
    size = min(end, size_of(one)) - begin
    if size <= 0:
        yield b"", begin
        return
    with mmap.mmap(one.descriptor, size, access=mmap.ACCESS_READ, offset=begin) as text:
        yield text, begin


def sum_before(one: Open, offset: int) -> int:
    """Return a checksum of the bytes before a position."""
    begin = max(0, offset - SUMMED)
    return zlib.crc32(os.pread(one.descriptor, offset - begin, begin))
