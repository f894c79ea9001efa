# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve files to the other workers of a slice over HTTP: to their addresses alone, a few at a time.

What may be asked for, and by which proof, decides the caller. Every user of a worker has its
address: a connection that asks for nothing makes room for a newer one. Agents use this file too:
standard library only, Python 3.8.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

# A client has so long to ask, and to take a block of what it requested.
_PATIENCE = 30
# Answers to one worker at once, and its connections that get none; each has a thread.
MOST_REQUESTS, MOST_STRANGERS = 4, 64
_RANGE = re.compile(r"bytes=([0-9]{1,18})-")


class Reply(NamedTuple):
    """What a worker gets: a file, or a text with its headers."""

    content: Union[Path, bytes]
    headers: Mapping[str, str] = {}


# Returns the reply to a path with its headers, or None where there is no such thing.
Find = Callable[[str, Mapping[str, str]], Optional[Reply]]


class FileServer(ThreadingHTTPServer):
    """Answers the workers of a slice in threads of this process, from `begin` to `end`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        at: "tuple[str, int]",
        peers: Sequence[str],
        find: Find,
        seconds: float = 0.0,
    ) -> None:
        """Listen at an address; a connection ends after so many seconds, if any are given."""
        self.find, self._seconds = find, seconds
        self._peers = frozenset(peers)
        self._answers: "Counter[str]" = Counter()
        # Of each worker, the oldest first.
        self._strangers: Dict[str, Dict[Any, None]] = {}
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in at[0] else socket.AF_INET
        super().__init__(at, _Handler)

    @property
    def port(self) -> int:
        """Return the port at which it listens."""
        return int(self.server_address[1])

    def begin(self) -> None:
        """Answer from now on."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self) -> None:
        """Answer no longer."""
        self.shutdown()
        self.server_close()

    def verify_request(self, _request: Any, client_address: Any) -> bool:
        """Accept only peers."""
        return client_address[0] in self._peers

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread; the oldest without an answer makes room for it."""
        host = client_address[0]
        with self._lock:
            strangers = self._strangers.setdefault(host, {})
            if len(strangers) >= MOST_STRANGERS:
                oldest = next(iter(strangers))
                del strangers[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            strangers[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection."""
        timer = end_after(self._seconds, request) if self._seconds else None
        try:
            super().process_request_thread(request, client_address)
        finally:
            if timer is not None:
                timer.cancel()
            with self._lock:
                self._strangers[client_address[0]].pop(request, None)

    @contextlib.contextmanager
    def answering(self, request: Any, host: str) -> Iterator[bool]:
        """Keep a connection while it is answered; yield whether this worker may have one more."""
        with self._lock:
            allowed = self._answers[host] < MOST_REQUESTS
            self._answers[host] += allowed
            if allowed:
                self._strangers[host].pop(request, None)
        try:
            yield allowed
        finally:
            with self._lock:
                self._answers[host] -= allowed
                self._strangers[host][request] = None

    def handle_error(self, *_words: Any) -> None:
        """Write nothing, because standard error goes to the controller."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    protocol_version = "HTTP/1.1"
    server: FileServer

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.find(self.path, headers)
        if reply is None:
            self.send_error(404)
            return
        with self.server.answering(self.connection, self.client_address[0]) as allowed:
            if not allowed:
                self.close_connection = True
            elif isinstance(reply.content, bytes):
                self._begin(200, len(reply.content), reply.headers)
                self.wfile.write(reply.content)
            else:
                self._send_file(reply.content, headers.get("range", ""))

    def _send_file(self, path: Path, asked: str) -> None:
        """Send a file, from where an earlier answer ended if that is asked for."""
        found = _RANGE.fullmatch(asked)
        offset = int(found.group(1)) if found else 0
        with path.open("rb") as content:
            size = os.fstat(content.fileno()).st_size
            if offset > size:
                self.send_error(416)
                return
            part = {"Content-Range": f"bytes {offset}-{size - 1}/{size}"} if found else {}
            self._begin(206 if found else 200, size - offset, part)
            # By the kernel and piece by piece, because all peers may ask at once.
            while offset < size:
                sent = self.connection.sendfile(content, offset, size - offset)
                if not sent:
                    # It got shorter meanwhile: what was promised does not come.
                    self.close_connection = True
                    return
                offset += sent

    def _begin(self, status: int, size: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(size)}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_words: Any) -> None:
        """Write nothing, because standard error goes to the controller."""


def end_after(seconds: float, connection: socket.socket) -> threading.Timer:
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


def of_files(paths: Sequence[Path]) -> Find:
    """Return what finds these files, each by its name."""
    offered: Dict[str, Path] = {f"/{path.name}": path for path in paths}

    def find(path: str, _headers: Mapping[str, str]) -> Optional[Reply]:
        found = offered.get(path)
        return None if found is None else Reply(found)

    return find
