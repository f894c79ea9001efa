"""The cache that downloads each package once for all neighbours."""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from package_index import Index
from package_index import serve as serve_index

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = ROOT / "roles" / "python_env" / "files" / "package_cache.py"
_spec = importlib.util.spec_from_file_location("package_cache", PROGRAM)
assert _spec is not None
assert _spec.loader is not None
package_cache = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(package_cache)


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
        self.cache: Any = package_cache.serve(self.config)
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

    monkeypatch.setattr(http.client.HTTPResponse, "read", breaks_off)
    assert cache.page("default", "base") == page
    part = tmp_path / "files" / "00" / "part"
    running = cache.download(part, next(iter(page["urls"].values())), "")
    with running.changed:
        assert running.changed.wait_for(lambda: running.done, 20)
    assert running.error is not None
    assert not part.exists()


def test_a_part_of_a_file(neighbours: Neighbours) -> None:
    path, _digest = neighbours.file()
    neighbours.get(path)
    whole = neighbours.get(path)
    assert neighbours.get(path, Range="bytes=2-5") == whole[2:6]
    assert neighbours.get(path, Range="bytes=-7") == whole[-7:]


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
    while neighbours.cache.RequestHandlerClass.cache.downloads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert neighbours.get(path) in good.values()


def test_a_file_that_was_removed_as_wrong_just_now_is_an_error(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _digest = neighbours.file()
    running = package_cache.Download()
    running.tell(ready=True, path=Path("/nonexistent"))
    cache = neighbours.cache.RequestHandlerClass.cache
    monkeypatch.setattr(cache, "download", lambda *_: running)
    wrong = {"error": package_cache.Away(502, "wrong"), "done": True}
    threading.Timer(0.2, running.tell, kwargs=wrong).start()
    assert neighbours.status(path) == 502


def test_what_was_not_asked_for_longest_makes_room(neighbours: Neighbours) -> None:
    cache = neighbours.cache.RequestHandlerClass.cache
    for age in (3, 2, 1):
        path = cache.path_of(str(age) * 24, "x")
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * 100)
        package_cache.os.utime(path, (1000 - age, 1000 - age))
    cache.limit = 250
    cache.make_room(100)
    assert [cache.path_of(str(age) * 24, "x").exists() for age in (3, 2, 1)] == [False, False, True]
