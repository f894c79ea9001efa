"""One request to one of these APIs, and error answers."""

from __future__ import annotations

import base64
import hashlib
import json
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
        token = self.query.get("pageToken", "")
        return paged(size, token, items, key, show, of=f"{key} {sorted(self.groups.items())}")


def fingerprint(data: Any) -> str:
    """Return a fingerprint of data, in the base64 that gcloud sends back."""
    text = json.dumps(data, sort_keys=True).encode()
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()[:8]).decode()
