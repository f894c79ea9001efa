"""A worker gets the collection from the first of its slice, or from the controller after all."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import share
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.store import Store, StoreError
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.talk import Line

CONTENT = b"the collection" * 10_000
NAME = hashlib.sha256(CONTENT).hexdigest()
OTHER = hashlib.sha256(b"packages").hexdigest()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the first worker has it."""
    (tmp_path / NAME).write_bytes(CONTENT)
    (tmp_path / OTHER).write_bytes(b"packages")
    offered = [tmp_path / NAME, tmp_path / OTHER]
    return f"http://127.0.0.1:{share.offer(offered, '127.0.0.1')}/{NAME}"


def fetch(store: Store, *lines: bytes) -> list[dict[str, object]]:
    said = io.BytesIO()
    Line(io.BytesIO(b"".join(lines)), said).fetch(store, [NAME])
    return [json.loads(line) for line in said.getvalue().splitlines()]


def test_it_comes_from_the_peer(url: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "state" / "files")
    said = fetch(store, f"from {NAME} {url}\n".encode())
    assert said == [{"say": "need", "files": [NAME]}]
    assert store.path(NAME).read_bytes() == CONTENT


def test_so_do_packages(url: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "state" / "files")
    share.get(url.replace(NAME, OTHER), store, OTHER)
    assert store.path(OTHER).read_bytes() == b"packages"


@pytest.mark.parametrize("away", ["http://127.0.0.1:9/", "http://127.0.0.1:9", "nonsense"])
def test_where_the_peer_has_it_not_it_comes_from_the_controller(tmp_path: Path, away: str) -> None:
    store = Store(tmp_path / "state" / "files")
    lines = (f"from {NAME} {away}\n".encode(), b"file %s %d\n" % (NAME.encode(), len(CONTENT)))
    said = fetch(store, *lines, CONTENT)
    assert said[1:] == [{"say": "need", "files": [NAME], "direct": True}]
    assert store.path(NAME).read_bytes() == CONTENT


def test_nothing_else_is_given_away_and_nothing_wrong_is_kept(url: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    store = Store(tmp_path / "state" / "files")
    with pytest.raises(OSError, match="404"):
        share.get(url.replace(NAME, "secret"), store, NAME)
    other = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(StoreError, match="what arrived is"):
        share.get(url, store, other)
    assert store.missing([NAME, other]) == [NAME, other]


def test_who_cannot_listen_says_so(tmp_path: Path) -> None:
    assert share.offer([tmp_path / NAME], "192.0.2.1") == 0
