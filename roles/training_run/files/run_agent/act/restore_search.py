"""From which folder a new attempt restores, where each attempt has a folder of its own.

It is the one of the last attempt before that has a whole checkpoint. An earlier attempt may still
write, as it does not know that it is over: what it adds is of a course that was left, however new.
"""

from __future__ import annotations

from typing import Any

from ..decide import fence
from .bucket_look import look
from .bucket_requests import CannotLook

_MOST = 20
"""Attempts one after the other that saved nothing, through which is searched."""


def folder(place: dict[str, Any], attempt: int, known: str | None) -> str | None:
    """Return its name below the run's folder, empty for that itself; None where there is none.

    `known` is the answer for an attempt before, which had looked at all before that one. Raises
    CannotLook.
    """
    prefix = place["name"].rpartition("/")[0]
    oldest = fence.number_of(known) or 0
    for number in range(attempt - 1, max(oldest, attempt - 1 - _MOST), -1):
        if _is_whole(place, prefix, fence.folder_of(number)):
            return fence.folder_of(number)
    if known is not None:
        return known
    return "" if _is_whole(place, prefix, "") else None


def _is_whole(place: dict[str, Any], prefix: str, name: str) -> bool:
    """Return whether a folder has a whole checkpoint that is not in one of an attempt below."""
    parts = [part for part in (prefix, name) if part]
    asked = {
        "prefix": "".join(f"{part}/" for part in parts),
        "known": {},
        "without_attempts": not name,
    }
    found = look({**place, **asked})
    if found["error"]:
        raise CannotLook(found["error"])
    return bool(found["checkpoint"])
