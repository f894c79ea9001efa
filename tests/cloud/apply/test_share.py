"""A worker gets the collection from the first of its slice, or from the controller after all."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import socket
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import file_server, share
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
    return f"http://127.0.0.1:{share.offer(offered, '127.0.0.1', ['127.0.0.1'])}/{NAME}"


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
    with pytest.raises(StoreError, match="the received file has"):
        share.get(url, store, other)
    assert store.missing([NAME, other]) == [NAME, other]


def test_who_cannot_listen_says_so(tmp_path: Path) -> None:
    assert share.offer([tmp_path / NAME], "192.0.2.1", []) == 0


def test_only_peers_are_answered_and_each_a_few_times_at_once(tmp_path: Path) -> None:
    with (tmp_path / NAME).open("wb") as content:
        content.truncate(1 << 26)  # more than a connection holds
    port = share.offer([tmp_path / NAME], "127.0.0.1", ["127.0.0.2"])

    def begin(source: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), 20, (source, 0))

    def answered(asking: socket.socket) -> bytes:
        with contextlib.suppress(ConnectionError):
            asking.sendall(f"GET /{NAME} HTTP/1.0\r\n\r\n".encode())
            return asking.recv(12)
        return b""

    with contextlib.ExitStack() as stack:
        assert answered(stack.enter_context(begin("127.0.0.3"))) == b""
        # Every user of a peer has its address, and can connect and say nothing.
        for _number in range(2 * file_server.MOST_STRANGERS):
            stack.enter_context(begin("127.0.0.2"))
        # These take no more of what they asked for.
        for _number in range(file_server.MOST_REQUESTS):
            assert answered(stack.enter_context(begin("127.0.0.2"))) == b"HTTP/1.1 200"
        assert answered(stack.enter_context(begin("127.0.0.2"))) == b""
    # They are gone.
    for _number in range(1000):
        with begin("127.0.0.2") as asking:
            if answered(asking) == b"HTTP/1.1 200":
                return
    raise AssertionError("the peer is not answered any more")


class Peer:
    """A first worker in other hands: what it sends goes on and on."""

    def __init__(self, head: bytes) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}/{NAME}"
        self.head = head
        threading.Thread(target=self.answer, daemon=True).start()

    def answer(self) -> None:
        asking = self.server.accept()[0]
        with asking, contextlib.suppress(OSError):
            asking.sendall(self.head)
            while True:
                asking.sendall(b"x")
                time.sleep(0.01)


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.0 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"HTTP/1.0 200 OK\r\nX: "],
    ids=["content", "headers"],
)
def test_a_slow_peer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    monkeypatch.setattr(share, "_SECONDS", 0.3, raising=False)
    store = Store(tmp_path / "files")
    peer = Peer(head)
    failed: list[BaseException] = []

    def take() -> None:
        try:
            share.get(peer.url, store, NAME)
        except (OSError, StoreError) as error:
            failed.append(error)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(20)
    assert failed, "the peer still sends"
    assert store.missing([NAME]) == [NAME]


@pytest.mark.parametrize("length", ["-1", "9999999999999", "1e3", ""])
def test_a_peer_tells_a_length_that_fits(tmp_path: Path, length: str) -> None:
    peer = Peer(f"HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n".encode())
    with pytest.raises(OSError, match="the peer sends no length"):
        share.get(peer.url, Store(tmp_path / "files"), NAME)
