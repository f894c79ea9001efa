"""One request to the TPU API, taken apart."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from . import errors, schema

DEFAULT_PAGE, LARGEST_PAGE = 500, 1000
Query = dict[str, str]


class Call:
    """One request: version, project, zone, id, verb, query and body."""

    def __init__(self, version: str, match: re.Match[str], query: Query, body: bytes) -> None:
        groups = match.groupdict()
        self.version = version
        self.project = unquote(groups["project"])
        self.zone = unquote(groups.get("zone") or "")
        self.id = unquote(groups.get("id") or "")
        self.query = query
        self._body = body

    def parse(self, message: dict[str, schema.Spec], where: str) -> dict[str, Any]:
        """Return the body, checked; an absent body is an empty one."""
        if not self._body.strip():
            return {}
        try:
            raw = json.loads(self._body)
        except ValueError:
            raise errors.invalid_json() from None
        return schema.parse(raw, message, where)

    def argument(self, name: str) -> str:
        """Return a query parameter in either spelling."""
        return self.query.get(name) or self.query.get(schema.snake(name)) or ""


def page(call: Call, items: list[Any], key: str, show: Callable[[Any], Any]) -> dict[str, Any]:
    """Return one page of a list; what is empty is left out."""
    return paged(call.argument("pageSize"), call.argument("pageToken"), items, key, show)


def paged(
    size: str, token: str, items: list[Any], key: str, show: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return the page of this size that the token names."""
    if size and not re.fullmatch(r"\d+", size):
        raise errors.invalid_page_size()
    count = min(int(size or 0) or DEFAULT_PAGE, LARGEST_PAGE)
    start = _start(token)
    answer: dict[str, Any] = {}
    shown = [show(item) for item in items[start : start + count]]
    if shown:
        answer[key] = shown
    if start + count < len(items):
        following = base64.urlsafe_b64encode(f"from:{start + count}".encode()).decode()
        answer["nextPageToken"] = following
    return answer


def _start(token: str) -> int:
    if not token:
        return 0
    try:
        word, _, number = base64.urlsafe_b64decode(token).decode().partition(":")
        if word == "from":
            return int(number)
    except (ValueError, binascii.Error):
        pass
    raise errors.invalid_page_token()
