"""Values that come from outside, such as a user's file or another worker: what they may be.

The program's parent, for which each start waits, needs them: so it imports little.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeGuard

MOST_ATTEMPTS = 10**9


def is_whole(value: Any) -> TypeGuard[int]:
    """Say whether a value of JSON is a whole number; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Say whether a value of JSON is a number; true and false are none."""
    return is_whole(value) or isinstance(value, float)


def is_key(value: Any) -> TypeGuard[str]:
    """Say whether a value looks like a key of a gang."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def one_line(text: str, most: int = 400) -> str:
    """Return a text on one line, without anything that is not printed."""
    words = "".join(part if part.isprintable() else " " for part in text).split()
    return " ".join(words)[:most]


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Return an object of JSON; None for anything else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def fields_of(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a dataclass has of a JSON object; keys of other versions are passed over."""
    return {key: value for key, value in data.items() if key in kind.__dataclass_fields__}
