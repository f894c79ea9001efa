"""Worker 0 hands the entries of a run's compilation cache to the other workers of its gang.

JAX writes entries in its first process alone, so the other workers have none of their own. Server
and client have the rights of the run's user. Each question has a proof by the run's key, and each
answer its seal.

A connection begins with a number of the server's. Each question is a line: a proof and a name, or
no name for the list of all. Each answer is a line with a length, or -1, and so many bytes.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..decide import compile_cache
from ..decide.compile_cache import Entry
from ..decide.values import is_whole
from . import cache_folder

_CHALLENGE = 16
_LINE = 600
_SILENCE = 20.0
_CONNECTIONS = 64
_LIST = "list"
_MOST_LIST = 4 << 20


def main(_words: list[str]) -> int:
    """Serve what the first line of the input says, until the input ends."""
    order = json.loads(sys.stdin.readline())
    try:
        server = Server(order["host"], order["port"], Path(order["folder"]), order["key"])
    except OSError as error:
        print(f"{error.strerror}", flush=True)
        return 1
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    return 0


class Server(socketserver.ThreadingTCPServer):
    """Answers on one address."""

    allow_reuse_address, daemon_threads, request_queue_size = True, True, 64

    def __init__(self, host: str, port: int, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.free = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__((host, port), _Connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a connection that breaks is the other's business."""


class _Connection(socketserver.StreamRequestHandler):
    server: Server
    timeout = _SILENCE

    def handle(self) -> None:
        if not self.server.free.acquire(blocking=False):
            return
        try:
            self._converse()
        finally:
            self.server.free.release()

    def _converse(self) -> None:
        challenge, count = os.urandom(_CHALLENGE), 0
        self.wfile.write(challenge)
        while line := self.rfile.readline(_LINE):
            proof, _space, name = line.decode("ascii").rstrip("\n").partition(" ")
            wanted = proof_of(self.server.key, challenge, count, name)
            if not hmac.compare_digest(proof, wanted):
                return
            self._answer(name, challenge)
            count += 1

    def _answer(self, name: str, challenge: bytes) -> None:
        if not name:
            found: bytes | None = listed(self.server.folder)
            name = f"{_LIST} {challenge.hex()}"
        else:
            found = cache_folder.read(self.server.folder, name)
        if found is None:
            self.wfile.write(b"-1\n")
            return
        whole = compile_cache.sealed(self.server.key, name, found)
        self.wfile.write(b"%d\n" % len(whole))
        self.wfile.write(whole)


def listed(folder: Path) -> bytes:
    """Return names and sizes of the entries."""
    return json.dumps(
        [[one.name, one.size, one.at] for one in cache_folder.entries(folder)]
    ).encode()


def proof_of(key: str, challenge: bytes, count: int, name: str) -> str:
    """Return what shows that a question comes from a process with the key."""
    return compile_cache.sum_of(key, b"ask", challenge, b"%d" % count, name.encode()).hex()


class Peer:
    """One connection to worker 0; all methods raise OSError."""

    def __init__(self, host: str, port: int, key: str, seconds: float) -> None:
        self._key, self._count = key, 0
        self._socket = socket.create_connection((host, port), timeout=seconds)
        self._stream = self._socket.makefile("rb")
        self._challenge = self._stream.read(_CHALLENGE)

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self._stream.close()
            self._socket.close()

    def entries(self) -> list[Entry]:
        """Return what worker 0 has."""
        data = self._ask("", f"{_LIST} {self._challenge.hex()}", _MOST_LIST)
        try:
            return list(_entries_of(json.loads(data or b"[]")))
        except ValueError:
            raise OSError("worker 0 sends no list") from None

    def read(self, name: str) -> bytes | None:
        """Return an entry; None if it is not there, or not sealed by the run's key."""
        return self._ask(name, name, compile_cache.MOST_ENTRY + compile_cache.SEAL)

    def _ask(self, name: str, sealed_as: str, most: int) -> bytes | None:
        proof = proof_of(self._key, self._challenge, self._count, name)
        self._count += 1
        self._socket.sendall(f"{proof} {name}\n".encode("ascii"))
        line = self._stream.readline(30)
        if not line.endswith(b"\n"):
            raise OSError("worker 0 does not answer: it has another key, or its port is another's")
        size = int(line) if line.strip().lstrip(b"-").isdigit() else most + 1
        if size < 0:
            return None
        if size > most:
            raise OSError("worker 0 says too much")
        data = self._stream.read(size)
        if len(data) < size:
            raise OSError("worker 0 ended the connection")
        return compile_cache.unsealed(self._key, sealed_as, data)


def _entries_of(found: Any) -> Iterator[Entry]:
    for one in found if isinstance(found, list) else []:
        name, size, at = one if isinstance(one, list) and len(one) == 3 else (None, None, None)
        if not isinstance(name, str) or not compile_cache.is_entry(name):
            continue
        if is_whole(size) and 0 <= size <= compile_cache.MOST_ENTRY and isinstance(at, float):
            yield Entry(name, size, at)
