# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the first worker of a slice got, for the others: by the network between them.

Nothing secret goes this way, and whoever takes it knows its hash.
"""

from __future__ import annotations

import shutil
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Sequence

from .store import Store

# Between workers of a slice an answer takes a millisecond, if nothing forbids it.
_PATIENCE = 5.0


def offer(paths: Sequence[Path], address: str) -> int:
    """Let peers get these files for as long as this process lives; return the port, or 0."""
    offered = {f"/{path.name}": path for path in paths}

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

    try:
        server = ThreadingHTTPServer((address, 0), Files)
    except OSError:
        return 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def get(url: str, store: Store, name: str) -> None:
    """Take a file from a peer; OSError or StoreError where it cannot be had."""
    # Whatever proxy leads outside does not lead to a peer.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=_PATIENCE) as answer:
        store.receive(answer, name, int(answer.headers["Content-Length"]))
