"""One request to the TPU API, taken apart."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from .. import errors, payload
from ..model.shared import schema

DEFAULT_PAGE, LARGEST_PAGE = 500, 1000
Query = dict[str, str]


class Asked(NamedTuple):
    """A request as the front end has it, for whichever API answers its path."""

    method: str
    path: str
    query: Query
    body: bytes
    token: bool
    """Whether it has one."""
    unpaid: bool = False
    """Whether it comes from a person and names no quota project."""


class Call:
    """One request: version, project, zone, id, verb, body, and the query by the fields' names."""

    def __init__(
        self, version: str, match: re.Match[str], query: Query, body: bytes, method: str = ""
    ) -> None:
        groups = match.groupdict()
        self.version = version
        self.method = method
        self.project = unquote(groups["project"])
        self.zone = unquote(groups.get("zone") or "")
        self.id = unquote(groups.get("id") or "")
        self.query = query
        self._body = body

    def parse(self, message: str, where: str) -> dict[str, Any]:
        """Return the body, checked; an absent body is an empty one."""
        if not self._body.strip():
            return {}
        return schema.parse(payload.read(self._body), message, where, self.version)

    @property
    def listed(self) -> str:
        """Return what distinguishes the list of a request from others."""
        return f"{self.method} {self.zone} {self.argument('filter')} {self.argument('orderBy')}"

    def argument(self, name: str) -> str:
        """Return a query parameter."""
        return self.query.get(name, "")


def page(call: Call, items: Sequence[Any], key: str, show: Callable[[Any], Any]) -> dict[str, Any]:
    """Return one page of a list, without empty fields."""
    size, token = call.argument("pageSize"), call.argument("pageToken")
    return paged(size, token, items, key, show, of=call.listed)


def paged(
    size: str,
    token: str,
    items: Sequence[Any],
    key: str,
    show: Callable[[Any], Any],
    place: Callable[[Any], str] | None = None,
    of: str = "",
) -> dict[str, Any]:
    """Return the page that the token names by number, or by the item before it.

    A token is good for the list that it was given with, which `of` identifies.
    """
    if size and not re.fullmatch(r"\d+", size):
        raise errors.invalid_page_size()
    count = min(int(size or 0) or DEFAULT_PAGE, LARGEST_PAGE)
    mark = f"after:{hashlib.sha256(of.encode()).hexdigest()[:8]}"
    begin = _begin(token, mark, items, place)
    shown = [show(item) for item in items[begin : begin + count]]
    answer: dict[str, Any] = {key: shown} if shown else {}
    if begin + count < len(items):
        last = place(items[begin + count - 1]) if place else str(begin + count)
        answer["nextPageToken"] = base64.urlsafe_b64encode(f"{mark}:{last}".encode()).decode()
    return answer


def _begin(token: str, mark: str, items: Sequence[Any], place: Callable[[Any], str] | None) -> int:
    if not token:
        return 0
    try:
        found = base64.urlsafe_b64decode(token).decode()
        last = found.removeprefix(f"{mark}:")
        if last != found:
            return bisect_right(items, last, key=place) if place else int(last)
    except (ValueError, binascii.Error):
        pass
    raise errors.invalid_page_token()
