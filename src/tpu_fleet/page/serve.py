"""Show the page live to browsers on this computer only.

A foreign `Host` is answered with 421, because a web page could otherwise read the page through a
name that it points to 127.0.0.1. The address has a secret part, because other users of this
computer can open 127.0.0.1 as well.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .render import policy

HOST = "127.0.0.1"
BEAT = 15.0
"""Seconds after which a browser without news gets a sign of life."""
MOST_STRANGERS = 32
"""Connections that have not shown the secret part; each has a thread."""


class Live:
    """The page as it is now; a thread sets it, and those of browsers wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._html = b""
        self.number = 0
        self.over = False

    def set(self, html: str) -> None:
        """Show a new page."""
        with self._changed:
            self._html = html.encode()
            self.number += 1
            self._changed.notify_all()

    def end(self) -> None:
        """Have all browsers leave."""
        with self._changed:
            self.over = True
            self._changed.notify_all()

    @property
    def html(self) -> bytes:
        """The newest page."""
        with self._changed:
            return self._html

    def after(self, number: int) -> int:
        """Wait for a page after this one, for a while; return the number of the newest."""
        with self._changed:
            self._changed.wait_for(lambda: self.over or self.number > number, BEAT)
            return self.number


class Server(ThreadingHTTPServer):
    """Serves each connection in a thread, but only a few that have not shown the secret.

    Every user of this computer can connect. The oldest such connection makes room for a new one: a
    browser shows the secret with its first line.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._lock = threading.Lock()
        self._strangers: dict[Any, None] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread."""
        with self._lock:
            while len(self._strangers) >= MOST_STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._strangers[request] = None
        super().process_request(request, client_address)

    def trust(self, request: Any) -> None:
        """Let a connection stay that has shown the secret."""
        with self._lock:
            self._strangers.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.trust(request)
        super().shutdown_request(request)


def server_of(live: Live, port: int, secret: str = "") -> tuple[ThreadingHTTPServer, str]:
    """Return a server on this computer's own address, and the address of the page."""
    root = f"/{secret or secrets.token_urlsafe(16)}/"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "tpu-fleet"
        sys_version = ""
        timeout = 60.0

        def do_GET(self) -> None:
            here = server.server_port
            if self.headers.get("Host") not in {f"{HOST}:{here}", f"localhost:{here}"}:
                self._answer(HTTPStatus.MISDIRECTED_REQUEST)
            elif not secrets.compare_digest(self.path[: len(root)].encode(), root.encode()):
                self._answer(HTTPStatus.NOT_FOUND)
            else:
                server.trust(self.connection)
                self._page()

        def _page(self) -> None:
            if self.path == root:
                self._answer(HTTPStatus.OK, live.html, "text/html; charset=utf-8")
            elif self.path == f"{root}events":
                self._tell()
            else:
                self._answer(HTTPStatus.NOT_FOUND)

        def _head(self, status: HTTPStatus, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", f"{policy(True)}; frame-ancestors 'none'")
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")

        def _answer(self, status: HTTPStatus, body: bytes = b"", kind: str = "text/plain") -> None:
            self._head(status, kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _tell(self) -> None:
            """Send each new page to the browser, until it leaves."""
            self._head(HTTPStatus.OK, "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            number = live.number
            try:
                self.wfile.write(b": hello\n\n")
                while not live.over:
                    newest = live.after(number)
                    self.wfile.write(b"data: new\n\n" if newest > number else b": beat\n\n")
                    self.wfile.flush()
                    number = newest
            except OSError:
                return

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = Server((HOST, port), Handler)
    return server, f"http://{HOST}:{server.server_port}{root}"


def keep_new(live: Live, make: Callable[[], str], every: float, over: threading.Event) -> None:
    """Make the page again every so often, until it is over."""
    while not over.wait(every):
        live.set(make())
