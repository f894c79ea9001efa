"""Serves one local cloud: `python -m tpu_local_cloud.server --config FILE`."""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
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
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import payload
from ..machines import make_backend
from ..machines.network import HTTPS
from ..model.cloud import Cloud
from ..model.shared.clock import Clock
from ..model.shared.store import Store
from . import tls
from .authority import Papers, papers
from .blocked_ports import BlockedPorts
from .frontend import FrontEnd, Reply
from .gate import METADATA_HOSTS, Gate, named, named_storage, no_page, owned
from .metadata import MetadataApp
from .sending import deliver
from .storage import Identify, StorageApp, is_for_storage, of_machines, of_owner

# How often due tasks run without a request; requests run them as well.
TICK = 0.1
# For how many of the cloud's seconds a request waits for an operation of Compute Engine.
WAIT = 120.0
# The same in real seconds for a clock that stands still.
SHORT_WAIT = 1.0
# Requests of the cloud's owner below this path may be of any size.
UNLIMITED = "/_cloud/"
# Seconds for which an idle connection stays open, as at Google's load balancers.
KEEP_ALIVE = 610


class CloudApp:
    """The ASGI application around the front end."""

    def __init__(self, front: FrontEnd, storage: StorageApp) -> None:
        self.front, self._storage = front, storage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        # The path as it was sent: ids may hold encoded characters.
        path = scope.get("raw_path", b"").decode().partition("?")[0] or request.url.path
        if is_for_storage(self.front.cloud, path, request.headers.get("host", "")):
            await self._storage(scope, receive, send)
            return
        body = await _body(request, None if path.startswith(UNLIMITED) else payload.LARGEST)
        if body is None:
            reply = self.front.too_large()
        else:
            reply = await run_in_threadpool(
                self.front.reply, request.method, path, request.query_params, request.headers, body
            )
        if reply.again:
            reply = await self._wait(reply)
        await deliver(reply, scope, send)

    async def _wait(self, reply: Reply) -> Reply:
        """Wait until an operation is done, at most as long as Google does; return the last answer.

        It holds neither a thread nor a lock, so that many may wait.
        """
        await asyncio.sleep(reply.pause)
        clock = self.front.cloud.clock
        # Where time stands still, only its owner can end the operation.
        longest = clock.real_seconds(WAIT) if clock.mode == "real" else SHORT_WAIT
        deadline = time.monotonic() + longest
        while reply.again and time.monotonic() < deadline and not self.front.cloud.closing.is_set():
            await asyncio.sleep(min(TICK, longest / 10))
            reply = await run_in_threadpool(reply.again)
        return reply


async def _next_tick() -> None:
    """Wait for the moment at which all that looks around here does so: each waking up costs."""
    await asyncio.sleep(TICK - asyncio.get_running_loop().time() % TICK)


async def _body(request: Request, most: int | None) -> bytes | None:
    """Return the body of a request; None for a larger one, which is read and not kept."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if most is None or size <= most:
            parts.append(part)
    return b"".join(parts) if most is None or size <= most else None


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
            buckets=state_dir / "buckets" if state_dir else None,
        )
        self._address = (config.get("host", "127.0.0.1"), int(config.get("port", 0)))
        # A person who started it with sudo uses it as their own user.
        self._owners = {os.geteuid(), *map(int, config.get("owners", ()))}
        # None: gRPC is off.
        self._grpc_port: int | None = config.get("grpc_port")
        self._servers: list[uvicorn.Server] = []
        # None: there is no port with TLS on this computer's own address.
        self._tls_port: int | None = config.get("tls_port")
        self._tls_folder = state_dir / "tls" if state_dir else None
        self._front = FrontEnd(self.cloud)
        self._metadata = MetadataApp(self._front)
        self._at_end: list[Callable[[], None]] = []
        self.url = ""
        self.tls_port = 0
        self.grpc_endpoint = ""
        self.ready = threading.Event()

    async def serve(self) -> None:
        """Serve until a stop is requested."""
        if metadata_address := self.backend.metadata_address():
            # Machines trust it from their first boot on.
            await asyncio.to_thread(self._papers)
        await asyncio.to_thread(self.backend.open)
        listeners: list[tuple[uvicorn.Config, socket.socket]] = []
        api_socket = _listen(*self._address)
        self.url = "http://{}:{}/".format(*api_socket.getsockname()[:2])
        own, users = named((), loopback=True), owned(self._owners)
        of_owners = StorageApp(self._front, of_owner(self._metadata.tokens.caller))
        app = CloudApp(self._front, of_owners)
        listeners.append((_config(Gate(app, own, no_page, users)), api_socket))
        over_grpc = self._open_grpc(self._front, users)
        if metadata_address:
            own = named((*METADATA_HOSTS, metadata_address[0]), loopback=False)
            metadata = Gate(self._metadata.asgi, own, no_page)
            listeners.append((_config(metadata), _listen(*metadata_address)))
        listeners += await asyncio.to_thread(self._open_tls, of_owners, users, metadata_address)
        self._servers = [_Server(config) for config, _ in listeners]
        beside = [asyncio.create_task(self._tick())]
        if metadata_address:
            beside.append(asyncio.create_task(self._chip_ports()))
            beside.append(asyncio.create_task(BlockedPorts(self.cloud, self.backend).run()))
        self.ready.set()
        try:
            await asyncio.gather(
                *(
                    server.serve(sockets=[listener])
                    for server, (_, listener) in zip(self._servers, listeners, strict=True)
                )
            )
        finally:
            for task in beside:
                task.cancel()
            if over_grpc:
                await asyncio.to_thread(over_grpc.stop)
            for end in self._at_end:
                await asyncio.to_thread(end)
            self._metadata.closing = True
            await asyncio.to_thread(self.cloud.close)
            self.backend.close()

    async def _chip_ports(self) -> None:
        # Imported here, as gRPC is an extra of the package.
        from .chip_ports import ChipPorts

        await ChipPorts(self.cloud, self.backend).run()

    def _open_grpc(self, front: FrontEnd, users: Callable[[Scope, Headers], str]) -> Any:
        if self._grpc_port is None:
            return None
        # Imported here, because it is an extra of the package, and takes a second.
        from .grpc import GrpcServer

        server = GrpcServer(front, self._address[0], self._grpc_port, users)
        server.start()
        self.grpc_endpoint = "{}:{}".format(*server.address)
        return server

    def _open_tls(
        self,
        of_owners: StorageApp,
        users: Callable[[Scope, Headers], str],
        metadata_address: tuple[str, int] | None,
    ) -> list[tuple[uvicorn.Config, socket.socket]]:
        """Return the listeners that answer as storage.googleapis.com: for users, for machines."""
        found = []
        tokens, names = self._metadata.tokens.caller, named_storage
        if self._tls_port is not None:
            listener = _listen(self._address[0], self._tls_port)
            self.tls_port = listener.getsockname()[1]
            app = Gate(of_owners, names, no_page, users)
            found.append((self._with_tls(app, of_owner(tokens)), listener))
        if metadata_address and (there := _free(metadata_address[0], HTTPS)):
            identify = of_machines(tokens)
            app = Gate(StorageApp(self._front, identify), names, no_page)
            found.append((self._with_tls(app, identify), there))
        return found

    def _with_tls(self, app: ASGIApp, identify: Identify) -> uvicorn.Config:
        relay = self._relay(identify)
        files = self._papers()
        more = {"ssl_certfile": files.certificate, "ssl_keyfile": files.key}
        config = _config(app, http=relay, **more)
        config.load()
        if config.ssl is not None:
            config.ssl.set_alpn_protocols(tls.OFFERED)
        return config

    def _papers(self) -> Papers:
        if self._tls_folder is None:
            # Without a state folder, everything ends with the process.
            made = Path(tempfile.mkdtemp(prefix="tpu-tls-"))
            self._at_end.append(functools.partial(shutil.rmtree, made, ignore_errors=True))
            self._tls_folder = made / "tls"
        return papers(self._tls_folder)

    def _relay(self, identify: Identify) -> Any:
        """Return the protocol of a port with TLS, behind which a server speaks gRPC."""
        # A cloud without a port with TLS starts without the time that this import takes.
        from .storage_grpc import StorageGrpc

        server = StorageGrpc(self.cloud, identify)
        server.start()
        self._at_end.append(server.stop)
        return tls.protocol(server.path)

    @property
    def authority(self) -> Path:
        """Return the file with the certificate that clients of the port with TLS must trust."""
        return papers(self._tls_folder or Path()).authority

    async def _tick(self) -> None:
        while True:
            await _next_tick()
            # Mostly nothing is, and to look is a hundredth of what a thread costs.
            if self.cloud.is_due():
                await asyncio.to_thread(self.cloud.advance)

    def stop(self) -> None:
        """Stop serving; the machines keep running."""
        self._metadata.closing = True
        for server in self._servers:
            server.should_exit = True


class _Server(uvicorn.Server):
    """Does not handle signals, and ticks with the others, because there may be four of them."""

    async def main_loop(self) -> None:
        """Look whether it is to end, and keep the date of its answers, until it ends."""
        number = 0
        while not await self.on_tick(number):
            number += 1
            await _next_tick()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _config(app: ASGIApp, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        lifespan="off",
        timeout_graceful_shutdown=5,
        timeout_keep_alive=KEEP_ALIVE,
        server_header=False,
        date_header=False,
        # Otherwise a client could choose its address with X-Forwarded-For.
        proxy_headers=False,
        **more,
    )


def _free(host: str, port: int) -> socket.socket | None:
    """Return a listener; None where another program of this computer has the port."""
    try:
        return _listen(host, port)
    except OSError as error:
        logging.getLogger(__name__).warning(
            "machines cannot reach storage.googleapis.com: %s:%s is in use (%s)", host, port, error
        )
        return None


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
