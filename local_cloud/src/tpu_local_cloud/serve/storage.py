"""Cloud Storage over HTTP: bodies are read as they come, in a thread for each request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import parse_qsl

import anyio
import anyio.from_thread
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from ..model.cloud import Cloud
from ..model.storage.contents import CHUNK
from ..storage_api import api, xml
from ..storage_api.access import ANYONE, OWNER, UNKNOWN, Caller
from ..storage_api.call import Request
from .frontend import FrontEnd, Reply
from .sending import deliver

# Requests that are answered at the same time; more wait.
MOST = 200
# Where a path begins like this on the port of all APIs, no bucket is meant.
_OTHERS = re.compile(r"/(?:_|v\d|compute|batch|discovery|\$discovery)(?:/|$)")
Identify = Callable[[str], Caller]
# Returns whose a token is, if it is one that the cloud gave to a machine.
Known = Callable[[str], Caller | None]


def is_for_storage(cloud: Cloud, path: str, host: str) -> bool:
    """Return whether a request on the port of all APIs is one for Cloud Storage."""
    if api.is_json(path) or xml.HOST.fullmatch(host.partition(":")[0]):
        return True
    first = path[1:].partition("/")[0]
    return bool(first) and not _OTHERS.match(path) and cloud.buckets.has(first)


def of_owner(known: Known) -> Identify:
    """Return who calls where only the owner of the cloud may: a machine by its token, or they."""
    return lambda token: known(token) or OWNER


def of_machines(known: Known) -> Identify:
    """Return who calls from a machine: its account, or a client without one."""
    return lambda token: known(token) or (UNKNOWN if token else ANYONE)


class StorageApp:
    """The ASGI application."""

    def __init__(self, front: FrontEnd, identify: Identify) -> None:
        self._front, self._identify = front, identify
        self._limiter: anyio.CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        self._limiter = self._limiter or anyio.CapacityLimiter(MOST)
        body = Incoming(receive)
        work = partial(self._front.storage, self._request(scope, body))
        try:
            reply: Reply = await anyio.to_thread.run_sync(work, limiter=self._limiter)
            # A client that still sends would not read the answer.
            await body.drain()
        except ConnectionResetError:
            return
        await deliver(reply, scope, send)

    def _request(self, scope: Scope, body: Incoming) -> Request:
        headers = Headers(scope=scope)
        kind, _, token = headers.get("authorization", "").partition(" ")
        pairs = tuple(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        return Request(
            method=scope["method"],
            # The path as it was sent: names contain encoded slashes.
            path=scope["raw_path"].decode("latin-1").partition("?")[0],
            query=dict(pairs),
            headers=dict(headers),
            body=body,
            caller=self._identify(token.strip() if kind == "Bearer" else ""),
            root=f"{scope['scheme']}://{headers.get('host', '')}",
            pairs=pairs,
        )


class Incoming:
    """The body of a request, for a thread that takes it part by part."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._more = receive, True

    def __iter__(self) -> Iterator[bytes]:
        while self._more:
            part: bytes = anyio.from_thread.run(self._pull)
            if part:
                yield part

    async def drain(self) -> None:
        """Take the rest, which nothing needs."""
        while self._more:
            await self._pull()

    async def _pull(self) -> bytes:
        parts, size = [], 0
        while self._more and size < CHUNK:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._more = False
                raise ConnectionResetError("the client left")
            self._more = message.get("more_body", False)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        return b"".join(parts)
