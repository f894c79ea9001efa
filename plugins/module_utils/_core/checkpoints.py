# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which checkpoints lie in a folder, by names and times alone. No I/O.

A file system renames what is whole; a bucket cannot. There Orbax and MaxText write
`commit_success.txt` into the folder of a step when nothing is missing, Levanter `metadata.json`.
One object is whole by itself. Everything else has no mark, and its newest file has to do.

Names and sizes are those of any writer in the folder: what is not as expected is refused, and all
else goes on.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MARKS = ("commit_success.txt", "metadata.json")
"""What is written into a step's folder when the checkpoint is whole: by Orbax, by Levanter."""
WHOLE, UNFINISHED, UNMARKED = "whole", "unfinished", "without a mark"
ARCHIVES = "tpu-fleet-archive/"
"""What the names of archived logs and results begin with, in the bucket of a run's checkpoints."""
FENCE = ".tpu-fleet-attempt"
"""How the name of a run's fence begins, which lies beside its checkpoints and is none."""
MOST_DEPTH = 12
"""Folders in a name; what lies deeper is refused."""
_BEGUN = "_CHECKPOINT_METADATA"  # the first file of Orbax
_MOST_NAME = 1024
_MOST_SIZE = 1 << 50
_NOT_IN_BUCKET = re.compile(r"[^a-z0-9_.-]")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?:[Zz]|\+00:00)")
# What a checkpoint is called until it is whole: hidden, or as orbax, torch, TensorFlow, tempfile,
# rsync and others mark it. It gets its own name when nothing is missing.
_HALF = re.compile(
    r"^\.|^tmp|[._-]tmp(?=[._-]|\d|$)|[._](temp|part|partial|incomplete|new|writing)$|~$",
    re.IGNORECASE,
)
# The name of a checkpoint of one step: the number alone, or with a word for it.
_STEP = re.compile(
    r"(?:.*?(?:step|ckpt|checkpoint|iter)s?[._=-]?)?0*(\d{1,15})(?:\.[A-Za-z]\w*)*", re.IGNORECASE
)
_ORBAX_STEP = re.compile(r"[A-Za-z][\w-]{0,60}_0*(\d{1,15})")  # step_prefix of Orbax
_ORBAX_TEMPORARY = re.compile(r"(.+?)\.orbax-checkpoint-tmp(?:[.-].*)?")
_LEVANTER = re.compile(r"step-\d{1,15}")
# What programs write beside their checkpoints all the time.
_OTHER = re.compile(r"tfevents|\.(log|jsonl|out|lock)$", re.IGNORECASE)


def is_fence(name: str) -> bool:
    """Return whether a file or object, named with its folders or not, is the fence of a run."""
    return name.rpartition("/")[2].startswith(f"{FENCE}.")


def is_finished(name: str) -> bool:
    """Return whether a file or folder of this name, and what is in it, is of a whole checkpoint."""
    return not _HALF.search(name) and not _OTHER.search(name)


def step_of(name: str) -> int | None:
    """Return the step that the name of a checkpoint has."""
    found = _STEP.fullmatch(name)
    return int(found.group(1)) if found else None


def step_of_folder(name: str) -> int | None:
    """Return the step of a folder in a bucket, also of one that Orbax has not finished."""
    temporary = _ORBAX_TEMPORARY.fullmatch(name)
    name = temporary.group(1) if temporary else name
    prefixed = _ORBAX_STEP.fullmatch(name)
    return int(prefixed.group(1)) if prefixed else step_of(name)


def is_of_step(name: str) -> bool:
    """Return whether a folder, named with those above it, is that of a step."""
    return step_of_folder(name.rpartition("/")[2]) is not None


def bucket_and_folder(address: str) -> tuple[str, str] | None:
    """Return the bucket of a `gs://` address, and what the names below begin with; else None."""
    bucket, _slash, folder = address.removeprefix("gs://").partition("/")
    if not address.startswith("gs://") or len(bucket) < 3 or _NOT_IN_BUCKET.search(bucket):
        return None
    folder = folder.strip("/")
    return bucket, f"{folder}/" if folder else ""


@dataclass(frozen=True, slots=True)
class Thing:
    """One object of a bucket; the name is relative to the checkpoint folder."""

    name: str
    size: int
    at: float
    """When it was written, in seconds since 1970."""
    generation: int = 0


@dataclass(frozen=True)
class Unit:
    """What may be a checkpoint: an object, or the folder of a step, as far as it was seen."""

    name: str
    is_folder: bool
    marked_at: float | None = None
    """When the mark of a whole checkpoint was written."""
    is_begun: bool = False
    """Whether it has the first file of a writer that also writes a mark."""
    newest: float = 0.0
    """When its newest object was written; 0 if that was not looked at."""
    size: int = 0
    objects: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint."""

    name: str
    step: int | None
    state: str
    """WHOLE, UNFINISHED or UNMARKED."""
    at: float
    """When it became whole; else when its newest object was written, 0 if that is not known."""
    size: int = 0
    objects: int = 0
    is_marked: bool = False
    """Whether a mark, or in a file system the name of its folder, proves that it is whole."""


def thing_of(item: Any, prefix: str) -> Thing | None:
    """Read one item of an object list; None if it is refused."""
    if not isinstance(item, Mapping):
        return None
    name, at = name_below(item.get("name"), prefix), time_of(item.get("updated"))
    size = _whole(item.get("size"), _MOST_SIZE)
    if name is None or at is None or size is None:
        return None
    return Thing(name, size, at, _whole(item.get("generation"), 1 << 63) or 0)


def is_folder(item: Any) -> bool:
    """Return whether an item of an object list stands for a folder, as consoles make one."""
    return isinstance(item, Mapping) and str(item.get("name", "")).endswith("/")


def is_archived(name: Any) -> bool:
    """Return whether a name in a bucket is one of archived logs and results."""
    return str(name).startswith(ARCHIVES)


def name_below(name: Any, prefix: str) -> str | None:
    """Return a name relative to a folder; None if it is refused.

    Refused are names that do not lie below the folder, that do not print, too long or deep ones,
    and those with an empty part, `.` or `..`, which other programs take for another folder.
    """
    if not isinstance(name, str) or len(name) > _MOST_NAME or not name.isprintable():
        return None
    rest = name.removeprefix(prefix).rstrip("/")
    parts = rest.split("/")
    if not name.startswith(prefix) or len(parts) > MOST_DEPTH:
        return None
    return None if {"", ".", ".."} & set(parts) else rest


def time_of(text: Any) -> float | None:
    """Return a time of RFC 3339 in seconds since 1970; None if it is refused."""
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    if not (1970 <= year < 2200 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    if hour > 23 or minute > 59 or second > 60:
        return None
    at = calendar.timegm((year, month, day, hour, minute, second))
    return at + float(found.group(7) or 0.0)


def _whole(value: Any, most: int) -> int | None:
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    return number if 0 <= number <= most else None


def unit_name(name: str) -> str:
    """Return of what an object is a part: the folder of its step, or itself."""
    parts = name.split("/")
    for depth, part in enumerate(parts[:-1]):
        if step_of_folder(part) is not None:
            return "/".join(parts[: depth + 1])
    return name


def units_of(things: Iterable[Thing]) -> list[Unit]:
    """Return what the objects below a checkpoint folder make up."""
    parts: dict[str, list[Thing]] = {}
    for thing in things:
        parts.setdefault(unit_name(thing.name), []).append(thing)
    return [unit_of(name, members) for name, members in parts.items()]


def unit_of(name: str, things: Iterable[Thing]) -> Unit:
    """Return what is known of a unit whose objects were listed."""
    things = list(things)
    times = {thing.name.removeprefix(f"{name}/"): thing.at for thing in things}
    marks = [times[mark] for mark in MARKS if mark in times]
    return Unit(
        name,
        any(thing.name != name for thing in things),
        min(marks, default=None),
        _BEGUN in times,
        max(times.values(), default=0.0),
        sum(thing.size for thing in things),
        len(things),
    )


def has_marks(unit: Unit) -> bool:
    """Return whether what writes such folders also writes a mark when one is whole."""
    last = unit.name.rpartition("/")[2]
    return unit.marked_at is not None or unit.is_begun or bool(_LEVANTER.fullmatch(last))


def judged(units: Iterable[Unit], renames: bool = False) -> list[Checkpoint]:
    """Return the checkpoints, the oldest first.

    `renames` says that they lie in a file system, where what is whole gets its own name.

    Where there are folders with a mark, files are no checkpoints; and a folder without one is
    unfinished if it lies beside one with a mark.
    """
    units = list(units)
    marks = {_parent(unit.name) for unit in units if unit.marked_at is not None}
    found = [_judged(unit, marks, renames) for unit in units if _counts(unit, marks)]
    return sorted(found, key=lambda one: (one.at, one.step or 0, one.name))


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _counts(unit: Unit, marks: set[str]) -> bool:
    if unit.is_folder:
        return True
    return not marks and all(is_finished(part) for part in unit.name.split("/"))


def _judged(unit: Unit, marked: set[str], renames: bool) -> Checkpoint:
    last, marks = unit.name.rpartition("/")[2], _parent(unit.name) in marked
    step = step_of_folder(last) if unit.is_folder else step_of(last)
    is_named = is_finished(last)
    is_marked = is_named and (unit.marked_at is not None or (renames and unit.is_folder))
    state, at = UNFINISHED, unit.newest
    if is_marked and unit.marked_at is not None and not renames:
        at = unit.marked_at
    if is_marked or not unit.is_folder:
        state = WHOLE
    elif is_named and not (marks or has_marks(unit)):
        state = UNMARKED
    return Checkpoint(unit.name, step, state, at, unit.size, unit.objects, is_marked)


def newest_of(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the newest one that is whole, or has no mark that could say so."""
    there = (one for one in checkpoints if one.state != UNFINISHED and one.at)
    return max(there, key=lambda one: (one.at, one.step or 0), default=None)


def leftovers(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Return the unfinished ones to which nothing was written since a later one became whole.

    The later one lies beside it: another folder may belong to another writer. Only a mark proves
    that one is whole, so there are no leftovers beside checkpoints without a mark.
    """
    checkpoints, whole = list(checkpoints), dict[str, float]()
    for one in checkpoints:
        if one.is_marked:
            whole[_parent(one.name)] = max(one.at, whole.get(_parent(one.name), 0.0))
    return [
        one
        for one in checkpoints
        if one.state == UNFINISHED and 0 < one.at < whole.get(_parent(one.name), 0.0)
    ]
