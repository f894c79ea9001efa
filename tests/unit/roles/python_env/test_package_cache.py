"""The cache that downloads each package once for all neighbours."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import beside
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import uv_wheel
from package_index import Index
from package_index import serve as serve_index

ROOT = Path(__file__).resolve().parents[4]

PROGRAM = ROOT / "roles" / "python_env" / "files" / "package_cache.py"
package_cache = beside.load(PROGRAM, "package_cache")


class Neighbours:
    """An index, a cache before it, and who asks the cache."""

    def __init__(self, folder: Path, fresh: float) -> None:
        self.index = Index()
        self.index.add("base", "1.0", text="x = 1\n" * 200_000)
        self.server = serve_index(self.index)
        port = self.server.server_address[1]
        self.config = {
            "address": "127.0.0.1",
            "port": 0,
            "folder": str(folder),
            "indexes": {"default": f"http://127.0.0.1:{port}/simple"},
            "pythons": f"http://127.0.0.1:{port}/files",
            "fresh_seconds": fresh,
        }
        self.start()

    def start(self) -> None:
        self.cache: Any = package_cache.Server(self.config)
        self.base = f"http://127.0.0.1:{self.cache.server_address[1]}"
        threading.Thread(target=self.cache.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.cache.shutdown()
        self.cache.server_close()

    def get(self, path: str, **headers: str) -> bytes:
        request = urllib.request.Request(f"{self.base}{path}", headers=headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            data: bytes = answer.read()
        return data

    def status(self, path: str) -> int:
        try:
            self.get(path)
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    def file(self) -> tuple[str, str]:
        """Give path and digest of the file, as the page names them."""
        page = self.get("/default/base/").decode()
        link: str = page.split('href="')[1].split('"')[0]
        path, _hash, digest = link.partition("#sha256=")
        return path, digest


@pytest.fixture
def neighbours(tmp_path: Path) -> Iterator[Neighbours]:
    made = Neighbours(tmp_path, fresh=300)
    yield made
    made.stop()
    made.server.shutdown()
    made.server.server_close()


def test_many_ask_and_one_downloads(neighbours: Neighbours) -> None:
    path, digest = neighbours.file()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: neighbours.get(path), range(8)))
    assert {hashlib.sha256(data).hexdigest() for data in answers} == {digest}
    assert len(neighbours.index.files_asked()) == 1
    pages = [path for path in neighbours.index.asked if path.startswith("/simple/")]
    assert len(pages) == 1


def test_many_ask_for_a_page_at_once_and_one_asks_the_index(neighbours: Neighbours) -> None:
    with ThreadPoolExecutor(8) as pool:
        pages = list(pool.map(lambda _: neighbours.get("/default/base/"), range(8)))
    assert len(set(pages)) == 1
    assert neighbours.index.asked == ["/simple/base/"]


def test_a_build_of_python_comes_from_its_mirror_once(neighbours: Neighbours) -> None:
    name = "cpython-3.11.15+20260101-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"
    neighbours.index.files["20260101"] = {name: b"python" * 100_000}
    path = f"/pythons/20260101/{urllib.parse.quote(name)}"
    with ThreadPoolExecutor(4) as pool:
        answers = set(pool.map(lambda _: neighbours.get(path), range(4)))
    assert answers == {b"python" * 100_000}
    assert len(neighbours.index.asked) == 1
    for other in ("/pythons/base/base-1.0.whl", "/pythons/../simple/base", "/pythons/20260101/x"):
        assert neighbours.status(other) == 404
    assert len(neighbours.index.asked) == 1


def test_who_looked_before_the_file_was_there_gets_what_came_in(neighbours: Neighbours) -> None:
    path, _digest = neighbours.file()
    neighbours.get(path)
    cache = package_cache.Cache(neighbours.config)
    kept = next(kept for kept in (cache.folder / "files").glob("*/*") if kept.is_file())
    running = cache.download(kept, "http://nobody.invalid/asks", "")
    assert running.done
    assert running.error is None
    assert running.path.read_bytes() == kept.read_bytes()


def test_it_goes_on_while_the_index_is_away_and_after_a_restart(neighbours: Neighbours) -> None:
    path, digest = neighbours.file()
    neighbours.get(path)
    neighbours.index.away = True
    neighbours.stop()
    neighbours.config["fresh_seconds"] = 0
    neighbours.start()
    assert neighbours.file() == (path, digest)
    assert hashlib.sha256(neighbours.get(path)).hexdigest() == digest
    assert neighbours.status("/default/other/") == 503


def test_an_old_page_does_when_the_index_breaks_off(
    neighbours: Neighbours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = package_cache.Cache({**neighbours.config, "folder": str(tmp_path), "fresh_seconds": 0})
    page = cache.page("default", "base")

    def breaks_off(self: Any, *_: Any) -> bytes:
        raise http.client.IncompleteRead(b"<html>")

    for name in ("read", "read1"):
        monkeypatch.setattr(http.client.HTTPResponse, name, breaks_off)
    assert cache.page("default", "base") == page
    part = tmp_path / "files" / "00" / "part"
    ((url, _digest),) = json.loads(page[1]).values()
    running = cache.download(part, url, "")
    with running.changed:
        assert running.changed.wait_for(lambda: running.done, 20)
    assert running.error is not None
    assert not part.exists()


def test_a_file_is_sent_as_a_whole(neighbours: Neighbours) -> None:
    path, digest = neighbours.file()
    for _from_the_index_and_then_from_the_disk in range(2):
        assert hashlib.sha256(neighbours.get(path, Range="bytes=2-5")).hexdigest() == digest
    line = http.client.HTTPConnection(*neighbours.cache.server_address, timeout=10)
    with contextlib.closing(line):
        line.request("HEAD", path)
        assert line.getresponse().status == 405
    assert len(neighbours.index.files_asked()) == 1


def test_only_what_a_page_names_can_be_asked_for(neighbours: Neighbours) -> None:
    neighbours.file()
    assert neighbours.status(f"/files/default/base/{'0' * 24}/x.whl") == 404
    assert neighbours.status("/files/default/../../etc/passwd") == 404
    assert neighbours.status("/elsewhere/base/") == 404


def test_a_file_that_is_not_what_its_page_says_is_not_kept(neighbours: Neighbours) -> None:
    path, _digest = neighbours.file()
    project = neighbours.index.files["base"]
    good = dict(project)
    for name in project:
        project[name] = b"spoilt"
    with pytest.raises((http.client.IncompleteRead, urllib.error.HTTPError)):
        neighbours.get(path)
    project.update(good)
    deadline = time.monotonic() + 5
    while neighbours.cache.cache.downloads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert neighbours.get(path) in good.values()


def test_a_file_that_was_removed_as_wrong_just_now_is_an_error(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _digest = neighbours.file()
    removed = package_cache.Download(Path("/nonexistent"))
    cache = neighbours.cache.cache
    monkeypatch.setattr(cache, "download", lambda *_: removed)
    wrong = {"ready": True, "error": package_cache.Away(502, "wrong"), "done": True}
    threading.Timer(0.2, removed.tell, kwargs=wrong).start()
    assert neighbours.status(path) == 502


def test_what_was_not_asked_for_longest_makes_room(neighbours: Neighbours) -> None:
    cache = neighbours.cache.cache
    for age in (3, 2, 1):
        path = cache.path_of(str(age) * 24, "x")
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * 100)
        package_cache.os.utime(path, (1000 - age, 1000 - age))
    # It counts what was there before it began.
    cache = package_cache.Cache({**neighbours.config, "limit_bytes": 250})
    cache.make_room(100)
    assert [cache.path_of(str(age) * 24, "x").exists() for age in (3, 2, 1)] == [False, False, True]


def kept_bytes(cache: Any) -> int:
    """Count what is on disk."""
    return sum(path.stat().st_size for path in cache.folder.rglob("*") if path.is_file())


def test_pages_count_for_the_limit(neighbours: Neighbours, tmp_path: Path) -> None:
    for number in range(30):
        neighbours.index.add(f"proj{number}", "1.0")
    one = neighbours.get("/default/base/")
    neighbours.stop()
    neighbours.config.update(folder=str(tmp_path / "small"), limit_bytes=4000)
    neighbours.start()
    cache = neighbours.cache.cache
    for number in range(30):
        assert b"href=" in neighbours.get(f"/default/proj{number}/")
        assert kept_bytes(cache) <= 4000
    assert 0 < len(list(cache.folder.glob("pages/*/*"))) < 30
    assert cache.used == kept_bytes(cache)
    # What went is asked for again, and what was asked for last is still there.
    assert neighbours.get("/default/base/") == one
    asked = len(neighbours.index.asked)
    assert neighbours.get("/default/base/") == one
    assert len(neighbours.index.asked) == asked


def test_a_page_that_a_crash_cut_off_is_fetched_again(neighbours: Neighbours) -> None:
    whole = neighbours.get("/default/base/")
    (kept,) = neighbours.cache.cache.folder.glob("pages/*/*")
    for text in (b"", kept.read_bytes()[:40], bytes(kept.stat().st_size)):
        kept.write_bytes(text)
        assert neighbours.get("/default/base/") == whole
        assert len(kept.read_bytes()) > len(whole)


def test_one_link_that_is_no_address_withholds_no_other(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = package_cache._read
    spoilt = '<a href="http://[x/base-2.0.whl">base-2.0</a>'
    monkeypatch.setattr(package_cache, "_read", lambda *given: spoilt + read(*given))
    assert b"http://[x/" not in neighbours.get("/default/base/")
    path = neighbours.file()[0]
    assert len(neighbours.get(path)) > 1000


def test_a_page_without_end_is_not_taken(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_cache, "PAGE_BYTES", 50, raising=False)
    assert neighbours.status("/default/base/") == 502
    cache = neighbours.cache.cache
    assert kept_bytes(cache) == 0


def test_a_file_above_the_limit_is_passed_on_and_not_kept(neighbours: Neighbours) -> None:
    path, digest = neighbours.file()
    cache = neighbours.cache.cache
    cache.limit = cache.used + 100
    assert hashlib.sha256(neighbours.get(path)).hexdigest() == digest
    assert not list(cache.folder.glob("files/*/*"))
    assert cache.used == kept_bytes(cache)


def test_who_is_silent_or_too_slow_is_given_up(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_cache, "PATIENCE", 1.0, raising=False)
    monkeypatch.setattr(package_cache.Handler, "timeout", 1.0)
    address = neighbours.cache.server_address
    silent, slow = (socket.create_connection(address, timeout=20) for _ in range(2))
    ended = threading.Event()

    def drip() -> None:
        # One byte in time, and another: no pause is too long, all of them are.
        with contextlib.suppress(OSError):
            for _ in range(300):
                slow.sendall(b"G")
                if ended.wait(0.1):
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        for link in (silent, slow):
            with contextlib.suppress(ConnectionError):
                assert link.recv(1) == b""
    finally:
        ended.set()
        thread.join()
        silent.close()
        slow.close()
    assert neighbours.status("/health") == 200


def test_one_neighbour_has_half_of_the_connections(neighbours: Neighbours) -> None:
    neighbours.stop()
    neighbours.config["connections"] = 6
    neighbours.start()
    address = neighbours.cache.server_address
    with contextlib.ExitStack() as links:
        # A machine has many addresses of its own, and is one neighbour.
        held = [
            socket.create_connection(address, timeout=20, source_address=(f"127.0.0.{last}", 0))
            for last in (1, 2, 3)
        ]
        for link in held:
            links.callback(link.close)
            link.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert link.recv(100).startswith(b"HTTP/1.1 200")
        more = socket.create_connection(address, timeout=20, source_address=("127.0.0.9", 0))
        links.callback(more.close)
        assert more.recv(100).startswith(b"HTTP/1.1 503")
    # They are free again when they are over.
    deadline = time.monotonic() + 20
    while neighbours.cache.whose:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for _ in range(10):
        assert neighbours.status("/health") == 200


def test_only_the_workers_of_the_slice_may_ask(neighbours: Neighbours) -> None:
    neighbours.stop()
    neighbours.config["peers"] = ["10.0.0.2", "10.128.0.0/20"]
    neighbours.start()
    server = neighbours.cache
    for address, may in (
        ("10.0.0.2", True),
        ("10.128.15.7", True),
        ("127.0.0.1", True),
        ("10.0.0.3", False),
        ("192.168.1.1", False),
    ):
        server.free.acquire()
        ours, theirs = socket.socketpair()
        with theirs:
            assert server.verify_request(ours, (address, 40000)) is may, address
            if not may:
                assert theirs.recv(100).startswith(b"HTTP/1.1 403")
            server.shutdown_request(ours)
    assert neighbours.status("/health") == 200
    assert server.free.acquire(blocking=False)
    server.free.release()


class Distant(BaseHTTPRequestHandler):
    """An index that keeps connections; what it was asked, and by how many connections."""

    protocol_version = "HTTP/1.1"
    asked: list[str]
    connections: list[Any]

    def setup(self) -> None:
        super().setup()
        self.connections.append(self.connection)

    def log_message(self, *_arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.asked.append(self.path)
        status, body = 200, b"page"
        if self.path.startswith("/moved/"):
            status, body = 302, b""
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.path.removeprefix("/moved/"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def distant() -> Iterator[tuple[type[Distant], str]]:
    kind = type("Kind", (Distant,), {"asked": [], "connections": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield kind, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def lines() -> Any:
    return package_cache.Lines(ssl.create_default_context())


def asked(own: Any, url: str) -> bytes:
    with own.ask(url) as answer:
        data: bytes = answer.read()
    return data


def test_a_connection_to_an_index_is_used_again(distant: tuple[type[Distant], str]) -> None:
    kind, base = distant
    own = lines()
    for number in range(5):
        assert asked(own, f"{base}/moved/{base}/{number}") == b"page"
    assert len(kind.connections) == 1
    # The index closes what is idle for too long.
    kind.connections[0].shutdown(socket.SHUT_RDWR)
    assert asked(own, f"{base}/again") == b"page"
    assert len(kind.connections) == 2
    with own.ask(f"{base}/half") as answer:
        answer.read(1)
    assert asked(own, f"{base}/whole") == b"page"
    assert len(kind.connections) == 3


@pytest.mark.parametrize(
    "away",
    [
        *("/moved/" * 20, "/moved/file:///etc/x", "/moved/ftp://x/"),
        *("/moved/http://x:99999/", "/moved/http://x:port/", "/moved/http://[x/"),
    ],
)
def test_where_an_index_may_not_lead(distant: tuple[type[Distant], str], away: str) -> None:
    with pytest.raises(package_cache.Away):
        asked(lines(), f"{distant[1]}{away}")


def test_an_index_behind_a_proxy(
    distant: tuple[type[Distant], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, base = distant
    monkeypatch.setenv("http_proxy", base)
    monkeypatch.setenv("no_proxy", "")
    own = lines()
    for _time in range(2):
        assert asked(own, "http://index.example/simple/") == b"page"
    assert kind.asked == ["http://index.example/simple/"] * 2
    assert len(kind.connections) == 1


def test_it_looks_for_pip_where_the_role_does() -> None:
    assert package_cache.PIPS == uv_wheel.PIPS
