# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pass files that the first worker of a slice has received to the other workers.

Nothing secret is passed this way, and the receiver checks each file by its hash.
"""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from typing import Sequence, cast
from urllib.parse import urlsplit

from .file_server import FileServer, end_after, of_files
from .store import Store

# Between workers of a slice an answer takes a millisecond, unless a firewall blocks it.
_PATIENCE = 5.0
# Limits for one file. A worker that gets none from a peer asks the controller.
_SECONDS = 60.0
_MOST_BYTES = 1 << 30


def offer(paths: Sequence[Path], address: str, peers: Sequence[str]) -> int:
    """Serve files to peers while this process lives; return the port, or 0 if that fails."""
    try:
        server = FileServer((address, 0), peers, of_files(paths), _SECONDS)
    except OSError:
        return 0
    server.begin()
    return server.port


def get(url: str, store: Store, name: str) -> None:
    """Receive a file from a peer; raise OSError, ValueError or StoreError if that fails."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise ValueError(f"{url!r} is not the address of a peer")
    # Without proxies, which lead outside; http.client follows no redirect.
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_PATIENCE)
    try:
        connection.connect()
        timer = end_after(_SECONDS, cast(socket.socket, connection.sock))
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
