"""A call to a port that any user may hold."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import grpc_call
from ansible_collections.tpu.fleet.plugins.module_utils._host.grpc_call import (
    DATA,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    SETTINGS,
    frame,
)
from monitoring_port import serving

MESSAGE = b"\0\0\0\0\x03abc"
GREETING = frame(SETTINGS, 0, 0)


@contextlib.contextmanager
def answering(*parts: bytes, endless: bool = False) -> Iterator[int]:
    """Yield a port that sends these parts to a client."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError), server.accept()[0] as line:
                line.recv(1 << 16)
                for part in parts:
                    line.sendall(part)
                while endless:
                    line.sendall(parts[-1])
                line.shutdown(socket.SHUT_WR)
                while line.recv(1 << 16):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def call(port: int, seconds: float = 20.0) -> bytes:
    return grpc_call.call(port, "/a.B/C", b"x", time.monotonic() + seconds)


def test_an_answer_in_several_frames() -> None:
    padded = frame(DATA, grpc_call.PADDED, 1, b"\x02" + MESSAGE[4:6] + b"\0\0")
    parts = (GREETING, frame(PING, 0, 0, b"12345678"), frame(HEADERS, 4, 1, b"\x88"))
    end = (frame(DATA, 0, 1, MESSAGE[:4]), padded, frame(DATA, 0, 1, MESSAGE[6:]))
    with answering(*parts, *end, frame(HEADERS, END_STREAM | 4, 1, b"")) as port:
        assert call(port) == b"abc"


def test_a_method_that_the_server_lacks() -> None:
    with serving() as there, pytest.raises(grpc_call.NoAnswer, match="it refuses the call"):
        call(there.port)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "does not speak HTTP/2"),
        ((frame(DATA, END_STREAM, 1, MESSAGE),), "does not speak HTTP/2"),
        ((GREETING, b"\x00\x00"), "ends in the middle"),
        ((GREETING, frame(GOAWAY, 0, 0, b"")), "refuses the call"),
        ((GREETING, frame(DATA, END_STREAM, 1, b"\x01" + MESSAGE[1:])), "no message of gRPC"),
        ((GREETING, frame(DATA, END_STREAM, 1, MESSAGE * 2)), "no message of gRPC"),
    ],
)
def test_what_is_no_answer_is_refused(parts: tuple[bytes, ...], why: str) -> None:
    with answering(*parts) as port, pytest.raises(grpc_call.Refused, match=why):
        call(port)


def test_an_endless_answer_is_cut_off() -> None:
    with (
        answering(GREETING, frame(DATA, 0, 1, b"x" * 16_000), endless=True) as port,
        pytest.raises(grpc_call.Refused, match="more than 1048576 bytes"),
    ):
        call(port)


def dripping(line: socket.socket) -> None:
    line.sendall(GREETING)
    with contextlib.suppress(OSError):
        for _ in range(400):
            line.sendall(b"\0")
            time.sleep(0.05)


@pytest.mark.parametrize("what", [dripping, lambda line: line.recv(1 << 16) and time.sleep(0.5)])
def test_a_slow_answer_ends_in_time(what: Callable[[socket.socket], object]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: what(server.accept()[0]))
        thread.start()
        began = time.monotonic()
        with pytest.raises(socket.timeout):
            call(server.getsockname()[1], 0.2)
        assert time.monotonic() - began < 10
        server.close()
        thread.join()
