"""Heartbeats between the workers of a slice: small JSON over HTTP, inside the slice only."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, Optional, Sequence

_LIMIT = 64 * 1024
_TIMEOUT = 5.0

Answer = Callable[[Dict[str, Any]], Dict[str, Any]]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


class _Server6(_Server):
    address_family = socket.AF_INET6


def serve(address: str, port: int, peers: Sequence[str], answer: Answer) -> ThreadingHTTPServer:
    """Answer the slice's own workers, in threads; others are refused."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT

        def do_POST(self) -> None:
            """Take one heartbeat."""
            if self.client_address[0] not in peers:
                self.send_error(403, "not a worker of this slice")
                return
            try:
                length = int(self.headers.get("Content-Length", "0"))
                if length > _LIMIT:
                    self.send_error(413)
                    return
                message = json.loads(self.rfile.read(length))
                body = json.dumps(answer(message)).encode()
            except (ValueError, KeyError, TypeError) as error:
                self.send_error(400, str(error))
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the journal for what matters."""

    kind = _Server6 if ":" in address else _Server
    server = kind((address, port), Handler)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
    ).start()
    return server


def send(leader: str, port: int, own: str, message: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Send one heartbeat; None when the leader cannot be reached."""
    connection = http.client.HTTPConnection(leader, port, timeout=_TIMEOUT, source_address=(own, 0))
    try:
        connection.request("POST", "/heartbeat", json.dumps(message))
        response = connection.getresponse()
        data = json.loads(response.read())
        return data if response.status == 200 and isinstance(data, dict) else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
