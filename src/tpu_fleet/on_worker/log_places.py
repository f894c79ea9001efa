"""Positions in a log: where a reader stopped, the last lines, a moment.

A place is a file's identity, an offset, and a checksum of the bytes before it. The checksum detects
that a machine lost power: unwritten bytes are lost, and after the reboot other bytes stand where
the reader has already read.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from tpu_fleet.on_worker.log_files import Open, mapped, size_of, sum_before

UPTIME = Path("/proc/uptime")
CHUNK = 1 << 16
SEARCHED = 1 << 28
"""Bytes of a log in which a mark is searched: its user may write any number, without marks."""

NEWLINE = ord("\n")

LOST_POWER = "the end of the log was lost with the machine's power"
ROTATED_AWAY = "the last position no longer exists: lines may have been rotated away"
TOO_LARGE = "the log is larger than its limit, so only its last {:.1f} GiB are read"

STAMP = rb"--- tpu-fleet (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) "
MARK = re.compile(STAMP)
BEGINS = re.compile(STAMP + rb"attempt \d+ of \S+ begins")


def stamp_of(when: float) -> bytes:
    """Format a time as in logs."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when)).encode()


class Begin(NamedTuple):
    """The start position: file, byte, and what was lost before it."""

    file: int
    offset: int
    lost: str = ""

    def lowest(self, file: int) -> int:
        """Return where this file begins to be read, if it is not before this position."""
        return self.offset if file == self.file else 0


START = Begin(0, 0)


def newest_part(files: list[Open], most: int) -> Begin:
    """Find the start of the last bytes that a log may have.

    The run's user owns the files, so they may have any size, also without any disk space.
    """
    left = most
    for at in range(len(files) - 1, -1, -1):
        size = size_of(files[at])
        if size > left:
            return Begin(at, size - left, TOO_LARGE.format(most / 2**30))
        left -= size
    return Begin(0, 0)


def resume(files: list[Open], name: str, offset: int, summed: int, first: Begin = START) -> Begin:
    """Find the position up to which the reader has read, or the first that may be read."""
    if not name:
        return first  # there was no log at all
    for at, one in enumerate(files):
        if one.name == name:
            begin = first.lowest(at)
            if at < first.file or offset < begin:
                return first
            if offset <= size_of(one) and sum_before(one, offset) == summed:
                return Begin(at, offset)
            return Begin(at, first_of_this_boot(one, offset, begin), LOST_POWER)
    return first if first.lost else first._replace(lost=ROTATED_AWAY)


def first_of_this_boot(one: Open, offset: int, begin: int) -> int:
    """Find where a log continued after a reboot; at most this position."""
    uptime = float(UPTIME.read_text().split()[0])
    boot = stamp_of(time.time() - uptime)
    begin = max(begin, offset - SEARCHED)
    with mapped(one, begin, begin + 2 * SEARCHED) as (text, base):
        # A line that was cut off may precede it.
        marks = BEGINS.finditer(text, max(0, begin - base))
        found = [base + mark.start() for mark in marks if mark.group(1) >= boot]
    return min([*found[:1], offset, size_of(one)])


def tail(files: list[Open], lines: int, first: Begin) -> Begin:
    """Find the start of the last lines, or the first position that may be read."""
    if lines == 0:
        return Begin(len(files) - 1, size_of(files[-1]))
    missing = lines
    at_end = True
    for at in range(len(files) - 1, first.file - 1, -1):
        end = size_of(files[at])
        lowest = first.lowest(at)
        while end > lowest:
            begin = max(lowest, end - CHUNK)
            data = os.pread(files[at].descriptor, end - begin, begin)
            place = len(data)
            if at_end and data.endswith(b"\n"):
                place -= 1  # it ends the last line, and starts none
            at_end = False
            while place > 0:
                place = data.rfind(b"\n", 0, place)
                if place < 0:
                    break
                missing -= 1
                if missing == 0:
                    return Begin(at, begin + place + 1)
            end = begin
    return first


def since(files: list[Open], when: float, first: Begin) -> Begin:
    """Find the last position whose time is known to be before this, or the first to be read.

    Lines have no times. A file has the time of its last line, and the lines at the start and end of
    an attempt contain a time.
    """
    stamp = stamp_of(when)
    for at, one in enumerate(files):
        if at >= first.file and os.fstat(one.descriptor).st_mtime >= when:
            begin = _last_mark(one, stamp, first.lowest(at))
            return first if (at, begin) == (first.file, first.offset) else Begin(at, begin)
    return Begin(len(files) - 1, size_of(files[-1]))


def _last_mark(one: Open, stamp: bytes, begin: int) -> int:
    with mapped(one, begin, size_of(one)) as (text, base):
        for mark in MARK.finditer(text, begin - base):
            at = mark.start()
            if at and text[at - 1] != NEWLINE:
                continue
            if mark.group(1) > stamp:
                break
            begin = base + at
    return begin


def begin_at(files: list[Open], order: dict[str, Any], most: int) -> Begin:
    """Return the start position that the request asks for, within the log's last bytes."""
    first = newest_part(files, most)
    if order.get("at"):
        name, offset, summed = order["at"]
        return resume(files, name, offset, summed, first)
    if order.get("tail") is not None:
        return tail(files, order["tail"], first)
    if order.get("since") is not None:
        return since(files, order["since"], first)
    return first
