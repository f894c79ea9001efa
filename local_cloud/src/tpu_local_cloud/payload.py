"""JSON of requests: read as strictly as Google reads it, so that each value can be shown again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from . import errors

# As deep as Google's parser follows objects and lists.
DEEPEST = 100
# Bytes of one request; Google's limit for all but uploads.
LARGEST = 10_485_760
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")


def read(body: bytes) -> Any:
    """Return the value of a JSON body; raise ApiError if it is none that Google accepts.

    Half of a surrogate pair is no character: it could be stored, but never be sent again.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise errors.invalid_json("Encountered non UTF-8 code points.") from None
    if body.count(b"[") + body.count(b"{") > DEEPEST:
        _check_depth(text)
    try:
        value = json.loads(text)
    except ValueError:
        raise errors.invalid_json() from None
    if _ESCAPED.search(body) and any(map(_SURROGATE.search, _texts(value))):
        raise errors.invalid_json("Missing low surrogate.")
    return value


def _texts(value: Any) -> Iterator[str]:
    """Iterate over all strings of a value, also its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)


def _check_depth(text: str) -> None:
    """Refuse what is nested too deep, before the parser follows it."""
    depth, inside = 0, False
    for token in re.finditer(r'\\.|["\[\]{}]', text):
        sign = token[0]
        if sign == '"':
            inside = not inside
        elif not inside and sign in "[{":
            depth += 1
            if depth > DEEPEST:
                raise errors.nested_too_deep(_key_before(text, token.start()))
        elif not inside and sign in "]}":
            depth -= 1


def _key_before(text: str, place: int) -> str:
    """Return the key whose value begins at a place; empty if it is an item of a list."""
    found = re.search(r'"([^"\\]*)"\s*:\s*$', text[max(0, place - 300) : place])
    return found[1] if found else ""
