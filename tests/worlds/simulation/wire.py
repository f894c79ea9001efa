"""Carries requests to a local cloud in this process: real bytes, status and headers, no sockets.

It takes the place of the library's session, whose own work would take half of a life's time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import requests

from tpu_local_cloud.serve.frontend import FrontEnd

# Nobody listens there; a request that misses the wire fails at once.
ENDPOINT = "http://127.0.0.1:1/"


@dataclass(frozen=True)
class Sent:
    """One request, as it goes out."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What a client reads of an answer."""

    status_code: int
    content: bytes
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        """Return the content as text."""
        return self.content.decode()


class Wire:
    """Answers requests from a local cloud; `around` may cut in."""

    auth = None

    def __init__(
        self, front: FrontEnd, around: Callable[[Sent, Callable[[], Answer]], Answer]
    ) -> None:
        self._front = front
        self._around = around

    def request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        **_options: Any,
    ) -> Answer:
        """Answer one request."""
        headers, body = {"Host": "127.0.0.1:1"}, b""
        if json is not None:
            headers["Content-Type"], body = "application/json", _bytes(json)
        query = {name: str(value) for name, value in (params or {}).items()}
        sent = Sent(method, urlsplit(url).path, query, headers, body)
        return self._around(sent, lambda: self._exchange(sent))

    def _exchange(self, sent: Sent) -> Answer:
        """Let the cloud see a request; return what a client would read of its answer."""
        # Spaces for people take a third of the time of an answer.
        query = {**sent.query, "prettyPrint": "false"}
        reply = self._front.reply(sent.method, sent.path, query, sent.headers, sent.body)
        if reply.pause or reply.again:
            raise RuntimeError("the cloud waits for real time; the simulation has none")
        if reply.cut:
            where = "without an answer" if reply.cut == "drop" else "in the middle"
            raise requests.exceptions.ConnectionError(f"closed {where}")
        return Answer(reply.status, reply.body, reply.headers)


def session_over(wire: Wire) -> requests.Session:
    """Return a session that knows no way but this wire."""
    return cast(requests.Session, wire)


def _bytes(document: Any) -> bytes:
    return json.dumps(document).encode()
