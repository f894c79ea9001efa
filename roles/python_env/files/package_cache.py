# Managed by tpu.fleet (role python_env).
"""Serve package indexes to the neighbours, and download each file once.

    package_cache.py CONFIG

CONFIG is JSON: address, port, folder, indexes (addresses by name; an empty one is pip's own
default), pythons (where uv's builds of Python are), ca_bundle, fresh_seconds, limit_bytes. The
pages of an index are kept for some minutes, and longer when the index is away; files for good, up
to the limit. Only what a page of an index has named, and builds of Python, can be asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import http.client
import json
import os
import re
import shutil
import ssl
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

BLOCK = 1 << 18
WAIT = 60.0
HREF = re.compile(r'href="([^"]*)"')
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# RELEASE/FILE, as uv asks its mirror; it knows their digests itself.
BUILD_OF_PYTHON = re.compile(r"[0-9]{8}/cpython-[A-Za-z0-9._+-]+\.tar\.(?:gz|zst)")
# Where Debian, Ubuntu and Python itself keep the pip that makes environments.
PIPS = (
    "/usr/share/python-wheels/pip-*.whl",
    "/usr/lib/python3*/ensurepip/_bundled/pip-*.whl",
    "/usr/local/lib/python3*/ensurepip/_bundled/pip-*.whl",
    "/opt/tpu-fleet/uv/*/lib/python3*/site-packages",
)


class Away(Exception):
    """The index did not give what was asked for; with the status to pass on."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def own_index() -> str:
    """Ask pip, or the environment, which index is the default."""
    for name in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL", "UV_INDEX_URL"):
        if os.environ.get(name):
            return os.environ[name]
    for pattern in PIPS:
        for found in sorted(Path("/").glob(pattern[1:])):
            sys.path.insert(0, str(found))
            try:
                from pip._internal.models.index import PyPI

                return str(PyPI.simple_url)
            except ImportError:
                pass
            finally:
                sys.path.remove(str(found))
    raise Away(503, "This host knows no default index: name one (python_env_index_url)")


class Download:
    """One file on its way; whoever wants it meanwhile reads along."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.length = -1
        self.written = 0
        self.path = Path()
        self.ready = False
        self.done = False
        self.error: Away | None = None

    def tell(self, **values: Any) -> None:
        """Note progress, and wake who waits for it."""
        with self.changed:
            for name, value in values.items():
                setattr(self, name, value)
            self.changed.notify_all()

    def beyond(self, sent: int) -> tuple[int, bool, Away | None]:
        """Wait for more than was sent; give how much may be sent, and how it ended.

        The last byte goes out when the whole was found right: nobody takes a spoilt file for good.
        """
        with self.changed:
            self.changed.wait_for(lambda: self.written > sent + 1 or self.done, WAIT)
            whole = self.done and self.error is None
            return self.written if whole else max(sent, self.written - 1), self.done, self.error


class Cache:
    """The pages and files of some indexes."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.indexes: dict[str, str] = dict(config["indexes"])
        self.pythons = str(config.get("pythons", ""))
        self.folder = Path(config["folder"])
        self.fresh = float(config.get("fresh_seconds", 300))
        self.limit = int(config.get("limit_bytes", 20 << 30))
        bundle = config.get("ca_bundle") or None
        self.context = ssl.create_default_context(cafile=bundle)
        self.lock = threading.Lock()
        self.pages: dict[tuple[str, str], dict[str, Any]] = {}
        self.asking: dict[tuple[str, str], threading.Lock] = {}
        self.downloads: dict[Path, Download] = {}
        self.counts = {"pages": 0, "files": 0, "served": 0, "bytes": 0}
        (self.folder / "files").mkdir(parents=True, exist_ok=True)
        for part in (self.folder / "files").glob("*/*.part"):
            # Of the time before.
            part.unlink()

    def open(self, url: str, headers: dict[str, str], method: str = "GET") -> Any:
        """Ask the index itself."""
        # Only http and https: what a page names is not to be trusted with other schemes.
        if not url.startswith(("http://", "https://")):
            raise Away(502, f"{url} is no address of a file on the web")
        request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310
        try:
            return urllib.request.urlopen(request, timeout=WAIT, context=self.context)  # noqa: S310
        except urllib.error.HTTPError as error:
            raise Away(error.code, f"{url}: {error.reason}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Away(502, f"{url}: {error}") from error

    # Pages

    def page(self, index: str, project: str) -> dict[str, Any]:
        """Give the page of a project, from the index when ours is old: once for all who ask."""
        key = (index, project)
        with self.lock:
            asking = self.asking.setdefault(key, threading.Lock())
        with asking:
            return self._page(index, project)

    def _page(self, index: str, project: str) -> dict[str, Any]:
        key = (index, project)
        path = self.folder / "pages" / index / f"{project}.json"
        with self.lock:
            page = self.pages.get(key)
        if page is None:
            with contextlib.suppress(OSError, ValueError):
                page = json.loads(path.read_text(encoding="utf-8"))
        if page is None or time.time() - page["at"] > self.fresh:
            try:
                page = self._fetch_page(index, project)
            except Away as error:
                if page is None or error.status in (401, 403, 404, 410):
                    raise
                # An old page is better than none while the index is away.
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                trial = path.with_name(f"{path.name}.{threading.get_ident()}")
                trial.write_text(json.dumps(page), encoding="utf-8")
                trial.replace(path)
        with self.lock:
            self.pages[key] = page
        return page

    def _fetch_page(self, index: str, project: str) -> dict[str, Any]:
        if not self.indexes[index]:
            self.indexes[index] = own_index()
        address = f"{self.indexes[index].rstrip('/')}/{project}/"
        accept = "application/vnd.pypi.simple.v1+html, text/html;q=0.9"
        with self.open(address, {"Accept": accept}) as answer:
            base = answer.geturl()
            try:
                text = answer.read().decode("utf-8", "replace")
            except (OSError, http.client.HTTPException) as error:
                raise Away(502, f"{address} ended early: {error}") from error
        self.counts["pages"] += 1
        urls: dict[str, str] = {}
        digests: dict[str, str] = {}

        def ours(match: re.Match[str]) -> str:
            url = urllib.parse.urljoin(base, html.unescape(match[1]))
            url, _hash, fragment = url.partition("#")
            key = hashlib.sha256(url.encode()).hexdigest()[:24]
            name = urllib.parse.unquote(url.rpartition("/")[2].partition("?")[0])
            urls[key] = url
            if fragment.startswith("sha256="):
                digests[key] = fragment[7:]
            shown = urllib.parse.quote(name)
            return (
                f'href="/files/{index}/{project}/{key}/{shown}{"#" if fragment else ""}{fragment}"'
            )

        return {"at": time.time(), "html": HREF.sub(ours, text), "urls": urls, "digests": digests}

    # Files

    def source(self, index: str, project: str, key: str, name: str) -> tuple[str, str]:
        """Say where a file comes from, and its digest when the page tells."""
        page = self.page(index, project)
        url = page["urls"].get(key)
        if url is None:
            raise Away(404, f"No page of {index} names {name}")
        if name.endswith(".metadata"):
            return f"{url}.metadata", ""
        return url, page["digests"].get(key, "")

    def build_of_python(self, name: str) -> tuple[Path, str]:
        """Say where a build of Python is kept, and where it comes from."""
        if not self.pythons or not BUILD_OF_PYTHON.fullmatch(name):
            raise Away(404, "There is no such build of Python")
        url = f"{self.pythons.rstrip('/')}/{urllib.parse.quote(name)}"
        return self.path_of(hashlib.sha256(url.encode()).hexdigest()[:24], ""), url

    def path_of(self, key: str, name: str) -> Path:
        """Say where a file is kept."""
        suffix = ".metadata" if name.endswith(".metadata") else ""
        return self.folder / "files" / key[:2] / f"{key}{suffix}"

    def download(self, path: Path, url: str, digest: str) -> Download:
        """Begin to download a file, or join who has begun."""
        with self.lock:
            running = self.downloads.get(path)
            if running is not None:
                return running
            running = Download()
            if path.exists():
                # It came in after the caller had looked.
                size = path.stat().st_size
                running.path = path
                running.tell(length=size, written=size, ready=True, done=True)
                return running
            self.downloads[path] = running
        running.path = path.with_name(f"{path.name}.part")
        threading.Thread(
            target=self._download, args=(running, path, url, digest), daemon=True
        ).start()
        return running

    def _download(self, running: Download, path: Path, url: str, digest: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            found = hashlib.sha256()
            with self.open(url, {}) as answer, running.path.open("wb") as target:
                length = answer.headers.get("Content-Length")
                running.tell(length=int(length) if length else -1, ready=True)
                for block in iter(lambda: answer.read(BLOCK), b""):
                    target.write(block)
                    target.flush()
                    found.update(block)
                    running.tell(written=running.written + len(block))
            if running.length not in (-1, running.written):
                raise Away(502, f"{url} ended early")
            if digest and found.hexdigest() != digest:
                raise Away(502, f"{url} has another digest than its page says")
            self.make_room(running.written)
            running.path.replace(path)
            self.counts["files"] += 1
            self.counts["bytes"] += running.written
            running.tell(done=True)
        except (Away, OSError, http.client.HTTPException) as error:
            # Also a full disk: the neighbours ask the index themselves.
            with contextlib.suppress(OSError):
                running.path.unlink()
            told = error if isinstance(error, Away) else Away(503, str(error))
            running.tell(error=told, done=True)
        finally:
            with self.lock:
                self.downloads.pop(path, None)

    def make_room(self, size: int) -> None:
        """Remove what was not asked for longest, when there is too much."""
        kept = []
        for path in (self.folder / "files").glob("*/*"):
            with contextlib.suppress(OSError):
                seen = path.stat()
                kept.append((seen.st_mtime, seen.st_size, path))
        total = sum(entry[1] for entry in kept) + size
        for _time, bytes_there, path in sorted(kept, key=lambda entry: entry[0]):
            if total <= self.limit:
                break
            if not path.name.endswith(".part"):
                with contextlib.suppress(OSError):
                    path.unlink()
                    total -= bytes_there


class Handler(BaseHTTPRequestHandler):
    """Answers the neighbours."""

    protocol_version = "HTTP/1.1"
    cache: Cache

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing of each request."""

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer."""
        parts = urllib.parse.unquote(self.path.partition("?")[0]).strip("/").split("/")
        try:
            if parts == ["health"]:
                self._send(json.dumps(self.cache.counts).encode(), "application/json")
            elif len(parts) == 2 and parts[0] in self.cache.indexes and NAME.fullmatch(parts[1]):
                page = self.cache.page(parts[0], parts[1])
                self._send(page["html"].encode(), "text/html; charset=utf-8")
            elif (
                len(parts) == 5
                and parts[0] == "files"
                and parts[1] in self.cache.indexes
                and NAME.fullmatch(parts[2])
                and re.fullmatch(r"[0-9a-f]{24}", parts[3])
            ):
                self._file(*parts[1:])
            elif parts[0] == "pythons":
                self._serve(*self.cache.build_of_python("/".join(parts[1:])), digest="")
            else:
                raise Away(404, "There is no such page")
        except Away as error:
            self._send(str(error).encode(), "text/plain; charset=utf-8", error.status)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _file(self, index: str, project: str, key: str, name: str) -> None:
        path = self.cache.path_of(key, name)
        if path.exists():
            self._send_kept(path)
            return
        self._serve(path, *self.cache.source(index, project, key, name))

    def _send_kept(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            os.utime(path)
        self.cache.counts["served"] += 1
        self._send_file(path)

    def _serve(self, path: Path, url: str, digest: str) -> None:
        """Send a file, and download it first when it is not here."""
        if path.exists():
            self._send_kept(path)
            return
        if self.command == "HEAD" or "Range" in self.headers:
            # Somebody reads the head of a file to decide whether to take it.
            self._pass_on(url)
            return
        running = self.cache.download(path, url, digest)
        with running.changed:
            running.changed.wait_for(lambda: running.ready or running.done, WAIT)
        if running.error or not running.ready:
            raise running.error or Away(504, f"{url} did not answer")
        self._follow(running, path)

    def _pass_on(self, url: str) -> None:
        asked = {"Range": self.headers["Range"]} if "Range" in self.headers else {}
        with self.cache.open(url, asked, self.command) as answer:
            self.send_response(answer.status)
            for header in ("Content-Type", "Content-Length", "Content-Range", "Accept-Ranges"):
                if answer.headers.get(header):
                    self.send_header(header, answer.headers[header])
            self.end_headers()
            if self.command != "HEAD":
                shutil.copyfileobj(answer, self.wfile, BLOCK)

    def _span(self, size: int) -> tuple[int, int] | None:
        """Read which part is asked for: first byte and the one after the last."""
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not match or (not match[1] and not match[2]):
            return None
        if not match[1]:
            return max(0, size - int(match[2])), size
        return int(match[1]), min(size, int(match[2]) + 1) if match[2] else size

    def _send_file(self, path: Path) -> None:
        with path.open("rb") as source:
            size = os.fstat(source.fileno()).st_size
            span = self._span(size)
            first, last = span or (0, size)
            self.send_response(206 if span else 200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(max(0, last - first)))
            self.send_header("Accept-Ranges", "bytes")
            if span:
                self.send_header("Content-Range", f"bytes {first}-{last - 1}/{size}")
            self.end_headers()
            if self.command != "HEAD":
                source.seek(first)
                self._copy(source, last - first)

    def _copy(self, source: BinaryIO, count: int) -> None:
        while count > 0:
            block = source.read(min(BLOCK, count))
            if not block:
                self.close_connection = True
                return
            self.wfile.write(block)
            count -= len(block)

    def _follow(self, running: Download, path: Path) -> None:
        """Send a file while it comes in."""
        try:
            source = running.path.open("rb")
        except FileNotFoundError:
            # It came in meanwhile; or it was found wrong, which is said only after it was removed.
            with running.changed:
                running.changed.wait_for(lambda: running.done, WAIT)
            if running.error:
                raise running.error from None
            self._send_file(path)
            return
        with source:
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            if running.length >= 0:
                self.send_header("Content-Length", str(running.length))
            else:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            sent = 0
            while True:
                written, done, error = running.beyond(sent)
                if error or (written == sent and not done):
                    # Half a file: the connection has to tell.
                    self.close_connection = True
                    return
                self._copy(source, written - sent)
                sent = written
                if done:
                    return


def serve(config: dict[str, Any]) -> ThreadingHTTPServer:
    """Make the server."""
    handler = type("Bound", (Handler,), {"cache": Cache(config)})
    server = ThreadingHTTPServer((config["address"], int(config["port"])), handler)
    server.daemon_threads = True
    return server


if __name__ == "__main__":
    serve(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))).serve_forever()
