"""One request to one of these APIs, and error answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from .. import errors, payload
from ..tpu_api.call import paged

Groups = dict[str, str]


@dataclass
class Call:
    """One request: the ids in its path, its query and its body."""

    method: str
    groups: Groups
    query: dict[str, str]
    raw: bytes
    base: str = ""
    kind: str = ""
    """The content type of the body."""

    def __getitem__(self, name: str) -> str:
        return unquote(self.groups.get(name) or "")

    def json(self) -> dict[str, Any]:
        """Return the body; an absent one is empty."""
        if not self.raw.strip():
            return {}
        body = payload.read(self.raw)
        if not isinstance(body, dict):
            raise errors.invalid_json()
        return body

    def page(
        self, items: list[Any], key: str, show: Callable[[Any], Any] = lambda item: item
    ) -> dict[str, Any]:
        """Return one page of a list."""
        size = self.query.get("maxResults") or self.query.get("pageSize") or ""
        return paged(size, self.query.get("pageToken", ""), items, key, show)


@dataclass(frozen=True)
class Media:
    """An answer that is not JSON: the content of an object."""

    content: bytes
    kind: str
