"""Files for other workers, from where an earlier answer ended. test_share.py has who may ask."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.file_server import (
    MOST_STRANGERS,
    FileServer,
    of_files,
)

CONTENT = bytes(range(256)) * 100


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    (tmp_path / "a").write_bytes(CONTENT)
    found = FileServer(("127.0.0.1", 0), ["127.0.0.1"], of_files([tmp_path / "a"]))
    found.begin()
    yield found
    found.end()


@pytest.mark.parametrize(
    ("path", "asked", "status", "body"),
    [
        ("/a", "", 200, CONTENT),
        ("/a", "bytes=25000-", 206, CONTENT[25000:]),
        ("/a", "bytes=25600-", 206, b""),
        ("/a", "bytes=25601-", 416, None),
        ("/a", "bytes=-7", 200, CONTENT),
        ("/b", "", 404, None),
        ("/../a", "", 404, None),
    ],
)
def test_a_file_or_its_rest(
    server: FileServer, path: str, asked: str, status: int, body: bytes | None
) -> None:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    for _again in range(2):
        line.request("GET", path, headers={"Range": asked} if asked else {})
        answer = line.getresponse()
        assert answer.status == status
        told = answer.read()
        assert body in (None, told)
    line.close()


def test_connections_that_ask_for_nothing_keep_no_worker_from_an_answer(
    server: FileServer,
) -> None:
    at = ("127.0.0.1", server.port)
    with contextlib.ExitStack() as held:
        line = http.client.HTTPConnection(*at, timeout=10)
        for _again in range(2):
            for _number in range(MOST_STRANGERS + 10):
                silent = held.enter_context(socket.create_connection(at, 10))
                silent.sendall(b"GET /a HTTP/1.1\r\nX: ")
            line.close()
            line.request("GET", "/a")
            assert line.getresponse().read() == CONTENT
        line.close()
