"""HTTP/1.1 and gRPC on one port with TLS: the client's offer (ALPN) decides which it is."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

# A client that speaks both gets the JSON API; gRPC offers h2 alone.
OFFERED = ["http/1.1", "h2"]


def protocol(relay_to: str) -> type[asyncio.Protocol]:
    """Return the protocol of a port whose gRPC connections go on to a Unix socket."""

    class Relaying(Doorman):
        path = relay_to

    return Relaying


class Doorman(H11Protocol):
    """Serves HTTP/1.1 itself; relays what is HTTP/2, byte by byte."""

    path = ""
    _waiting: list[bytes] | None = None
    _writer: asyncio.StreamWriter | None = None
    _relay: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Look what the client wants to speak."""
        socket = transport.get_extra_info("ssl_object")
        if socket is not None and socket.selected_alpn_protocol() == "h2":
            self._waiting = []
            self._relay = asyncio.ensure_future(self._pass_on(transport))
        else:
            super().connection_made(transport)

    async def _pass_on(self, transport: asyncio.Transport) -> None:
        try:
            reader, self._writer = await asyncio.open_unix_connection(self.path)
            for part in self._waiting or []:
                self._writer.write(part)
            while data := await reader.read(1 << 16):
                transport.write(data)
        except OSError:
            pass
        finally:
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Take what the client sends."""
        if self._waiting is None:
            super().data_received(data)
        elif self._writer is None:
            self._waiting.append(data)
        else:
            self._writer.write(data)

    def eof_received(self) -> None:
        """Take the end of what the client sends."""
        if self._waiting is None:
            super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with the client."""
        if self._waiting is None:
            super().connection_lost(exc)
            return
        if self._writer is not None:
            self._writer.close()
        cast(asyncio.Task[Any], self._relay).cancel()

    def pause_writing(self) -> None:
        """Wait with HTTP answers; what is relayed is small."""
        if self._waiting is None:
            super().pause_writing()

    def resume_writing(self) -> None:
        """Go on with HTTP answers."""
        if self._waiting is None:
            super().resume_writing()
