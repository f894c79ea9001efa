"""The parameter `fields`, which requests a part of an answer: `nodes(name,state)`."""

from __future__ import annotations

import re
from typing import Any

from ..errors import ApiError

# The fields to keep, each with its own fields to keep; {} is everything.
Mask = dict[str, Any]
_WORD = re.compile(r"[A-Za-z0-9_@.*-]+|[(),/]")


def parse(text: str) -> Mask:
    """Return the requested fields; camelCase and snake_case are equivalent here."""
    words = _WORD.findall(text)
    if "".join(words) != text.replace(" ", ""):
        raise _invalid(text)
    mask, rest = _list(words, text)
    if rest:
        raise _invalid(text)
    return mask


def _list(words: list[str], text: str) -> tuple[Mask, list[str]]:
    mask: Mask = {}
    while True:
        if not words or words[0] in "(),/":
            raise _invalid(text)
        place, words = mask, words
        while True:
            name, words = words[0], words[1:]
            inner: Mask = place.setdefault(name, {})
            if not (words and words[0] == "/"):
                break
            place, words = inner, words[1:]
            if not words or words[0] in "(),/":
                raise _invalid(text)
        if words and words[0] == "(":
            found, words = _list(words[1:], text)
            if not words or words[0] != ")":
                raise _invalid(text)
            inner.update(found)
            words = words[1:]
        if not words or words[0] != ",":
            return mask, words
        words = words[1:]


def keep(value: Any, mask: Mask) -> Any:
    """Return the requested part of a value."""
    if not mask:
        return value
    if isinstance(value, list):
        return [keep(item, mask) for item in value]
    if not isinstance(value, dict):
        return value
    rest: Mask = mask.get("*", {})
    return {
        name: keep(item, mask.get(name, rest))
        for name, item in value.items()
        if name in mask or "*" in mask
    }


def _invalid(text: str) -> ApiError:
    return ApiError("INVALID_ARGUMENT", f"Invalid field selection {text}")
