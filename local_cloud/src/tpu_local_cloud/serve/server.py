"""Serves one local cloud: `python -m tpu_local_cloud.server --config FILE`."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .. import payload
from ..machines import make_backend
from ..model.cloud import Cloud
from ..model.shared.clock import Clock
from ..model.shared.store import Store
from .frontend import FrontEnd, Reply
from .gate import METADATA_HOSTS, Gate, named, no_page, owned
from .metadata import MetadataApp

# How often due tasks run without a request; requests run them as well.
TICK = 0.1
# For how many of the cloud's seconds a request waits for an operation of Compute Engine.
WAIT = 120.0
# The same in real seconds for a clock that stands still.
SHORT_WAIT = 1.0
# Time to send half of an answer before its connection is reset.
FLUSH = 0.05
# Requests below these paths may be of any size: uploads, and those of the cloud's owner.
UNLIMITED = ("/upload/", "/_cloud/")
# Seconds for which an idle connection stays open, as at Google's load balancers.
KEEP_ALIVE = 610


class CloudApp:
    """The ASGI application around the front end."""

    def __init__(self, front: FrontEnd) -> None:
        self.front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        # The path as it was sent: ids may hold encoded characters.
        path = scope.get("raw_path", b"").decode().partition("?")[0] or request.url.path
        body = await _body(request, None if path.startswith(UNLIMITED) else payload.LARGEST)
        if body is None:
            reply = self.front.too_large()
        else:
            reply = await run_in_threadpool(
                self.front.reply, request.method, path, request.query_params, request.headers, body
            )
        if reply.pause:
            await asyncio.sleep(reply.pause)
        if reply.again:
            reply = await self._wait(reply)
        if reply.cut == "drop":
            _close(send, abruptly=False)
            return
        if reply.cut == "reset":
            await _send_half(reply, send)
            return
        await Response(reply.body, reply.status, reply.headers)(scope, receive, send)

    async def _wait(self, reply: Reply) -> Reply:
        """Wait until an operation is done, at most as long as Google does; return the last answer.

        It holds neither a thread nor a lock, so that many may wait.
        """
        clock = self.front.cloud.clock
        # Where time stands still, only its owner can end the operation.
        longest = clock.real_seconds(WAIT) if clock.mode == "real" else SHORT_WAIT
        deadline = time.monotonic() + longest
        while reply.again and time.monotonic() < deadline and not self.front.cloud.closing.is_set():
            await asyncio.sleep(min(TICK, longest / 10))
            reply = await run_in_threadpool(reply.again)
        return reply


async def _body(request: Request, most: int | None) -> bytes | None:
    """Return the body of a request; None for a larger one, which is read and not kept."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if most is None or size <= most:
            parts.append(part)
    return b"".join(parts) if most is None or size <= most else None


async def _send_half(reply: Reply, send: Send) -> None:
    headers = {**reply.headers, "Content-Length": str(len(reply.body))}
    raw = [(key.encode(), value.encode()) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": raw})
    half = reply.body[: len(reply.body) // 2]
    await send({"type": "http.response.body", "body": half, "more_body": True})
    if _transport(send):
        await asyncio.sleep(FLUSH)
        _close(send, abruptly=True)


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


class Server:
    """One cloud with its listeners; to be run here, or in a thread of a test."""

    def __init__(self, config: dict[str, Any]) -> None:
        state_dir = Path(config["state_dir"]) if config.get("state_dir") else None
        self.backend = make_backend(config.get("hosts", "none"), state_dir or Path())
        self.cloud = Cloud(
            self.backend,
            Store(state_dir / "state.db" if state_dir else None),
            Clock(config.get("clock", "real"), float(config.get("speed", 1))),
            project=config.get("project", "local-project"),
            number=config.get("project_number", "123456789012"),
            delays=config.get("delays"),
        )
        self._address = (config.get("host", "127.0.0.1"), int(config.get("port", 0)))
        # A person who started it with sudo uses it as their own user.
        self._owners = {os.geteuid(), *map(int, config.get("owners", ()))}
        # None: gRPC is off.
        self._grpc_port: int | None = config.get("grpc_port")
        self._servers: list[uvicorn.Server] = []
        self._metadata = MetadataApp(self.cloud)
        self.url = ""
        self.grpc_endpoint = ""
        self.ready = threading.Event()

    async def serve(self) -> None:
        """Serve until a stop is requested."""
        await asyncio.to_thread(self.backend.open)
        listeners: list[tuple[Any, socket.socket]] = []
        api_socket = _listen(*self._address)
        self.url = "http://{}:{}/".format(*api_socket.getsockname()[:2])
        own, users = named((), loopback=True), owned(self._owners)
        front = FrontEnd(self.cloud)
        listeners.append((Gate(CloudApp(front), own, no_page, users), api_socket))
        over_grpc = self._open_grpc(front, users)
        metadata_address = self.backend.metadata_address()
        if metadata_address:
            own = named((*METADATA_HOSTS, metadata_address[0]), loopback=False)
            metadata = Gate(self._metadata.asgi, own, no_page)
            listeners.append((metadata, _listen(*metadata_address)))
        for app, _ in listeners:
            config = uvicorn.Config(
                app,
                log_level="warning",
                lifespan="off",
                timeout_graceful_shutdown=5,
                timeout_keep_alive=KEEP_ALIVE,
                server_header=False,
                date_header=False,
                # Otherwise a client could choose its address with X-Forwarded-For.
                proxy_headers=False,
            )
            self._servers.append(_Server(config))
        ticker = asyncio.create_task(self._tick())
        self.ready.set()
        try:
            await asyncio.gather(
                *(
                    server.serve(sockets=[listener])
                    for server, (_, listener) in zip(self._servers, listeners, strict=True)
                )
            )
        finally:
            ticker.cancel()
            if over_grpc:
                await asyncio.to_thread(over_grpc.stop)
            self._metadata.closing = True
            await asyncio.to_thread(self.cloud.close)
            self.backend.close()

    def _open_grpc(self, front: FrontEnd, users: Callable[[Scope, Headers], str]) -> Any:
        if self._grpc_port is None:
            return None
        # Imported here, because it is an extra of the package, and takes a second.
        from .grpc import GrpcServer

        server = GrpcServer(front, self._address[0], self._grpc_port, users)
        server.start()
        self.grpc_endpoint = "{}:{}".format(*server.address)
        return server

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            await asyncio.to_thread(self.cloud.advance)

    def stop(self) -> None:
        """Stop serving; the machines keep running."""
        self._metadata.closing = True
        for server in self._servers:
            server.should_exit = True


class _Server(uvicorn.Server):
    """Does not handle signals, because the process may have two servers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _listen(host: str, port: int) -> socket.socket:
    # asyncio sets TCP_NODELAY only if the protocol is named. Without it, the second part of an
    # answer waits about 40 ms for the client's delayed acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(1024)
    return listener


def main() -> None:
    """Run a server from its configuration file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--config", type=Path, required=True, help="what `tpu-local-cloud up` wrote"
    )
    config = json.loads(parser.parse_args().config.read_text())
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    server = Server(config)
    pid_file = Path(config["state_dir"]) / "server.pid"

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        pid_file.write_text(f"{os.getpid()}\n")
        await server.serve()

    try:
        asyncio.run(run())
    finally:
        pid_file.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
