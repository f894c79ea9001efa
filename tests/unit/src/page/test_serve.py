"""The live page: for browsers on this computer alone."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tpu_fleet.page.serve import MOST_STRANGERS, Live, server_of

SECRET = "of-the-test"


@pytest.fixture
def live() -> Iterator[tuple[Live, int]]:
    one = Live()
    one.set("<!doctype html>first")
    server, address = server_of(one, 0, SECRET)
    assert address == f"http://127.0.0.1:{server.server_port}/{SECRET}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield one, server.server_port
    one.end()
    server.shutdown()
    server.server_close()


def asked(
    port: int, path: str, host: str | None = None, method: str = "GET"
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{port}")
    connection.endheaders()
    return connection.getresponse()


def test_who_does_not_show_the_secret_gets_few_threads(live: tuple[Live, int]) -> None:
    one, port = live
    browser = asked(port, f"/{SECRET}/events")
    before = threading.active_count()
    with contextlib.ExitStack() as silent:
        for _number in range(300):
            silent.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        answer = asked(port, f"/{SECRET}/")
        assert (answer.status, answer.read()) == (200, b"<!doctype html>first")
        deadline = time.monotonic() + 30
        while threading.active_count() > before + MOST_STRANGERS and time.monotonic() < deadline:
            time.sleep(0.05)
        assert threading.active_count() <= before + MOST_STRANGERS
        # A browser that is here stays.
        one.set("<!doctype html>second")
        assert browser.fp.readline() == b": hello\n"
        while (line := browser.fp.readline()) in (b"\n", b": beat\n"):
            pass
        assert line == b"data: new\n"


def test_the_page(live: tuple[Live, int]) -> None:
    answer = asked(live[1], f"/{SECRET}/")
    assert (answer.status, answer.read()) == (200, b"<!doctype html>first")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert asked(live[1], f"/{SECRET}/", f"localhost:{live[1]}").status == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "127.0.0.1.evil:80"]
)
@pytest.mark.parametrize("path", [f"/{SECRET}/", f"/{SECRET}/events", "/"])
def test_a_foreign_host_is_misdirected(live: tuple[Live, int], host: str, path: str) -> None:
    answer = asked(live[1], path, host)
    assert (answer.status, answer.read()) == (421, b"")


@pytest.mark.parametrize(
    "path", ["/", "/events", "/of-the-tesT/", f"/{SECRET}", f"/{SECRET}/../etc/passwd", "/\xe9"]
)
def test_who_does_not_know_the_address_sees_nothing(live: tuple[Live, int], path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", live[1], timeout=10)
    connection._encode_request = lambda request: request.encode("latin-1")  # type: ignore[attr-defined]
    connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
    connection.putheader("Host", f"127.0.0.1:{live[1]}")
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (404, b"")


def test_nothing_can_be_sent(live: tuple[Live, int]) -> None:
    assert asked(live[1], f"/{SECRET}/", method="POST").status == 501


def test_a_browser_is_told_of_a_new_page(live: tuple[Live, int]) -> None:
    answer = asked(live[1], f"/{SECRET}/events")
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.readline() == b": hello\n"
    assert answer.readline() == b"\n"
    live[0].set("second")
    assert answer.readline() == b"data: new\n"
    assert asked(live[1], f"/{SECRET}/").read() == b"second"
