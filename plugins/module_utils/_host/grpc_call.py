# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Call a gRPC method of a port of this machine, within bounds of time and bytes.

Any user of the machine may hold the port. What comes is counted, and refused where it is no HTTP/2
or no gRPC message; the answer's headers are passed over. Needs only Python 3.8.
"""

from __future__ import annotations

import socket
import struct
import time

MOST = 1 << 20
"""Bytes that an answer may have, with everything around it."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PADDED = 8
STREAM = 1
_FRAME = 1 << 14
_WINDOW_SETTING = 4
_DEFAULT_WINDOW = 65535
_ENDS = "it ends in the middle of an answer"


class Refused(Exception):
    """What answers on the port is no gRPC server, or says too much; the text says which."""


class NoAnswer(Refused):
    """The server refuses the call, as one does that lacks the method or what is asked of it."""


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """Return an HTTP/2 frame."""
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def _header(name: str, value: str) -> bytes:
    """Return a header, literally, without an index."""
    return b"\0" + b"".join(bytes([len(text)]) + text.encode("ascii") for text in (name, value))


def _request(path: str, message: bytes) -> bytes:
    headers = (
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
        ("te", "trailers"), ("content-type", "application/grpc"),
    )  # fmt: skip
    return b"".join((
        PREFACE,
        frame(SETTINGS, 0, 0, struct.pack(">HI", _WINDOW_SETTING, MOST)),
        frame(WINDOW, 0, 0, struct.pack(">I", MOST - _DEFAULT_WINDOW)),
        frame(HEADERS, END_HEADERS, STREAM, b"".join(_header(*one) for one in headers)),
        frame(DATA, END_STREAM, STREAM, b"\0" + struct.pack(">I", len(message)) + message),
    ))  # fmt: skip


class _Line:
    """A connection that ends at a time, and after so many bytes."""

    def __init__(self, port: int, ends: float) -> None:
        self._ends, self._left = ends, MOST
        self._socket = socket.create_connection(("127.0.0.1", port), self._seconds())

    def _seconds(self) -> float:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise socket.timeout("no answer in time")  # noqa: UP041 - Python 3.8 has two
        return left

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def send(self, content: bytes) -> None:
        """Send all of it."""
        self._socket.settimeout(self._seconds())
        self._socket.sendall(content)

    def exactly(self, size: int) -> bytes:
        """Return so many bytes."""
        self._left -= size
        if self._left < 0:
            raise Refused(f"it says more than {MOST} bytes")
        parts = bytearray()
        while len(parts) < size:
            self._socket.settimeout(self._seconds())
            part = self._socket.recv(size - len(parts))
            if not part:
                raise Refused(_ENDS)
            parts += part
        return bytes(parts)

    def frame(self) -> tuple[int, int, int, bytes]:
        """Return kind, flags, stream and content of the next frame."""
        head = self.exactly(9)
        size = int.from_bytes(head[:3], "big")
        if size > _FRAME:
            raise Refused("it does not speak HTTP/2")
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        return kind, flags, stream & 0x7FFFFFFF, self.exactly(size)


def _body(line: _Line) -> bytes:
    """Return the body of the answer; a server says its settings first."""
    found, first = bytearray(), True
    while True:
        kind, flags, stream, content = line.frame()
        if first and kind != SETTINGS:
            raise Refused("it does not speak HTTP/2")
        first = False
        if kind in (SETTINGS, PING) and not flags & ACK:
            line.send(frame(kind, ACK, 0, content if kind == PING else b""))
        elif kind in (RESET, GOAWAY):
            raise NoAnswer("it refuses the call")
        elif stream == STREAM and kind in (DATA, HEADERS):
            found += _unpadded(flags, content) if kind == DATA else b""
            if flags & END_STREAM:
                return bytes(found)


def _unpadded(flags: int, content: bytes) -> bytes:
    if not flags & PADDED:
        return content
    return content[1 : len(content) - content[0]] if content else b""


def _message(body: bytes) -> bytes:
    """Return the one message of a body; an answer without a message is an error of the server."""
    if not body:
        raise NoAnswer("it refuses the call")
    if len(body) < 5 or body[0] or int.from_bytes(body[1:5], "big") != len(body) - 5:
        raise Refused("its answer is no message of gRPC")
    return body[5:]


def call(port: int, path: str, message: bytes, ends: float) -> bytes:
    """Return the answer of a method on the loopback address, until the monotonic time `ends`.

    Raise OSError if nothing listens (socket.timeout: nothing answers in time), and Refused for what
    is no answer.
    """
    line = _Line(port, ends)
    try:
        line.send(_request(path, message))
        return _message(_body(line))
    except ConnectionError:
        raise Refused(_ENDS) from None
    finally:
        line.close()
