"""Worker 0 hands entries out: to processes with the key, and sealed by it."""

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
from run_agent.act import cache_peer, installed
from run_agent.act.cache_peer import Peer, Server

KEY, OTHER = "ab" * 32, "cd" * 32
NAME = f"jit_step-{'0f' * 32}-cache"
DATA = zlib.compress(bytes(100_000))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / NAME).write_bytes(DATA)
    (tmp_path / "secret").write_text("x")
    with Server("127.0.0.1", 0, tmp_path, KEY) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def peer_of(server: Server, key: str = KEY) -> Peer:
    return Peer("127.0.0.1", server.server_address[1], key, 5.0)


def test_what_is_there_is_handed_out(server: Server) -> None:
    peer = peer_of(server)
    (entry,) = peer.entries()
    assert (entry.name, entry.size) == (NAME, len(DATA))
    assert peer.read(NAME) == DATA
    assert peer.read(NAME.replace("step", "stop")) is None
    assert peer.read("secret") is None
    peer.close()


def test_without_the_key_nothing_is_handed_out(server: Server) -> None:
    with pytest.raises(OSError, match="has another key"):
        peer_of(server, OTHER).entries()


def test_a_question_cannot_be_asked_again(server: Server) -> None:
    with socket.create_connection(server.server_address[:2], timeout=5) as line:
        stream = line.makefile("rwb")
        challenge = stream.read(16)
        asked = f"{cache_peer.proof_of(KEY, challenge, 0, 'secret')} secret\n".encode()
        stream.write(asked)
        stream.flush()
        assert stream.readline() == b"-1\n"
        stream.write(asked)
        stream.flush()
        assert stream.readline() == b""


@pytest.mark.parametrize("answer", [b"5\nhello", b"99999999999\n", b"x\n", b"50\nshort"])
def test_a_stranger_at_the_port_can_only_refuse(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def lie() -> None:
            line, _address = listening.accept()
            line.sendall(bytes(16))
            line.recv(1000)
            line.sendall(answer)
            line.close()

        thread = threading.Thread(target=lie)
        thread.start()
        peer = Peer("127.0.0.1", listening.getsockname()[1], KEY, 5.0)
        with contextlib.suppress(OSError):
            assert peer.read(NAME) is None
        thread.join()
        peer.close()


def test_the_server_ends_with_its_agent(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(DATA)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    order = {"host": "127.0.0.1", "port": port, "folder": str(tmp_path), "key": KEY}
    process = subprocess.Popen(installed.command("cache-serve"), stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()
    peer = None
    while peer is None:
        try:
            peer = Peer("127.0.0.1", port, KEY, 5.0)
        except ConnectionRefusedError:
            assert process.poll() is None
    assert peer.read(NAME) == DATA
    peer.close()
    process.stdin.close()
    assert process.wait(20) == 0
