# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pass files that the first worker of a slice has received to the other workers.

Nothing secret is passed this way, and the receiver checks each file by its hash.
"""

from __future__ import annotations

import http.client
import shutil
import socket
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Sequence, cast
from urllib.parse import urlsplit

from .store import Store

# Between workers of a slice an answer takes a millisecond, unless a firewall blocks it.
_PATIENCE = 5.0
# Limits for one file. A worker that gets none from a peer asks the controller.
_SECONDS = 60.0
_MOST_BYTES = 1 << 30
# At once from one peer; a peer takes one file after the other.
_MOST_REQUESTS = 4


def offer(paths: Sequence[Path], address: str, peers: Sequence[str]) -> int:
    """Serve files to peers while this process lives; return the port, or 0 if that fails."""
    offered = {f"/{path.name}": path for path in paths}
    asking: "Counter[str]" = Counter()
    lock = threading.Lock()

    class Files(BaseHTTPRequestHandler):
        timeout = 30

        def do_GET(self) -> None:
            path = offered.get(self.path)
            if path is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.end_headers()
            # Streamed, because all peers may ask at once.
            with path.open("rb") as content:
                shutil.copyfileobj(content, self.wfile)

        def log_message(self, *_words: Any) -> None:
            """Write nothing, because standard error goes to the controller."""

    class Server(ThreadingHTTPServer):
        def verify_request(self, _request: Any, client_address: Any) -> bool:
            """Accept only peers, each with a limited number of requests at once."""
            with lock:
                host = client_address[0]
                allowed = host in peers and asking[host] < _MOST_REQUESTS
                asking[host] += allowed
            return allowed

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            timer = _end_after(_SECONDS, request)
            try:
                super().process_request_thread(request, client_address)
            finally:
                timer.cancel()
                with lock:
                    asking[client_address[0]] -= 1

        def handle_error(self, *_words: Any) -> None:
            """Write nothing, because standard error goes to the controller."""

    try:
        server = Server((address, 0), Files)
    except OSError:
        return 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def _end_after(seconds: float, connection: socket.socket) -> threading.Timer:
    """End a connection after this time, even if data still flows."""

    def end() -> None:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The connection has already ended.
            return

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def get(url: str, store: Store, name: str) -> None:
    """Receive a file from a peer; raise OSError, ValueError or StoreError if that fails."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise ValueError(f"{url!r} is not the address of a peer")
    # Without proxies, which lead outside; http.client follows no redirect.
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_PATIENCE)
    try:
        connection.connect()
        timer = _end_after(_SECONDS, cast(socket.socket, connection.sock))
        try:
            connection.request("GET", parts.path or "/")
            with connection.getresponse() as answer:
                if answer.status != 200:
                    raise OSError(f"the peer answers with status {answer.status}")
                length = answer.headers.get("Content-Length", "")
                if not length.isdecimal() or int(length) > _MOST_BYTES:
                    raise OSError(f"the peer sends no length up to {_MOST_BYTES}: {length[:40]!r}")
                store.receive(answer, name, int(length))
        finally:
            timer.cancel()
    except http.client.HTTPException as error:
        raise OSError(f"the peer does not speak HTTP: {error!r}"[:500]) from error
    finally:
        connection.close()
