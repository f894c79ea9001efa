"""The parameter `fields`, which requests a part of an answer: `nodes(name,state)`."""

from __future__ import annotations

import re
from typing import Any

from ..errors import ApiError, unknown_selection
from ..model.shared.schema import snake

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


def of_answer(fields: str, document: dict[str, Any], method: dict[str, Any]) -> Mask:
    """Return the requested fields of the answer of a method in a discovery document."""
    mask = parse(fields) if fields else {}
    answered = method.get("response")
    if mask and answered:
        _check(mask, document["schemas"], answered, "")
    return mask


def _check(mask: Mask, schemas: dict[str, Any], field: dict[str, Any], path: str) -> None:
    """Raise for what a message of this schema never has."""
    if "$ref" in field:
        field = schemas[field["$ref"]]
    if "items" in field:
        _check(mask, schemas, field["items"], path)
        return
    named, any_name = field.get("properties", {}), field.get("additionalProperties")
    known = {snake(name): each for name, each in named.items()} | named
    for name, inner in mask.items():
        there = f"{path}.{name}" if path else name
        if name not in known and any_name is None and name != "*":
            raise unknown_selection(there)
        # Of `*` below a message each field would have to be looked at: it selects what there is.
        below = known.get(name, any_name)
        if inner and below:
            _check(inner, schemas, below, there)


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
