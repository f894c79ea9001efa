"""A package index with small packages made up for a test; on a machine, or in the test itself.

    package_index.py PORT CONFIG

CONFIG is JSON: packages (name, version, requires, text), and login (user:password) for a private
one. Needs nothing but Python 3.8.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote


def wheel(name: str, version: str, requires: list[str], text: str = "") -> bytes:
    """Make a package with one module of its name, and a test of it."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    files = {
        f"{module}/__init__.py": text or f"__version__ = {version!r}\n",
        f"{module}/tests/test_{module}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest())
        record += f"{path},sha256={digest.decode().rstrip('=')},{len(content.encode())}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return packed.getvalue()


class Index:
    """The packages, what was asked for, and whether it is away."""

    def __init__(self, login: str = "") -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.login = login
        self.away = False
        self.asked: list[str] = []
        # The bytes of each answer.
        self.sent: list[int] = []

    def add(
        self, name: str, version: str, requires: list[str] | None = None, text: str = ""
    ) -> None:
        """Offer a package."""
        file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        project = name.lower().replace("_", "-")
        self.files.setdefault(project, {})[file] = wheel(name, version, requires or [], text)

    def add_source(self, name: str, version: str, files: dict[str, str]) -> None:
        """Offer a package that must be built."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, text in files.items():
                entry = tarfile.TarInfo(f"{name}-{version}/{path}")
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))
        self.files.setdefault(name, {})[f"{name}-{version}.tar.gz"] = packed.getvalue()

    def answer(self, path: str, authorization: str) -> tuple[int, str, bytes]:
        """Answer a request."""
        self.asked.append(path)
        if self.away:
            return 503, "text/plain", b"Service Unavailable"
        expected = "Basic " + base64.b64encode(self.login.encode()).decode()
        if self.login and authorization != expected:
            return 401, "text/plain", b"Who are you?"
        parts = path.strip("/").split("/")
        if parts[0] == "simple" and len(parts) == 2 and parts[1] in self.files:
            links = "".join(
                f'<a href="../../files/{parts[1]}/{file}#sha256='
                f'{hashlib.sha256(data).hexdigest()}">{file}</a>\n'
                for file, data in self.files[parts[1]].items()
            )
            return 200, "text/html", f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
        if parts[0] == "files" and len(parts) == 3 and parts[2] in self.files.get(parts[1], {}):
            return 200, "application/octet-stream", self.files[parts[1]][parts[2]]
        return 404, "text/plain", b"Not Found"

    def files_asked(self) -> list[str]:
        """List the files that were downloaded."""
        return [path.rpartition("/")[2] for path in self.asked if path.startswith("/files/")]


def serve(index: Index, port: int = 0) -> ThreadingHTTPServer:
    """Begin to serve on loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_arguments: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            login = self.headers.get("Authorization", "")
            status, kind, body = index.answer(unquote(self.path.partition("?")[0]), login)
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="packages"')
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                index.sent.append(len(body))
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    config = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    offered = Index(config.get("login", ""))
    for package in config["packages"]:
        offered.add(**package)
    serve(offered, int(sys.argv[1]))
    threading.Event().wait()
