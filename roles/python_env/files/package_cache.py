# Managed by tpu.fleet (role python_env).
"""Serve package indexes to the workers of a slice, and download each file once.

    package_cache.py CONFIG

CONFIG is JSON: address, port, folder, peers (addresses and networks that may ask, besides this
host), indexes (URLs by name; an empty one is pip's own default), pythons (URL of uv's builds of
Python), ca_bundle, fresh_seconds, limit_bytes. The pages of an index are kept for some minutes, and
longer while the index is away; files for good. What was not requested for longest goes when pages
and files together reach the limit. Only what a page of an index has named, and builds of Python,
can be requested, and always as a whole.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import html
import http.client
import ipaddress
import json
import os
import re
import shutil
import socket
import ssl
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

BLOCK = 1 << 18
WAIT = 60.0
PAGE_BYTES = 32 << 20
PAGE_TYPES = "application/vnd.pypi.simple.v1+html, text/html;q=0.9"
# How many pages, and how many files, come in at a time.
PAGES_AT_ONCE, FILES_AT_ONCE = 4, 64
# A client has so long to ask, and to take a block of what it requested.
PATIENCE = 30.0
# All connections; one client has half of them at most.
CONNECTIONS = 512
# Connections to indexes that wait for the next request.
IDLE_LINES = 64
# How long an address of an index is known, and how often it may redirect.
NAME_SECONDS, REDIRECTIONS = 60.0, 8
HREF = re.compile(r'href="([^"]*)"')
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
KEY = re.compile(r"[0-9a-f]{24}")
# RELEASE/FILE, as uv asks its mirror; it knows their digests itself.
BUILD_OF_PYTHON = re.compile(r"[0-9]{8}/cpython-[A-Za-z0-9._+-]+\.tar\.(?:gz|zst)")
# Where Debian, Ubuntu and Python itself keep the pip that makes environments.
PIPS = (
    "/usr/share/python-wheels/pip-*.whl",
    "/usr/lib/python3*/ensurepip/_bundled/pip-*.whl",
    "/usr/local/lib/python3*/ensurepip/_bundled/pip-*.whl",
)


class Away(Exception):
    """The index did not give what was requested; with the status to pass on."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TooMuch(Away):
    """There is no room for it here."""


def own_index() -> str:
    """Return the default index of the environment or of pip."""
    for name in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL", "UV_INDEX_URL"):
        if os.environ.get(name):
            return os.environ[name]
    wheels = [str(found) for pattern in PIPS for found in sorted(Path("/").glob(pattern[1:]))]
    sys.path[:] = dict.fromkeys([*sys.path, *wheels])
    try:
        from pip._internal.models.index import PyPI
    except ImportError as error:
        message = "This host knows no default index: name one (fleet_index_url)"
        raise Away(503, message) from error
    return str(PyPI.simple_url)


class Download:
    """One file that is being downloaded, or is complete; any number of requests read along."""

    def __init__(self, path: Path, size: int = -1) -> None:
        self.changed = threading.Condition()
        self.path, self.length, self.written = path, size, max(0, size)
        self.ready = self.done = size >= 0
        self.error: Away | None = None

    def tell(self, **values: Any) -> None:
        """Set the progress, and wake the requests that wait for it."""
        with self.changed:
            for name, value in values.items():
                setattr(self, name, value)
            self.changed.notify_all()

    def begun(self) -> BinaryIO:
        """Wait for the first bytes; return the file."""
        with self.changed:
            self.changed.wait_for(lambda: self.ready or self.done, WAIT)
            if self.error or not self.ready:
                raise self.error or Away(504, f"No byte came within {WAIT:.0f} s")
            return self.path.open("rb")

    def beyond(self, sent: int) -> tuple[int, bool, Away | None]:
        """Wait for more than was sent; return how much may be sent, and how it ended.

        The last byte goes out when the whole was found right: no client keeps a spoilt file.
        """
        with self.changed:
            self.changed.wait_for(lambda: self.written > sent + 1 or self.done, WAIT)
            whole = self.done and self.error is None
            return self.written if whole else max(sent, self.written - 1), self.done, self.error


class Lines:
    """Connections to indexes, used again because each new one costs a name and a handshake."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.lock = threading.Lock()
        # The most recently used at the end.
        self.idle: list[tuple[tuple[str, str, int], http.client.HTTPConnection]] = []

    @contextlib.contextmanager
    def ask(self, url: str, accept: str = "*/*") -> Iterator[Any]:
        """Yield the answer to a request, wherever it is redirected to."""
        target = ""
        for _redirection in range(REDIRECTIONS):
            url, place = _followed(url, target)
            line, answer = self._asked(place, url, accept)
            try:
                moved = answer.status in (301, 302, 303, 307, 308)
                target = answer.headers["Location"] if moved else ""
                if not target:
                    if answer.status >= 400:
                        raise Away(answer.status, f"{url}: {answer.reason}")
                    answer.url = url
                    yield answer
                    return
                with contextlib.suppress(OSError, http.client.HTTPException):
                    answer.read(BLOCK)
            finally:
                self._end(place, line, answer)
        raise Away(502, f"{url}: it redirects for ever")

    def _asked(self, place: tuple[str, str, int], url: str, accept: str) -> tuple[Any, Any]:
        proxy, parts = _proxy_of(url), urllib.parse.urlsplit(url)
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        # A proxy wants the whole address, unless it only passes on what is encrypted.
        wanted = url if proxy and parts.scheme == "http" else path
        while True:
            known = self._idle(place)
            try:
                line = known or self._new(place, proxy)
                line.request(
                    "GET", wanted, headers={"Accept-Encoding": "identity", "Accept": accept}
                )
                return line, line.getresponse()
            except (OSError, ValueError, http.client.HTTPException) as error:
                if not known:
                    raise Away(502, f"{url}: {error}") from error
                # The index has closed it meanwhile.
                known.close()

    def _idle(self, place: tuple[str, str, int]) -> http.client.HTTPConnection | None:
        with self.lock:
            for entry in reversed(self.idle):
                if entry[0] == place:
                    self.idle.remove(entry)
                    return entry[1]
        return None

    def _end(self, place: tuple[str, str, int], line: Any, answer: Any) -> None:
        """Keep a connection whose answer was read to its end; close others."""
        ended = [answer, line]
        if answer.isclosed() and not answer.will_close:
            with self.lock:
                self.idle.append((place, line))
                ended = [self.idle.pop(0)[1]] if len(self.idle) > IDLE_LINES else []
        for connection in ended:
            connection.close()

    def _new(self, place: tuple[str, str, int], proxy: str) -> http.client.HTTPConnection:
        scheme, host, port = place
        by = urllib.parse.urlsplit(proxy)
        at = (by.hostname or "", by.port or 80) if proxy else (host, port)
        if scheme == "http":
            line = http.client.HTTPConnection(*at, timeout=WAIT)
        else:
            line = http.client.HTTPSConnection(*at, timeout=WAIT, context=self.context)
        if proxy and scheme == "https":
            line.set_tunnel(host, port)
        # http.client has no public way to connect to an address that is known for a name.
        line._create_connection = _connected  # type: ignore[attr-defined]
        return line


# One lookup of a name at a time: name servers drop some of many, which takes seconds.
_naming = threading.Lock()


@functools.lru_cache(maxsize=256)
def _addresses(host: str, port: int, _period: float) -> list[Any]:
    return [entry[-1][:2] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _connected(at: tuple[str, int], timeout: float, _source: object) -> socket.socket:
    """Connect to one of the addresses of a host."""
    with _naming:
        addresses = _addresses(*at, time.monotonic() // NAME_SECONDS)
    failed = OSError(f"{at[0]} has no address")
    for address in addresses:
        try:
            return socket.create_connection(address, timeout)
        except OSError as error:
            failed = error
    raise failed


def _followed(url: str, target: str) -> tuple[str, tuple[str, str, int]]:
    """Return where a target leads from a URL, and its scheme, host and port."""
    try:
        url = urllib.parse.urljoin(url, target)
        parts = urllib.parse.urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise Away(502, f"{target or url}: {error}") from error
    # What a page names is not to be trusted with other schemes.
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Away(502, f"{url}: it is no address of a file on the web")
    return url, (parts.scheme, parts.hostname, port)


def _proxy_of(url: str) -> str:
    """Return the address of the proxy by which an address is asked; empty without one."""
    parts = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme, "")
    if not proxy or urllib.request.proxy_bypass(parts.hostname or ""):
        return ""
    return proxy if "//" in proxy else f"http://{proxy}"


class Cache:
    """The pages and files of some indexes."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.indexes: dict[str, str] = dict(config["indexes"])
        self.pythons = str(config.get("pythons", ""))
        self.folder = Path(config["folder"])
        self.fresh = float(config.get("fresh_seconds", 300))
        self.limit = int(config.get("limit_bytes", 20 << 30))
        bundle = config.get("ca_bundle") or None
        self.lines = Lines(ssl.create_default_context(cafile=bundle))
        self.lock = threading.Lock()
        self.asking = [threading.Lock() for _lock in range(64)]
        self.fetching = threading.BoundedSemaphore(PAGES_AT_ONCE)
        self.loading = threading.BoundedSemaphore(FILES_AT_ONCE)
        self.downloads: dict[Path, Download] = {}
        self.counts = {"pages": 0, "files": 0, "served": 0, "bytes": 0}
        for part in self.folder.glob("*/*/*.part"):
            # Left by an interrupted download.
            part.unlink()
        # What is on disk, and what is on its way there.
        self.room = threading.Lock()
        self.used = sum(size for _time, size, _path in self._kept())

    def _check(self, index: str, project: str) -> None:
        if index not in self.indexes or not NAME.fullmatch(project):
            raise Away(404, "There is no such page")

    # Pages: the links of a page are in its file, after a NUL.

    def page(self, index: str, project: str) -> tuple[bytes, bytes]:
        """Return a project's page and its links; they come from the index once for all clients."""
        self._check(index, project)
        path = self.folder / "pages" / index / f"{project}.page"
        # Few locks for all pages: those that share one wait for each other.
        with self.asking[hash(path) % len(self.asking)]:
            text, _nul, links = self._page(path, index, project).rpartition(b"\0")
        return text, links

    def _page(self, path: Path, index: str, project: str) -> bytes:
        kept, at = self._kept_page(path)
        if kept and time.time() - at <= self.fresh:
            return kept
        try:
            with self.fetching:
                page = self._fetch_page(index, project)
        except Away as error:
            if not kept or error.status in (401, 403, 404, 410):
                raise
            # An old page is better than none while the index is away.
            return kept
        # Without room on the disk, the next request fetches it again.
        with contextlib.suppress(OSError, TooMuch):
            self._write_page(path, page)
        return page

    def _kept_page(self, path: Path) -> tuple[bytes, float]:
        """Return a page that is on disk, and when it came from the index."""
        try:
            page, at = path.read_bytes(), path.stat().st_mtime
            os.utime(path, (time.time(), at))
        except OSError:
            return b"", 0.0
        # A crash can leave a file without its end.
        return page if page.endswith(b"}") else b"", at

    def _write_page(self, path: Path, page: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        trial = path.with_name(f"{path.name}.part")
        self.make_room(len(page))
        unused = len(page)
        try:
            trial.write_bytes(page)
            before = path.stat().st_size if path.exists() else 0
            trial.replace(path)
            unused = before
        finally:
            self.give_back(unused)
            trial.unlink(missing_ok=True)

    def _fetch_page(self, index: str, project: str) -> bytes:
        self.indexes[index] = self.indexes[index] or own_index()
        address = f"{self.indexes[index].rstrip('/')}/{project}/"
        with self.lines.ask(address, PAGE_TYPES) as answer:
            base, text = answer.url, _read(answer, address)
        self.counts["pages"] += 1
        links: dict[str, tuple[str, str]] = {}

        def ours(match: re.Match[str]) -> str:
            try:
                url = urllib.parse.urljoin(base, html.unescape(match[1]))
            except ValueError:
                return ""
            url, mark, fragment = url.partition("#")
            key = hashlib.sha256(url.encode()).hexdigest()[:24]
            name = urllib.parse.unquote(url.rpartition("/")[2].partition("?")[0])
            links[key] = url, fragment[7:] if fragment.startswith("sha256=") else ""
            shown = urllib.parse.quote(name)
            return f'href="/files/{index}/{project}/{key}/{shown}{mark}{fragment}"'

        return f"{HREF.sub(ours, text)}\0{json.dumps(links)}".encode()

    # Files

    def source(self, index: str, project: str, key: str, name: str) -> tuple[Path, str, str]:
        """Return where a file is kept, its URL, and its digest if the page has one."""
        self._check(index, project)
        if not KEY.fullmatch(key):
            raise Away(404, "There is no such file")
        path = self.path_of(key, name)
        if path.exists():
            return path, "", ""
        url, digest = json.loads(self.page(index, project)[1]).get(key, ("", ""))
        if not url:
            raise Away(404, f"No page of {index} names {name}")
        return path, *((f"{url}.metadata", "") if path.suffix else (url, digest))

    def build_of_python(self, name: str) -> tuple[Path, str, str]:
        """Return the same for a build of Python, whose digest uv knows."""
        if not self.pythons or not BUILD_OF_PYTHON.fullmatch(name):
            raise Away(404, "There is no such build of Python")
        url = f"{self.pythons.rstrip('/')}/{urllib.parse.quote(name)}"
        return self.path_of(hashlib.sha256(url.encode()).hexdigest()[:24], ""), url, ""

    def path_of(self, key: str, name: str) -> Path:
        """Return the path at which a file is kept."""
        suffix = ".metadata" if name.endswith(".metadata") else ""
        return self.folder / "files" / key[:2] / f"{key}{suffix}"

    def download(self, path: Path, url: str, digest: str) -> Download:
        """Return a file that is here or is coming; begin to download another one."""
        with self.lock:
            running = self.downloads.get(path)
            if running is None and path.exists():
                os.utime(path)
                self.counts["served"] += 1
                running = Download(path, path.stat().st_size)
            elif running is None:
                running = Download(path.with_name(f"{path.name}.part"))
                self.downloads[path] = running
                arguments = (running, path, url, digest)
                threading.Thread(target=self._download, args=arguments, daemon=True).start()
            return running

    def _download(self, running: Download, path: Path, url: str, digest: str) -> None:
        part, taken = running.path, 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            found = hashlib.sha256()
            with self.loading, self.lines.ask(url) as answer:
                length = int(answer.headers.get("Content-Length") or -1)
                taken = self.make_room(max(0, length))
                with part.open("wb") as target:
                    running.tell(length=length, ready=True)
                    for block in iter(lambda: answer.read(BLOCK), b""):
                        if length < 0:
                            taken += self.make_room(len(block))
                        target.write(block)
                        target.flush()
                        found.update(block)
                        running.tell(written=running.written + len(block))
            if length not in (-1, running.written):
                raise Away(502, f"{url} ended early")
            if digest and found.hexdigest() != digest:
                raise Away(502, f"{url} has another digest than its page says")
            self.counts["files"] += 1
            self.counts["bytes"] += running.written
            # At once, so that every request finds the file.
            with running.changed:
                running.tell(path=part.replace(path), done=True)
        except (Away, OSError, ValueError, http.client.HTTPException) as error:
            # Also a full disk: the clients ask the index themselves.
            away = error if isinstance(error, Away) else Away(503, str(error))
            running.tell(error=away, done=True)
            with contextlib.suppress(OSError):
                part.unlink()
            self.give_back(taken)
        finally:
            with self.lock:
                self.downloads.pop(path, None)

    def make_room(self, size: int) -> int:
        """Take bytes of the limit; for them, remove what was not requested for longest."""
        with self.room:
            if self.used + size > self.limit:
                for _time, bytes_there, path in sorted(self._kept()):
                    if self.used + size <= self.limit:
                        break
                    with contextlib.suppress(OSError):
                        path.unlink()
                        self.used -= bytes_there
                if self.used + size > self.limit:
                    raise TooMuch(507, f"{size} bytes more are over the limit of {self.limit}")
            self.used += size
        return size

    def give_back(self, size: int) -> None:
        """Subtract bytes that are not there, or not any more."""
        with self.room:
            self.used -= size

    def _kept(self) -> list[tuple[float, int, Path]]:
        """List what is kept, with the time of the last request and the size."""
        kept = []
        for path in self.folder.glob("*/*/*"):
            if path.suffix != ".part":
                with contextlib.suppress(OSError):
                    seen = path.stat()
                    kept.append((seen.st_atime, seen.st_size, path))
        return kept


def _read(answer: Any, address: str) -> str:
    """Read a page, unless it is too large or never ends."""
    text = bytearray()
    until = time.monotonic() + WAIT
    try:
        for block in iter(lambda: answer.read1(BLOCK), b""):
            text += block
            if len(text) > PAGE_BYTES:
                raise Away(502, f"{address} has more than {PAGE_BYTES} bytes")
            if time.monotonic() > until:
                raise Away(504, f"{address} takes longer than {WAIT:.0f} s")
    except (OSError, http.client.HTTPException) as error:
        raise Away(502, f"{address} ended early: {error}") from error
    return text.decode("utf-8", "replace")


class Handler(BaseHTTPRequestHandler):
    """Answers the workers of the slice."""

    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    server: Server

    def log_message(self, *_arguments: Any) -> None:
        """Write nothing about single requests."""

    def handle_one_request(self) -> None:
        """Answer a request that comes soon enough."""
        self.server.asking[self.request] = time.monotonic()
        super().handle_one_request()

    def end_headers(self) -> None:
        """Close the connection while other clients wait for one."""
        if self.server.crowded:
            self.send_header("Connection", "close")
        super().end_headers()

    def do_HEAD(self) -> None:
        """Refuse: uv then takes the whole file at once, instead of parts of it first."""
        self.send_error(405)

    def do_GET(self) -> None:
        """Answer."""
        self.server.asking.pop(self.request, None)
        path = urllib.parse.unquote(self.path.partition("?")[0])
        try:
            self._answer(*path.strip("/").split("/"))
        except Away as error:
            self._send(str(error).encode(), "text/plain; charset=utf-8", error.status)
        except (TimeoutError, ConnectionError):
            self.close_connection = True

    def _answer(self, kind: str, *rest: str) -> None:
        cache = self.server.cache
        if kind == "health" and not rest:
            self._send(json.dumps(cache.counts).encode(), "application/json")
        elif kind == "pythons":
            self._serve(*cache.build_of_python("/".join(rest)))
        elif kind == "files" and len(rest) == 4:
            self._serve(*cache.source(*rest))
        elif len(rest) == 1:
            self._send(cache.page(kind, *rest)[0], "text/html; charset=utf-8")
        else:
            raise Away(404, "There is no such page")

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self._begin(len(body), kind, status)
        self.wfile.write(body)

    def _begin(
        self, length: int, kind: str = "application/octet-stream", status: int = 200
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        # Without a length, the end of the connection is the end of the file.
        self.send_header(
            *(("Content-Length", str(length)) if length >= 0 else ("Connection", "close"))
        )
        self.end_headers()

    def _serve(self, path: Path, url: str, digest: str) -> None:
        """Send a file, while it comes in if it is not here."""
        running = self.server.cache.download(path, url, digest)
        try:
            source = running.begun()
        except TooMuch:
            self._pass_on(url)
            return
        with source:
            self._begin(running.length)
            sent = 0
            while True:
                written, done, error = running.beyond(sent)
                if written > sent:
                    sent += self.connection.sendfile(source, sent, written - sent)
                elif error or not done:
                    # Half a file: closing the connection shows it.
                    self.close_connection = True
                    return
                elif done:
                    return

    def _pass_on(self, url: str) -> None:
        with self.server.cache.lines.ask(url) as answer:
            self._begin(int(answer.headers.get("Content-Length") or -1))
            shutil.copyfileobj(answer, self.wfile, BLOCK)


class Server(ThreadingHTTPServer):
    """Takes connections of clients, as many as it has room for."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, config: dict[str, Any]) -> None:
        self.cache = Cache(config)
        self.peers = [ipaddress.ip_network(text) for text in config.get("peers", ())]
        self.most = int(config.get("connections", CONNECTIONS))
        self.free = threading.Semaphore(self.most)
        self.lock = threading.Lock()
        self.whose: dict[socket.socket, str] = {}
        # Since when a request is awaited.
        self.asking: dict[socket.socket, float] = {}
        super().__init__((config["address"], int(config["port"])), Handler)

    @property
    def crowded(self) -> bool:
        """Return whether more than half of the connections are in use."""
        return len(self.whose) > self.most // 2

    def get_request(self) -> tuple[socket.socket, Any]:
        """Take the next connection, when there is room for one more."""
        if not self.free.acquire(timeout=0.2):
            raise OSError("All connections are in use")
        try:
            return super().get_request()
        except OSError:
            self.free.release()
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take clients that may ask, and not all connections from one of them."""
        address = self._client(client_address[0])
        if not address:
            refused = f"{client_address[0]} is no worker that may ask here\n"
            self._refuse(request, "403 Forbidden", refused)
            return False
        with self.lock:
            taken = list(self.whose.values()).count(address) < max(1, self.most // 2)
            if taken:
                self.whose[request] = address
        if not taken:
            self._refuse(request, "503 Busy", f"{address} has too many connections\n")
        return taken

    def _client(self, address: str) -> str:
        """Return the client: an address, this machine by any of its addresses, or none."""
        found = ipaddress.ip_address(address)
        if found.is_loopback or address == self.server_address[0]:
            return "this machine"
        return address if any(found in network for network in self.peers) else ""

    def _refuse(self, request: socket.socket, status: str, text: str) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send((head + text).encode())

    def shutdown_request(self, request: Any) -> None:
        """End a connection, however it came to that."""
        with self.lock:
            self.whose.pop(request, None)
        self.asking.pop(request, None)
        super().shutdown_request(request)
        self.free.release()

    def service_actions(self) -> None:
        """End a request that comes too slowly, byte by byte; a silent one has a timeout."""
        until = time.monotonic() - PATIENCE
        for request, since in list(self.asking.items()):
            if since < until:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong, unless the client closed the connection."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, socket.timeout)):
            super().handle_error(request, client_address)


if __name__ == "__main__":
    Server(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))).serve_forever()
