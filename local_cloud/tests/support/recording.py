"""A local cloud that keeps what it was asked and what it answered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, unquote

from emulator import Emulator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tpu_local_cloud.serve import server


@dataclass(frozen=True)
class Exchange:
    """One request and its answer."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    status: int
    answer: Any


class Recorder:
    """Passes requests on and keeps them, but for those of the control interface."""

    def __init__(self, app: ASGIApp, seen: list[Exchange]) -> None:
        self.app = app
        self.seen = seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"].startswith("/_cloud/"):
            await self.app(scope, receive, send)
            return
        sent: list[bytes] = []
        answered: list[bytes] = []
        status = 0

        async def read() -> Message:
            message = await receive()
            sent.append(message.get("body", b""))
            return message

        async def write(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            answered.append(message.get("body", b""))
            # Before the client has it: it may look at once.
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self.seen.append(_exchange(scope, sent, status, answered))
            await send(message)

        await self.app(scope, read, write)


def _exchange(scope: Scope, sent: list[bytes], status: int, answered: list[bytes]) -> Exchange:
    return Exchange(
        method=scope["method"],
        path=unquote(scope["path"]),
        query=dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True)),
        headers={name.decode(): value.decode() for name, value in scope["headers"]},
        body=_json(b"".join(sent)),
        status=status,
        answer=_json(b"".join(answered)),
    )


def _json(text: bytes) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode(errors="replace")


class RecordingEmulator(Emulator):
    """An emulator with a list of what it `seen` so far."""

    def start(self) -> None:
        """Serve, until stop."""
        self.seen: list[Exchange] = []
        made = server.CloudApp
        with mock.patch.object(server, "CloudApp", lambda *all: Recorder(made(*all), self.seen)):
            super().start()
