# Managed by tpu.fleet (role python_env).
"""Serve package indexes to the neighbours, and download each file once.

    package_cache.py CONFIG

CONFIG is JSON: address, port, folder, peers (addresses and networks that may ask, besides this
host), indexes (addresses by name; an empty one is pip's own default), pythons (where uv's builds of
Python are), ca_bundle, fresh_seconds, limit_bytes. The pages of an index are kept for some minutes,
and longer when the index is away; files for good. What was not asked for longest goes when pages
and files together reach the limit. Only what a page of an index has named, and builds of Python,
can be asked for.
"""

from __future__ import annotations

import contextlib
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
from collections import Counter, OrderedDict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

BLOCK = 1 << 18
WAIT = 60.0
# Of one page, and of the pages in memory: as they are on disk.
PAGE_BYTES = 32 << 20
MEMORY_BYTES = 32 << 20
# How many pages, and how many files, come in at a time.
PAGES_AT_ONCE, FILES_AT_ONCE = 4, 64
# A neighbour has so long to ask, and to take a block of what it asked for.
PATIENCE = 30.0
# All connections; one neighbour has half of them at most.
CONNECTIONS = 512
# Connections to an index that wait for the next request, and how many indexes have some.
IDLE_LINES, IDLE_PLACES = 16, 16
# How long an address of an index is known, and how often it may redirect.
NAME_SECONDS, REDIRECTIONS = 60.0, 8
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


class TooMuch(Away):
    """There is no room for it here."""


class Download:
    """One file that is being downloaded; other requests for it read along."""

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

        The last byte goes out when the whole was found right: no client keeps a spoilt file.
        """
        with self.changed:
            self.changed.wait_for(lambda: self.written > sent + 1 or self.done, WAIT)
            whole = self.done and self.error is None
            return self.written if whole else max(sent, self.written - 1), self.done, self.error


class Unanswered(Exception):
    """An index could not be asked, or did not begin to answer."""


class Lines:
    """Connections to indexes, used again because each new one costs a name and a handshake."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.lock = threading.Lock()
        self.idle: dict[tuple[str, str, int], list[http.client.HTTPConnection]] = {}
        # One lookup of a name at a time: name servers drop some of many, which takes seconds.
        self.naming = threading.Lock()
        self.names: dict[tuple[str, int], tuple[float, list[Any]]] = {}

    @contextlib.contextmanager
    def ask(self, url: str, headers: dict[str, str], method: str) -> Iterator[Any]:
        """Yield the answer to a request, wherever it is redirected to."""
        for _redirection in range(REDIRECTIONS):
            line, answer = self._asked(url, headers, method)
            if answer.status not in (301, 302, 303, 307, 308) or not answer.headers["Location"]:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer.read(BLOCK)
            self._end(url, line, answer)
            try:
                url = urllib.parse.urljoin(url, answer.headers["Location"])
            except ValueError as error:
                raise Unanswered(str(error)) from error
        else:
            raise Unanswered("it redirects for ever")
        answer.url = url
        try:
            yield answer
        finally:
            self._end(url, line, answer)

    def _asked(self, url: str, headers: dict[str, str], method: str) -> tuple[Any, Any]:
        place, proxy = _place_of(url), _proxy_of(url)
        parts = urllib.parse.urlsplit(url)
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        # A proxy wants the whole address, unless it only passes on what is encrypted.
        wanted = url if proxy and parts.scheme == "http" else path
        while True:
            known = self._idle(place)
            try:
                line = known or self._new(place, proxy)
                line.request(method, wanted, headers={"Accept-Encoding": "identity", **headers})
                return line, line.getresponse()
            except (OSError, ValueError, http.client.HTTPException) as error:
                if not known:
                    raise Unanswered(str(error)) from error
                # The index has closed it meanwhile.
                known.close()

    def _idle(self, place: tuple[str, str, int]) -> http.client.HTTPConnection | None:
        with self.lock:
            lines = self.idle.get(place)
            return lines.pop() if lines else None

    def _end(self, url: str, line: http.client.HTTPConnection, answer: Any) -> None:
        """Keep a connection whose answer was read to its end; close others."""
        with self.lock:
            lines = self.idle.setdefault(_place_of(url), [])
            whole = answer.isclosed() and not answer.will_close
            if whole and len(lines) < IDLE_LINES and len(self.idle) <= IDLE_PLACES:
                lines.append(line)
                return
            if not lines:
                del self.idle[_place_of(url)]
        answer.close()
        line.close()

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
        if proxy:
            return line
        failed: OSError = OSError(f"{host} has no address")
        for address in self._addresses(host, port):
            try:
                link = socket.create_connection(address[:2], WAIT)
                tls = scheme == "https"
                line.sock = self.context.wrap_socket(link, server_hostname=host) if tls else link
                return line
            except OSError as error:
                failed = error
        raise failed

    def _addresses(self, host: str, port: int) -> list[Any]:
        with self.naming:
            at, known = self.names.get((host, port), (0.0, []))
            if time.monotonic() - at > NAME_SECONDS or not known:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                known = [address for *_kind, address in found]
                self.names[host, port] = time.monotonic(), known
            return known


def _place_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise Unanswered(str(error)) from error
    # What a page names is not to be trusted with other schemes.
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unanswered("it is no address of a file on the web")
    return parts.scheme, parts.hostname, port


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
        # The pages in memory with their sizes, those that were asked for last at the end.
        self.pages: OrderedDict[tuple[str, str], tuple[int, dict[str, Any]]] = OrderedDict()
        self.in_memory = 0
        self.asking = [threading.Lock() for _lock in range(64)]
        self.fetching = threading.BoundedSemaphore(PAGES_AT_ONCE)
        self.loading = threading.BoundedSemaphore(FILES_AT_ONCE)
        self.downloads: dict[Path, Download] = {}
        self.counts = {"pages": 0, "files": 0, "served": 0, "bytes": 0}
        (self.folder / "files").mkdir(parents=True, exist_ok=True)
        for part in [*self.folder.glob("files/*/*.part"), *self.folder.glob("pages/*/*.json.*")]:
            # Of the time before.
            part.unlink()
        # What is on disk, and what is on its way there.
        self.room = threading.Lock()
        self.used = sum(size for _time, size, _path in self._kept())

    @contextlib.contextmanager
    def open(self, url: str, headers: dict[str, str], method: str = "GET") -> Iterator[Any]:
        """Ask the index itself."""
        try:
            with self.lines.ask(url, headers, method) as answer:
                if answer.status >= 400:
                    raise Away(answer.status, f"{url}: {answer.reason}")
                yield answer
        except Unanswered as error:
            raise Away(502, f"{url}: {error}") from error

    # Pages

    def page(self, index: str, project: str) -> dict[str, Any]:
        """Give the page of a project, from the index when ours is old: once for all who ask."""
        # Few locks for all pages: those that share one wait for each other.
        with self.asking[hash((index, project)) % len(self.asking)]:
            return self._page(index, project)

    def _page(self, index: str, project: str) -> dict[str, Any]:
        path = self.folder / "pages" / index / f"{project}.json"
        page = self._known_page(index, project, path)
        if page is not None and time.time() - page["at"] <= self.fresh:
            return page
        try:
            with self.fetching:
                fetched = self._fetch_page(index, project)
        except Away as error:
            if page is None or error.status in (401, 403, 404, 410):
                raise
            # An old page is better than none while the index is away.
            return page
        text = json.dumps(fetched)
        with contextlib.suppress(OSError, TooMuch):
            # Without room on the disk it is known while it is in memory.
            self._write_page(path, text.encode())
        return self._remember(index, project, len(text), fetched)

    def _known_page(self, index: str, project: str, path: Path) -> dict[str, Any] | None:
        """Give the page that is in memory, or else on disk."""
        with self.lock:
            if (index, project) in self.pages:
                self.pages.move_to_end((index, project))
                return self.pages[index, project][1]
        try:
            with path.open("rb") as source:
                text = source.read(4 * PAGE_BYTES)
            page = json.loads(text)
            os.utime(path)
        except (OSError, ValueError):
            return None
        return self._remember(index, project, len(text), page)

    def _remember(
        self, index: str, project: str, size: int, page: dict[str, Any]
    ) -> dict[str, Any]:
        """Keep a page in memory, and let those go that were not asked for longest."""
        with self.lock:
            self.in_memory += size - self.pages.pop((index, project), (0, {}))[0]
            self.pages[index, project] = size, page
            while self.in_memory > MEMORY_BYTES:
                _key, (less, _page) = self.pages.popitem(last=False)
                self.in_memory -= less
        return page

    def _write_page(self, path: Path, text: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        trial = path.with_name(f"{path.name}.{threading.get_ident()}")
        self.make_room(len(text))
        try:
            trial.write_bytes(text)
            before = path.stat().st_size if path.exists() else 0
            trial.replace(path)
        except OSError:
            self.give_back(len(text))
            with contextlib.suppress(OSError):
                trial.unlink()
            raise
        self.give_back(before)

    def _fetch_page(self, index: str, project: str) -> dict[str, Any]:
        if not self.indexes[index]:
            self.indexes[index] = own_index()
        address = f"{self.indexes[index].rstrip('/')}/{project}/"
        accept = "application/vnd.pypi.simple.v1+html, text/html;q=0.9"
        with self.open(address, {"Accept": accept}) as answer:
            base = answer.geturl()
            try:
                text = _read(answer, address).decode("utf-8", "replace")
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
        """Return where a file comes from, and its digest when the page has one."""
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
        taken = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            found = hashlib.sha256()
            with self.loading, self.open(url, {}) as answer:
                length = int(answer.headers.get("Content-Length") or -1)
                if length > 0:
                    self.make_room(length)
                    taken = length
                with running.path.open("wb") as target:
                    running.tell(length=length, ready=True)
                    for block in iter(lambda: answer.read(BLOCK), b""):
                        if running.written + len(block) > taken:
                            self.make_room(len(block))
                            taken += len(block)
                        target.write(block)
                        target.flush()
                        found.update(block)
                        running.tell(written=running.written + len(block))
            if running.length not in (-1, running.written):
                raise Away(502, f"{url} ended early")
            if digest and found.hexdigest() != digest:
                raise Away(502, f"{url} has another digest than its page says")
            running.path.replace(path)
            self.counts["files"] += 1
            self.counts["bytes"] += running.written
            running.tell(done=True)
        except (Away, OSError, ValueError, http.client.HTTPException) as error:
            # Also a full disk: the neighbours ask the index themselves.
            with contextlib.suppress(OSError):
                running.path.unlink()
            self.give_back(taken)
            told = error if isinstance(error, Away) else Away(503, str(error))
            running.tell(error=told, done=True)
        finally:
            with self.lock:
                self.downloads.pop(path, None)

    def make_room(self, size: int) -> None:
        """Take so many bytes of the limit, and remove what was not asked for longest for them."""
        with self.room:
            if self.used + size > self.limit:
                for _time, bytes_there, path in sorted(self._kept(), key=lambda entry: entry[0]):
                    if self.used + size <= self.limit:
                        break
                    with contextlib.suppress(OSError):
                        path.unlink()
                        self.used -= bytes_there
                if self.used + size > self.limit:
                    raise TooMuch(507, f"{size} bytes more are over the limit of {self.limit}")
            self.used += size

    def give_back(self, size: int) -> None:
        """Note that so many bytes are not there, or not any more."""
        with self.room:
            self.used -= size

    def _kept(self) -> list[tuple[float, int, Path]]:
        """List what is kept, with time and size; what is on its way is not."""
        kept = []
        for path in [*self.folder.glob("files/*/*"), *self.folder.glob("pages/*/*.json")]:
            if path.suffix != ".part":
                with contextlib.suppress(OSError):
                    seen = path.stat()
                    kept.append((seen.st_mtime, seen.st_size, path))
        return kept


def _read(answer: Any, address: str) -> bytes:
    """Read a page, unless it is too large or never ends."""
    text = bytearray()
    until = time.monotonic() + WAIT
    for block in iter(lambda: answer.read1(BLOCK), b""):
        text += block
        if len(text) > PAGE_BYTES:
            raise Away(502, f"{address} has more than {PAGE_BYTES} bytes")
        if time.monotonic() > until:
            raise Away(504, f"{address} takes longer than {WAIT:.0f} s")
    return bytes(text)


class Handler(BaseHTTPRequestHandler):
    """Answers the neighbours."""

    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    cache: Cache
    server: Server

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing of each request."""

    def handle_one_request(self) -> None:
        """Answer a request that comes soon enough."""
        self.server.expect(self.request)
        super().handle_one_request()

    def end_headers(self) -> None:
        """Close the connection while other clients wait for one."""
        if self.server.crowded:
            self.send_header("Connection", "close")
        super().end_headers()

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer."""
        self.server.heard(self.request)
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
        except (TimeoutError, ConnectionError):
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
            # A client reads the head of a file to decide whether to take it.
            self._pass_on(url)
            return
        running = self.cache.download(path, url, digest)
        with running.changed:
            running.changed.wait_for(lambda: running.ready or running.done, WAIT)
        if isinstance(running.error, TooMuch):
            self._pass_on(url)
            return
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
                    # Half a file: closing the connection shows it.
                    self.close_connection = True
                    return
                self._copy(source, written - sent)
                sent = written
                if done:
                    return


class Server(ThreadingHTTPServer):
    """Takes connections of the neighbours, as many as it has room for."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, config: dict[str, Any]) -> None:
        self.peers = [ipaddress.ip_network(text) for text in config.get("peers", ())]
        self.most = int(config.get("connections", CONNECTIONS))
        self.free = threading.Semaphore(self.most)
        self.lock = threading.Lock()
        self.whose: dict[socket.socket, str] = {}
        self.each: Counter[str] = Counter()
        self.expected: dict[socket.socket, float] = {}
        handler = type("Bound", (Handler,), {"cache": Cache(config)})
        super().__init__((config["address"], int(config["port"])), handler)

    @property
    def crowded(self) -> bool:
        """Say whether more than half of the connections are in use."""
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
        """Take neighbours only, and not all connections from one of them."""
        address = self._neighbour(client_address[0])
        if not address:
            refused = f"{client_address[0]} is no worker that may ask here\n"
            self._refuse(request, "403 Forbidden", refused)
            return False
        with self.lock:
            taken = self.each[address] < max(1, self.most // 2)
            if taken:
                self.whose[request] = address
                self.each[address] += 1
        if not taken:
            self._refuse(request, "503 Busy", f"{address} has too many connections\n")
        return taken

    def _neighbour(self, address: str) -> str:
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
            address = self.whose.pop(request, "")
            self.expected.pop(request, None)
            if address:
                self.each[address] -= 1
                if not self.each[address]:
                    del self.each[address]
        super().shutdown_request(request)
        self.free.release()

    def expect(self, request: socket.socket) -> None:
        """Begin to wait for what a neighbour asks."""
        with self.lock:
            self.expected[request] = time.monotonic()

    def heard(self, request: socket.socket) -> None:
        """Note that it has asked."""
        with self.lock:
            self.expected.pop(request, None)

    def service_actions(self) -> None:
        """End a request that comes too slowly, byte by byte; a silent one has a timeout."""
        until = time.monotonic() - PATIENCE
        with self.lock:
            late = [request for request, since in self.expected.items() if since < until]
        for request in late:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong, unless the client closed the connection."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, socket.timeout)):
            super().handle_error(request, client_address)


def serve(config: dict[str, Any]) -> Server:
    """Make the server."""
    return Server(config)


if __name__ == "__main__":
    serve(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))).serve_forever()
