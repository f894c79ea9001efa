"""A small server of Cloud Storage's objects over HTTP, and of a machine's token, on loopback.

It holds names, sizes and times, and the contents of what was uploaded.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

TOKEN = "ya29.of-the-machine"


def iso(at: float) -> str:
    """Return a time as Cloud Storage writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{round(at % 1 * 1000):03d}Z"


class Objects:
    """One bucket, and what its server does."""

    def __init__(self, bucket: str = "lab") -> None:
        self.bucket = bucket
        self.items: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.tokens: list[str | None] = []
        self.page_size = 1000
        self.refusal: tuple[int, str] | None = None
        self.upload_refusal: tuple[int, str] | None = None
        self.bucket_refusal: tuple[int, str] | None = None
        self.is_endless = False
        self.delay = 0.0
        self.loses_answers = 0  # of so many uploads that it carries out
        self.has_account = True
        self.url = ""
        self.lock = threading.Lock()
        self._generation = 1000

    def put(self, name: str, at: float, size: int = 10) -> None:
        """Write an object."""
        self._generation += 1
        self.items[name] = {
            "name": name, "size": str(size), "updated": iso(at),
            "generation": str(self._generation),
        }  # fmt: skip

    def step(self, name: str, at: float, mark: str = "commit_success.txt") -> None:
        """Write a checkpoint of Orbax, or one with another mark, or none."""
        for part in ("_CHECKPOINT_METADATA", "d/manifest.ocdbt", "d/0"):
            if mark != "metadata.json" or part[0] != "_":
                self.put(f"{name}/{part}", at - 1, 100)
        if mark:
            self.put(f"{name}/{mark}", at)

    @property
    def lists(self) -> int:
        """Return how many lists were asked for."""
        return sum(path.endswith("/o") for method, path in self.requests if method == "GET")

    def listed(self, query: dict[str, str]) -> dict[str, Any]:
        """Return one page."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        found: dict[str, Any] = {}
        for name in sorted(self.items):
            if not name.startswith(prefix):
                continue
            head, slash, _rest = name[len(prefix) :].partition(delimiter or "\0")
            found[prefix + head + slash if slash else name] = None if slash else self.items[name]
        keys = sorted(found)
        begin = int(query.get("pageToken") or 0)
        end = begin + min(self.page_size, int(query.get("maxResults", 1000)))
        page = keys[begin:end]
        answer: dict[str, Any] = {"kind": "storage#objects"}
        answer["items"] = [found[key] for key in page if found[key]]
        answer["prefixes"] = [key for key in page if not found[key]]
        if end < len(keys) or self.is_endless:
            answer["nextPageToken"] = str(begin if self.is_endless else end)
        return answer

    def upload(self, query: dict[str, str], data: bytes) -> tuple[int, Any]:
        """Write an object under its precondition; status 0 is a lost answer."""
        if self.upload_refusal:
            code, text = self.upload_refusal
            return code, {"error": {"code": code, "message": text}}
        name = query["name"]
        present = self.items.get(name, {"generation": "0"})["generation"]
        if query.get("ifGenerationMatch", present) != present:
            return 412, {"error": {"code": 412, "message": "conditionNotMet"}}
        self.put(name, time.time(), len(data))
        self.contents[name] = data
        if self.loses_answers > 0:
            self.loses_answers -= 1
            return 0, None
        return 200, {"generation": self.items[name]["generation"]}

    def compose(self, target: str, data: bytes) -> tuple[int, Any]:
        """Make one object of several."""
        names = [one["name"] for one in json.loads(data)["sourceObjects"]]
        if not all(name in self.contents for name in names):
            return 404, {"error": {"code": 404, "message": "Not Found"}}
        return self.upload({"name": target}, b"".join(self.contents[name] for name in names))

    def answer(
        self, method: str, path: str, query: dict[str, str], data: bytes = b""
    ) -> tuple[int, Any]:
        """Return status and body; a body of bytes is an object's content."""
        if path.startswith("/computeMetadata/"):
            there = {"access_token": TOKEN, "expires_in": 3000, "token_type": "Bearer"}
            return (200, there) if self.has_account else (404, None)
        if self.refusal:
            code, text = self.refusal
            return code, {"error": {"code": code, "message": text}}
        head = f"/storage/v1/b/{self.bucket}/o"
        if path == f"/upload{head}":
            return self.upload(query, data)
        if method == "POST" and path.endswith("/compose"):
            target = path.removeprefix(head + "/").removesuffix("/compose")
            return self.compose(unquote(target), data)
        if path == head:
            return 200, self.listed(query)
        if path == f"/storage/v1/b/{self.bucket}":
            code, text = self.bucket_refusal or (200, "")
            error = {"error": {"code": code, "message": text}}
            there = {"name": self.bucket, "location": "US-CENTRAL1", "storageClass": "STANDARD"}
            return code, error if text else there
        item = self.items.get(unquote(path.removeprefix(head + "/")))
        if not path.startswith(head) or item is None:
            return 404, {"error": {"code": 404, "message": "Not Found"}}
        if method == "GET" and query.get("alt") == "media":
            return 200, self.contents.get(item["name"], b"")
        if method == "GET":
            return 200, item
        if query.get("ifGenerationMatch", item["generation"]) != item["generation"]:
            return 412, {"error": {"code": 412, "message": "conditionNotMet"}}
        del self.items[item["name"]]
        self.contents.pop(item["name"], None)
        return 204, None


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


def _handler(objects: Objects) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            objects.requests.append((self.command, parts.path))
            objects.tokens.append(self.headers.get("Authorization"))
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            time.sleep(objects.delay)
            with objects.lock:
                status, body = objects.answer(self.command, parts.path, query, data)
            if not status:
                self.close_connection = True
                return
            text = b"" if body is None else body if isinstance(body, bytes) else _json(body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if isinstance(body, bytes):
                name = unquote(parts.path.rpartition("/o/")[2])
                self.send_header("x-goog-generation", objects.items[name]["generation"])
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_DELETE = do_POST = do_GET

        def log_message(self, *_words: Any) -> None:
            """Write nothing."""

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Many clients come at once; one that finds no room waits for seconds.
    request_queue_size = 64

    def handle_error(self, *_words: Any) -> None:
        """Say nothing: clients that go away are part of the tests."""


@contextmanager
def serving(objects: Objects) -> Iterator[Objects]:
    """Serve the objects until the end of the block."""
    server = _Server(("127.0.0.1", 0), _handler(objects))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    objects.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield objects
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def lab() -> Iterator[Objects]:
    """Give a test a bucket of this name, without objects."""
    with serving(Objects()) as objects:
        yield objects
