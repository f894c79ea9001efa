# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the archive of a run is laid out in a bucket: what outlives its slice. No I/O.

Each worker has a folder for each life of its machine, from its creation to its deletion:

    FOLDER/RUN/SLICE/HOST/LIFE/parts/FIRST-LAST
    FOLDER/RUN/SLICE/HOST/LIFE/results/NAME

Beside them are the entries of the run's compilation cache, which only machines of the run read:

    FOLDER/RUN/compile-cache/GANG/KEY/NAME

A part is a sequence of frames: a line of JSON and so many bytes, which are the next ones of a
stream: the log, the events, the note of a hang. Each frame has its place in its stream, so a part
that was written twice, or is also in one that was composed of several, is read once.

What is read here is a worker's words: what is not as expected is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .checkpoints import ARCHIVES, bucket_and_folder, is_folder, name_below, time_of

LOG, EVENTS = "log", "events"
COMPILE_CACHE = "compile-cache"
"""The folder of a run's compilation cache."""
MOST_PART = 16 << 20
"""Bytes of a part."""
MOST_RESULT = 1 << 30
"""Bytes of a declared result that is archived."""
MOST_RESULTS = 256
"""Files of declared results of one worker that are archived."""
FULL = 4 << 20
"""Bytes from which on a part is not made longer."""
TOGETHER = 32
"""Parts that one request can compose."""
WRITE_DOLLARS = 0.005 / 1000
"""An operation of class A, by Google's list price for a Standard bucket in one region."""
MONTH = 30.44 * 86400.0
"""Seconds."""
_STREAM = re.compile(r"log|events|(?:hang|start)-\d{1,9}\.(?:txt|json)")
_LIFE = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
_PART = re.compile(r"(\d{10})-(\d{10})")
_MOST_HEAD = 1000
_MOST = 1 << 53


def place_of(run: Mapping[str, Any], checkpoint_folder: str) -> str:
    """Return the address of a declared run's archive; empty if it has none.

    Without a declaration it is in the bucket of the checkpoints, beside their folder.
    """
    if "archive" in run:
        return str(run["archive"] or "")
    place = bucket_and_folder(checkpoint_folder)
    return f"gs://{place[0]}/{ARCHIVES}{place[1]}" if place else ""


def prefix_of(address: str, run: str) -> tuple[str, str] | None:
    """Return the bucket of an archive, and what the names of a run's objects begin with."""
    place = bucket_and_folder(address)
    return (place[0], f"{place[1]}{run}/") if place else None


def dollars_a_month(workers: int, seconds: float) -> float:
    """Return what the requests of a run cost at most, in US dollars by the list price.

    Each worker writes at most one part, and on average one result, in so many seconds; one more
    request composes the parts. To delete those is free.
    """
    writes = MONTH / seconds
    return workers * writes * (2 + 1 / (TOGETHER - 1)) * WRITE_DOLLARS


# Writing


def frame(stream: str, at: int, data: bytes, time: float, lost: bool = False) -> bytes:
    """Return a frame: what stands in a stream from a place on."""
    head = {"stream": stream, "at": at, "bytes": len(data), "time": round(time, 1)}
    text = json.dumps({**head, "lost": True} if lost else head, separators=(",", ":"))
    return text.encode("ascii") + b"\n" + data + b"\n"


def part_name(first: int, last: int) -> str:
    """Return the name of a part, by the numbers of the first and the last that are in it."""
    return f"parts/{first:010}-{last:010}"


def to_compose(parts: list[list[int]]) -> bool:
    """Say whether the last parts, each with first and last number and size, become one."""
    size = sum(part[2] for part in parts)
    return len(parts) >= TOGETHER or (len(parts) > 1 and size >= FULL)


# Reading


@dataclass(frozen=True)
class Frame:
    """What stands in a stream from a place on."""

    stream: str
    at: int
    data: bytes
    time: float
    """When it was read from the machine's disk."""
    lost: bool = False
    """Whether something before it is missing."""


def frames_of(part: bytes) -> Iterator[Frame]:
    """Yield the frames of a part, up to the first that is refused."""
    place = 0
    while place < len(part):
        end = part.find(b"\n", place, place + _MOST_HEAD)
        head = _head(part[place:end]) if end >= 0 else None
        if head is None:
            return
        stream, at, count, when, lost = head
        data = part[end + 1 : end + 1 + count]
        place = end + 1 + count
        if len(data) < count or part[place : place + 1] != b"\n":
            return
        place += 1
        yield Frame(stream, at, data, when, lost)


def _head(line: bytes) -> tuple[str, int, int, float, bool] | None:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    stream, when = told.get("stream"), told.get("time")
    at, count = _whole(told.get("at"), _MOST), _whole(told.get("bytes"), MOST_PART)
    if not isinstance(stream, str) or not _STREAM.fullmatch(stream) or at is None or count is None:
        return None
    if not isinstance(when, (int, float)) or isinstance(when, bool) or not 0 <= when < 1e11:
        return None
    return stream, at, count, float(when), told.get("lost") is True


def _whole(value: Any, most: int) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return int(value) if good else None


@dataclass
class Joined:
    """Streams, put together from frames that may overlap."""

    ends: dict[str, int] = field(default_factory=dict)
    """How far each stream was taken in."""

    def taken(self, one: Frame) -> tuple[bytes, bool]:
        """Take a frame in; return what is new of it, and whether something is missing before."""
        end = self.ends.get(one.stream, 0)
        new = one.data[max(0, end - one.at) :]
        lost = one.at > end or (one.lost and one.at == end)
        self.ends[one.stream] = max(end, one.at + len(one.data))
        return new, bool(new) and lost


@dataclass(frozen=True)
class Thing:
    """An object of an archive."""

    name: str
    """Below its life's folder."""
    size: int
    at: float
    """When it was written, in seconds since 1970."""


@dataclass
class Life:
    """What a worker's machine has left, from its creation to its deletion."""

    slice: str
    host: str
    name: str
    parts: list[Thing] = field(default_factory=list)
    results: list[Thing] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """Return its folder, below that of the run."""
        return f"{self.slice}/{self.host}/{self.name}/"

    @property
    def at(self) -> float:
        """Return when it was written to last."""
        return max((one.at for one in (*self.parts, *self.results)), default=0.0)

    @property
    def needed(self) -> list[Thing]:
        """Return the parts that have everything, in order: none that is in another one."""
        found: list[Thing] = []
        last = -1
        # One that was composed comes before what it was composed of.
        for _first, minus_end, one in sorted(map(_in_order, self.parts), key=lambda key: key[:2]):
            if -minus_end > last:
                found.append(one)
                last = -minus_end
        return found


def _in_order(one: Thing) -> tuple[int, int, Thing]:
    first, _dash, end = one.name.removeprefix("parts/").partition("-")
    return int(first), -int(end), one


def lives_of(
    items: Iterable[Any], prefix: str, name_of_slice: re.Pattern[str]
) -> tuple[list[Life], int]:
    """Return the lives of a run's machines by the objects of its archive, the oldest first.

    Also return how many objects were refused.
    """
    found: dict[tuple[str, str, str], Life] = {}
    refused = 0
    for item in items:
        if is_folder(item):
            continue
        thing = _thing(item, prefix)
        words = thing.name.split("/", 4) if thing else []
        if len(words) == 4 and words[0] == COMPILE_CACHE:
            continue
        if thing is None or not _is_ours(words, thing.size, name_of_slice):
            refused += 1
            continue
        slice_name, host, name, kind, rest = words
        life = found.setdefault((name, slice_name, host), Life(slice_name, host, name))
        (life.parts if kind == "parts" else life.results).append(
            Thing(f"{kind}/{rest}", thing.size, thing.at)
        )
    return [found[key] for key in sorted(found)], refused


def _thing(item: Any, prefix: str) -> Thing | None:
    if not isinstance(item, Mapping):
        return None
    name, at = name_below(item.get("name"), prefix), time_of(item.get("updated"))
    size = str(item.get("size"))
    good = size.isascii() and size.isdigit() and len(size) < 16
    return Thing(name, int(size), at) if name and at is not None and good else None


def _is_ours(words: list[str], size: int, name_of_slice: re.Pattern[str]) -> bool:
    """Say whether an object's name, and its size, are those of an archive."""
    if len(words) != 5:
        return False
    slice_name, host, life, kind, rest = words
    number = host.removeprefix(f"{slice_name}-w")
    is_host = host == slice_name or (number.isdigit() and number.isascii() and len(number) < 6)
    if not (name_of_slice.fullmatch(slice_name) and is_host and _LIFE.fullmatch(life)):
        return False
    if kind == "parts":
        return bool(_PART.fullmatch(rest)) and size <= MOST_PART
    return kind == "results" and size <= MOST_RESULT
