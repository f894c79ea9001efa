"""One request for buckets or objects, whose body is read as it comes, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from urllib.parse import unquote

from .. import errors, payload
from ..compute_errors import ComputeError
from ..model.cloud import Cloud
from ..model.storage import conditions
from .access import Caller, require

Headers = Mapping[str, str]


@dataclass(frozen=True)
class Request:
    """What a client sent. Names of headers are in lower case; the path is still encoded."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Headers
    body: Iterable[bytes]
    caller: Caller
    root: str = "http://localhost"
    """Scheme and host by which the client reached the cloud, without a slash at the end."""
    pairs: tuple[tuple[str, str], ...] = ()
    """The query with each of its words, also those that come more than once."""


@dataclass(frozen=True)
class Content:
    """So many bytes of an open file from an offset on, to be sent and closed."""

    file: BinaryIO
    first: int
    size: int
    gunzip: bool = False
    """It is sent unpacked, so that its length is not known before."""


@dataclass(frozen=True)
class Reply:
    """An answer: bytes, or a content."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    content: Content | None = None


Answer = dict[str, Any] | Reply


@dataclass(frozen=True)
class Call:
    """A request that has found its method: ids are the values in its path, not encoded."""

    cloud: Cloud
    request: Request
    groups: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return unquote(self.groups.get(name) or "")

    @property
    def query(self) -> Mapping[str, str]:
        """Return the query."""
        return self.request.query

    @property
    def conditions(self) -> conditions.Conditions:
        """Return the preconditions of the request."""
        return conditions.of_query(self.query)

    @property
    def may_replace(self) -> bool:
        """Return whether the caller may overwrite what is there."""
        return self.may("storage.objects.delete")

    def may(self, permission: str, bucket: str = "") -> bool:
        """Return whether the caller has a permission for the bucket of the call, or another."""
        try:
            self.require(permission, bucket)
        except ComputeError:
            return False
        return True

    def require(self, permission: str, bucket: str = "") -> None:
        """Raise if the caller has not a permission."""
        require(self.cloud, self.request.caller, bucket or self["bucket"], permission)

    def raw(self) -> bytes:
        """Return the body of a request that is no upload; raise if it is too large."""
        parts, size = [], 0
        for part in self.request.body:
            size += len(part)
            if size > payload.LARGEST:
                raise errors.too_large(payload.LARGEST)
            parts.append(part)
        return b"".join(parts)

    def json(self) -> dict[str, Any]:
        """Return the body as JSON; an absent one is empty."""
        raw = self.raw()
        found = payload.read(raw) if raw.strip() else {}
        if not isinstance(found, dict):
            raise errors.invalid_json()
        return found

    def flag(self, name: str) -> bool:
        """Return a parameter that is true or false; clients write it in either case."""
        return self.query.get(name, "").lower() == "true"


Handler = Callable[[Call], Answer]
