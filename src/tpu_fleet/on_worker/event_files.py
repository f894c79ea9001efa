"""Scalars of TensorBoard's event files, without TensorFlow: a bounded reader of the two formats.

A file consists of records: a length of eight bytes, a checksum of four, the data, a checksum. The
data is a protobuf `Event`: 1 wall time, 2 step, 5 summary, which repeats 1 value: 1 tag, 2 the
number, or 8 a tensor (1 type, 4 its bytes, 5 floats, 6 doubles). The files are a user's: whatever
does not fit ends the reading of that file, and everything is bounded.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = "tfevents"
RECORD = 1 << 16  # larger ones hold images and graphs, and are passed over
READ = 4 << 20  # bytes of records of a file at a time
RECORDS = 50_000
SECONDS = 3.0
ENTRIES = 2000
DEEPEST = 4
FILES = 3
TAGS = 4
POINTS = 300  # of a tag at a time
LABEL = 100


def entries_below(folders: list[str]) -> Iterator[os.DirEntry[str]]:
    """Yield what is below folders, upper levels first; only so deep, and so much of it."""
    seen, level = 0, folders
    for _depth in range(DEEPEST):
        below: list[str] = []
        for folder in level:
            try:
                entries = os.scandir(folder)
            except OSError:
                continue
            with entries:
                for entry in entries:
                    seen += 1
                    if seen > ENTRIES:
                        return
                    yield entry
                    with contextlib.suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            below.append(entry.path)
        level = below


def found_in(folders: list[str]) -> list[Path]:
    """Return the newest event files below these folders."""
    found: dict[tuple[int, int], tuple[float, Path]] = {}
    for entry in entries_below([one for one in dict.fromkeys(folders) if one.startswith("/")]):
        with contextlib.suppress(OSError):
            if NAME in entry.name and entry.is_file(follow_symlinks=False):
                told = entry.stat(follow_symlinks=False)
                found[told.st_dev, told.st_ino] = (told.st_mtime, Path(entry.path))
    newest = sorted(found.values(), key=lambda one: one[0])
    return [path for _time, path in newest[-FILES:]]


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place after it; raise ValueError."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("no number")


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield (number, wire type, value) of a message; raise ValueError where it is none."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value: Any
            value, at = varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError("no message")
        if at > len(data):
            raise ValueError("cut off")
        yield key >> 3, kind, value


def _number(value: bytes) -> float | None:
    """Return the number of a summary's value: as it is, or as a tensor of one."""
    tensor: bytes | None = None
    for number, kind, one in fields(value):
        if number == 2 and kind == 5:
            return float(struct.unpack("<f", one)[0])
        if number == 8 and kind == 2:
            tensor = one
    if tensor is None:
        return None
    double, content = False, b""
    for number, kind, one in fields(tensor):
        if number == 1 and kind == 0:
            if one not in (1, 2):
                return None
            double = one == 2
        if number in (4, 5, 6) and kind in (1, 2, 5):
            content = one
    size = 8 if double else 4
    if len(content) != size:
        return None
    return float(struct.unpack("<d" if double else "<f", content)[0])


def scalars(record: bytes) -> list[tuple[str, float, int, float]]:
    """Return (tag, time, step, value) of an event; raise ValueError or struct.error."""
    at, step, summaries = 0.0, 0, []
    for number, kind, value in fields(record):
        if number == 1 and kind == 1:
            at = struct.unpack("<d", value)[0]
        elif number == 2 and kind == 0:
            step = value
        elif number == 5 and kind == 2:
            summaries.append(value)
    found = []
    for summary in summaries:
        for number, kind, value in fields(summary):
            if number != 1 or kind != 2:
                continue
            tags = [one for key, k, one in fields(value) if key == 1 and k == 2]
            told = _number(value)
            good = 0 < at < 1e11 and 0 <= step < 1 << 53
            if tags and good and told is not None and math.isfinite(told):
                found.append((tags[0][:LABEL].decode("utf-8", "replace"), at, step, told))
    return found


def read(path: Path, offset: int, until: float) -> tuple[list[tuple[str, float, int, float]], int]:
    """Return the scalars from a place in a file on, and the place after them."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(str(path), flags)
    found: list[tuple[str, float, int, float]] = []
    with os.fdopen(descriptor, "rb") as stream:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            return [], 0
        if offset > about.st_size:
            offset = 0
        stream.seek(offset)
        taken = 0
        for _record in range(RECORDS):
            head = stream.read(12)
            if len(head) < 12 or taken > READ or time.monotonic() > until:
                break
            (size,) = struct.unpack("<Q", head[:8])
            if offset + 16 + size > about.st_size:
                break  # it is being written
            if size > RECORD:
                stream.seek(size + 4, os.SEEK_CUR)
            else:
                data = stream.read(size + 4)[:size]
                taken += size
                try:
                    found += scalars(data)
                except (ValueError, struct.error):
                    break
            offset += 16 + size
    return found, offset


def chosen(tags: list[str]) -> list[str]:
    """Return the tags that people look at first: losses, then the others."""
    return sorted(tags, key=lambda tag: ("loss" not in tag.lower(), tag))[:TAGS]


def thinned(points: list[Any], most: int = POINTS) -> list[Any]:
    """Return at most so many points, the last one among them."""
    if len(points) <= most:
        return points
    width = -(-len(points) // most)
    return points[::-1][::width][::-1]


def curves(folders: list[str], places: Any) -> dict[str, Any]:
    """Return what is new in the event files: points by tag, and how far each file was read."""
    known = places if isinstance(places, dict) else {}
    until = time.monotonic() + SECONDS
    by_tag: dict[str, list[Any]] = {}
    after: dict[str, int] = {}
    for path in found_in(folders):
        try:
            about = path.lstat()
            name = f"{about.st_ino}-{about.st_dev}"
            offset = known.get(name)
            begin = offset if isinstance(offset, int) and offset >= 0 else 0
            told, after[name] = read(path, begin, until)
        except OSError:
            continue
        for tag, at, step, value in told:
            by_tag.setdefault(tag, []).append([at, step, value])
    points = {tag: thinned(by_tag[tag]) for tag in chosen(list(by_tag))}
    return {"points": points, "places": after}
