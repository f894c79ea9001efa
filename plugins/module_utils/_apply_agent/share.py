# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the first worker of a slice got, for the others: by the network between them.

Nothing secret goes this way, and whoever takes it knows its hash.
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

# Between workers of a slice an answer takes a millisecond, if nothing forbids it.
_PATIENCE = 5.0
# What a file may take as a whole, and hold. Who gets none from a peer asks the controller.
_SECONDS = 60.0
_MOST_BYTES = 1 << 30
# Of one peer at a time; it takes one file after the other.
_MOST_REQUESTS = 4


def offer(paths: Sequence[Path], address: str, peers: Sequence[str]) -> int:
    """Let peers get these files for as long as this process lives; return the port, or 0."""
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
            # All others may ask at once.
            with path.open("rb") as content:
                shutil.copyfileobj(content, self.wfile)

        def log_message(self, *_words: Any) -> None:
            """Standard error is the controller's."""

    class Server(ThreadingHTTPServer):
        def verify_request(self, _request: Any, client_address: Any) -> bool:
            """Answer peers only, and none of them without limit."""
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
            """Standard error is the controller's."""

    try:
        server = Server((address, 0), Files)
    except OSError:
        return 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def _end_after(seconds: float, connection: socket.socket) -> threading.Timer:
    """End a connection after some time, however much goes over it."""

    def end() -> None:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            # It is over.
            return

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def get(url: str, store: Store, name: str) -> None:
    """Take a file from a peer; OSError, ValueError or StoreError where it cannot be had."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise ValueError(f"{url!r} is no address of a peer")
    # Whatever proxy leads outside does not lead to a peer, and no peer sends elsewhere.
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_PATIENCE)
    try:
        connection.connect()
        timer = _end_after(_SECONDS, cast(socket.socket, connection.sock))
        try:
            connection.request("GET", parts.path or "/")
            with connection.getresponse() as answer:
                if answer.status != 200:
                    raise OSError(f"the peer answers {answer.status}")
                length = answer.headers.get("Content-Length", "")
                if not length.isdecimal() or int(length) > _MOST_BYTES:
                    raise OSError(f"the peer tells no length up to {_MOST_BYTES}: {length[:40]!r}")
                store.receive(answer, name, int(length))
        finally:
            timer.cancel()
    except http.client.HTTPException as error:
        raise OSError(f"the peer does not speak HTTP: {error!r}"[:500]) from error
    finally:
        connection.close()
