"""A server on loopback that has data sets: a bucket, a hub of repositories, and plain files.

It counts what is asked of it, and can break off, spoil, or refuse what it gives.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "ya29.of-the-machine"
COMMIT = "5" * 40


class DataOrigin:
    """Files by their names; large ones of the hub are stored as LFS does it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.large: set[str] = set()
        self.composed: dict[str, str] = {}
        """CRC32C of objects that have no MD5."""
        self.page = 1000
        self.hub_token = ""
        self.url = ""
        self.elsewhere = ""
        """Where the hub redirects to for large files."""
        self.cut: dict[str, int] = {}
        """After how many bytes an answer ends, once."""
        self.spoilt: set[str] = set()
        self.refuses: dict[str, int] = {}
        self.has_ranges = True
        self.asked: Counter[str] = Counter()
        """How often each file was asked for."""
        self.given = 0
        """Bytes of files, in all."""
        self.tokens: list[tuple[str, str]] = []
        """Paths with the authorization that came along."""
        self.lock = threading.Lock()

    def etag(self, name: str) -> str:
        return f'"{hashlib.md5(self.files[name], usedforsecurity=False).hexdigest()}"'

    def objects(self, query: dict[str, str]) -> dict[str, Any]:
        """Return one page of the bucket's list."""
        names = sorted(name for name in self.files if name.startswith(query.get("prefix", "")))
        begin = int(query.get("pageToken") or 0)
        page = names[begin : begin + self.page]
        more = {"nextPageToken": str(begin + self.page)} if begin + self.page < len(names) else {}
        return {"items": [self._object(name) for name in page], **more}

    def _object(self, name: str) -> dict[str, str]:
        data = self.files[name]
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        check = {"crc32c": self.composed[name]} if name in self.composed else {"md5Hash": digest}
        generation = str(int(hashlib.sha256(data).hexdigest()[:12], 16))
        return {"name": name, "size": str(len(data)), "generation": generation, **check}

    def tree(self, query: dict[str, str]) -> tuple[list[dict[str, Any]], str]:
        """Return one page of a repository's files, and where the next one begins."""
        names = sorted(self.files)
        begin = int(query.get("cursor") or 0)
        page = [self._entry(name) for name in names[begin : begin + self.page]]
        folders = [{"type": "directory", "path": "data", "oid": "0" * 40}] if not begin else []
        following = begin + self.page
        return folders + page, str(following) if following < len(names) else ""

    def _entry(self, name: str) -> dict[str, Any]:
        data = self.files[name]
        git = hashlib.sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False)
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(data)}
        if name in self.large:
            digest = hashlib.sha256(data).hexdigest()
            return {**entry, "oid": "1" * 40, "lfs": {"oid": digest, "size": len(data)}}
        return {**entry, "oid": git.hexdigest()}


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        origin: DataOrigin = self.server.origin
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        with origin.lock:
            origin.tokens.append((parts.path, self.headers.get("Authorization", "")))
        status = origin.refuses.get(parts.path, 0)
        if status:
            self._say(status, b"{}")
        elif parts.path.startswith("/computeMetadata/"):
            self._json({"access_token": TOKEN})
        elif parts.path == "/storage/v1/b/lab/o":
            self._json(origin.objects(query))
        elif parts.path.startswith("/storage/v1/b/lab/o/"):
            self._file(unquote(parts.path.rpartition("/")[2]))
        elif parts.path.startswith("/api/"):
            self._hub(origin, parts.path, query)
        elif found := re.fullmatch(r"/(?:datasets/)?lab/set/resolve/5{40}/(.*)", parts.path):
            self._resolve(origin, unquote(found[1]))
        elif parts.path.startswith("/files/"):
            self._file(unquote(parts.path[7:]))
        else:
            self._say(404, b"{}")

    def _hub(self, origin: DataOrigin, path: str, query: dict[str, str]) -> None:
        if origin.hub_token and self.headers.get("Authorization") != f"Bearer {origin.hub_token}":
            self._say(401, b"{}")
        elif re.fullmatch(r"/api/(datasets|models)/lab/set/revision/(main|v1)", path):
            self._json({"sha": COMMIT})
        elif re.fullmatch(rf"/api/(datasets|models)/lab/set/tree/{COMMIT}", path):
            page, following = origin.tree(query)
            there = f'<{origin.url}{path}?recursive=true&cursor={following}>; rel="next"'
            self._json(page, {"Link": there} if following else {})
        else:
            self._say(404, b"{}")

    def _resolve(self, origin: DataOrigin, name: str) -> None:
        if origin.hub_token and self.headers.get("Authorization") != f"Bearer {origin.hub_token}":
            self._say(401, b"{}")
        elif name in origin.large and origin.elsewhere:
            self._say(302, b"", {"Location": f"{origin.elsewhere}/files/{name}"})
        else:
            self._file(name)

    def _file(self, name: str) -> None:
        origin: DataOrigin = self.server.origin
        data = origin.files.get(name)
        if data is None:
            self._say(404, b"{}")
            return
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        fits = self.headers.get("If-Range") in (None, origin.etag(name))
        begin = int(found[1]) if found and fits and origin.has_ranges else 0
        body = data[begin:]
        with origin.lock:
            origin.asked[name] += 1
            cut = origin.cut.pop(name, None)
        if name in origin.spoilt:
            origin.spoilt.discard(name)
            body = bytes(byte ^ 1 for byte in body)
        part = {"Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"} if begin else {}
        self._head(206 if begin else 200, len(body), {"ETag": origin.etag(name), **part})
        sent = body if cut is None else body[:cut]
        with origin.lock:
            origin.given += len(sent)
        self.wfile.write(sent)
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True

    def _json(self, body: Any, headers: dict[str, str] | None = None) -> None:
        self._say(200, json.dumps(body).encode(), headers)

    def _say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self._head(status, len(body), headers or {})
        self.wfile.write(body)

    def _head(self, status: int, size: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(size)}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_words: Any) -> None:
        pass


@contextmanager
def serving(origin: DataOrigin, host: str = "127.0.0.1") -> Iterator[DataOrigin]:
    """Serve an origin while the block runs."""
    server: Any = ThreadingHTTPServer((host, 0), _Handler)
    server.origin = origin
    origin.url = f"http://{host}:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield origin
    finally:
        server.shutdown()
        server.server_close()
