"""Answers on their way to a client: whole, late, cut off, or read from a file as they go."""

from __future__ import annotations

import asyncio
import socket
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from starlette.types import Scope, Send

from ..model.storage.contents import read
from ..storage_api.call import Content
from .frontend import Reply

# Time to send half of an answer before its connection is reset.
FLUSH = 0.05
# Bytes of an answer whose length is not known before: half of them come before a reset.
UNKNOWN = 2048
# Answers that have no body, and say nothing of its length.
_EMPTY = (204, 304)


async def deliver(reply: Reply, scope: Scope, send: Send) -> None:
    """Send an answer, after its delay and as far as its faults let it come."""
    try:
        if reply.pause:
            await asyncio.sleep(reply.pause)
        if reply.cut == "drop":
            _close(send, abruptly=False)
            return
        await _start(reply, send)
        if scope["method"] == "HEAD" or reply.status in _EMPTY:
            await send({"type": "http.response.body", "body": b""})
        else:
            await _body(reply, send)
    finally:
        if reply.content:
            reply.content.file.close()


async def _start(reply: Reply, send: Send) -> None:
    headers, length = reply.headers, _length(reply)
    if length is not None and reply.status not in _EMPTY:
        headers = {**headers, "Content-Length": str(length)}
    raw = [(key.lower().encode(), value.encode("latin-1")) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": raw})


def _length(reply: Reply) -> int | None:
    if reply.content is None:
        return len(reply.body)
    return None if reply.content.gunzip else reply.content.size


async def _body(reply: Reply, send: Send) -> None:
    if reply.content is None and reply.cut != "reset":
        await send({"type": "http.response.body", "body": reply.body})
        return
    length = _length(reply)
    left = (length or UNKNOWN) // 2 if reply.cut == "reset" else None
    parts = _parts(reply.content) if reply.content else iter([reply.body])
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        if left is not None and len(part) >= left:
            await _reset(part[:left], send)
            return
        left = None if left is None else left - len(part)
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _reset(last: bytes, send: Send) -> None:
    await send({"type": "http.response.body", "body": last, "more_body": True})
    if _transport(send):
        await asyncio.sleep(FLUSH)
        _close(send, abruptly=True)


def _parts(content: Content) -> Iterator[bytes]:
    parts = read(content.file, content.first, content.size)
    return _unpacked(parts) if content.gunzip else parts


def _unpacked(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what is packed in parts; from where it is no gzip, nothing more."""
    unpacking = zlib.decompressobj(wbits=31)
    for part in parts:
        while part:
            yield unpacking.decompress(part, 1 << 20)
            part = unpacking.unconsumed_tail
    yield unpacking.flush()


def _transport(send: Send) -> Any:
    """Return the connection behind uvicorn's `send`; None where there is none, as in a test."""
    return getattr(getattr(send, "__self__", None), "transport", None)


def _close(send: Send, abruptly: bool) -> None:
    transport = _transport(send)
    if transport is None:
        return
    if abruptly:
        # Closing a socket with a linger time of zero sends a reset.
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()
