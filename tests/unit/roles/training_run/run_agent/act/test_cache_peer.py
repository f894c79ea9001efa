"""Worker 0 hands entries out: to processes with the key, and proved by it."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_port
from run_agent.act import installed
from run_agent.act.cache_peer import Offer, Peer
from run_agent.act.file_server import FileServer

KEY, OTHER = "ab" * 32, "cd" * 32
NAME = f"jit_step?%41-{'0f' * 32}-cache"
DATA = zlib.compress(bytes(100_000))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    (tmp_path / NAME).write_bytes(DATA)
    (tmp_path / "secret").write_text("x")
    server = FileServer(("127.0.0.1", 0), ["127.0.0.1"], Offer(tmp_path, KEY).find)
    server.begin()
    yield server
    server.end()


def peer_of(server: FileServer, key: str = KEY) -> Peer:
    return Peer(("127.0.0.1", server.port), "127.0.0.1", key, 5.0)


def test_what_is_there_is_handed_out(server: FileServer) -> None:
    peer = peer_of(server)
    (entry,) = peer.entries()
    assert (entry.name, entry.size) == (NAME, len(DATA))
    assert peer.read(NAME) == DATA
    assert peer.read(NAME.replace("step", "stop")) is None
    assert peer.read("secret") is None
    assert peer.read(NAME) == DATA
    peer.close()


def test_without_the_key_nothing_is_handed_out(server: FileServer) -> None:
    peer = peer_of(server, OTHER)
    assert peer.read(NAME) is None
    with pytest.raises(OSError, match="has another key"):
        peer.entries()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
        b"5\nhello",
    ],
)
def test_a_stranger_at_the_port_can_only_refuse(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def lie() -> None:
            line, _address = listening.accept()
            line.recv(1000)
            line.sendall(answer)
            line.close()

        thread = threading.Thread(target=lie)
        thread.start()
        peer = Peer(listening.getsockname()[:2], "127.0.0.1", KEY, 5.0)
        with contextlib.suppress(OSError):
            assert peer.read(NAME) is None
        thread.join()
        peer.close()


def test_the_server_ends_with_its_agent(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(DATA)
    port = free_port()
    order = {
        "host": "127.0.0.1", "port": port, "peers": ["127.0.0.1"], "folder": str(tmp_path),
        "key": KEY,
    }  # fmt: skip
    process = subprocess.Popen(installed.command("cache-serve"), stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()
    data = None
    while data is None:
        with contextlib.closing(Peer(("127.0.0.1", port), "127.0.0.1", KEY, 5.0)) as peer:
            try:
                data = peer.read(NAME)
            except ConnectionRefusedError:
                assert process.poll() is None
    assert data == DATA
    process.stdin.close()
    assert process.wait(20) == 0
