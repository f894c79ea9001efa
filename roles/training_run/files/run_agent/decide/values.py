"""Values that come from outside, such as a user's file or another worker: what they may be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

MOST_ATTEMPTS = 10**9
_KEY = re.compile(r"[0-9a-f]{64}")


def is_whole(value: Any) -> TypeGuard[int]:
    """Say whether a value of JSON is a whole number; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Say whether a value of JSON is a number; true and false are none."""
    return is_whole(value) or isinstance(value, float)


def is_key(value: Any) -> TypeGuard[str]:
    """Say whether a value looks like a key of a gang."""
    return isinstance(value, str) and bool(_KEY.fullmatch(value))


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
