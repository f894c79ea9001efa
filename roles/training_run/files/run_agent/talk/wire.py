"""Heartbeats between the workers of a gang: signed messages over one connection for each worker.

Every connection begins with a number that the leader draws. With it, the number that the worker
draws, and the message's place in the connection everything is signed, in both directions: what was
said once cannot be said again, here or elsewhere. Sizes and times are bounded, and only the gang's
own addresses are listened to; where the leader's port is one of root's, only root there.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Generic

from ..decide.values import is_key
from . import keys, messages
from .messages import O, R, Refused, Words

ROOTS_PORTS = 1024
# Source ports that root takes: NFS takes its own from 665 on.
_SOURCES = range(512, 600)
_TIMEOUT = 5.0
_IDLE = 30.0
_CONNECTIONS = 4  # of one address; a worker needs one
_WAITING = 1024
_STEPS_OF_ACCEPTING = 5  # of the loop; there are three
_ACCEPTED = 64  # at once, before connected workers are read again
_HELLO = struct.Struct("!4s16s")
# What follows: magic, worker, number, the key's name, the worker's own number, signature, length.
_HEAD = struct.Struct("!4sHQ8s16s32sI")
_GREETING, _TELL, _ASK_KEY, _KEY = b"TFG1", b"TFM1", b"TFK1", b"TFS1"
_NO_KEY, _UNSIGNED = bytes(8), bytes(32)

Note = Callable[[str, str], None]
Head = tuple[bytes, int, int, bytes, bytes, bytes, int]


def _sign(
    key: str, about: tuple[str, str, int], challenge: bytes, nonce: bytes, number: int, body: bytes
) -> bytes:
    """Sign a message; `about` is its run, its direction and the worker's number."""
    context = "\0".join(map(str, about)).encode()
    return keys.signature(key, context, challenge + nonce + struct.pack("!Q", number) + body)


def _pack(
    kind: bytes, worker: int, number: int, key: str, nonce: bytes, sign: bytes, body: bytes
) -> bytes:
    name = keys.name_of(key) if key else _NO_KEY
    return _HEAD.pack(kind, worker, number, name, nonce, sign, len(body)) + body


class Server(Generic[R, O]):
    """The leader's side: a thread with an event loop, in which each connection has a task."""

    def __init__(
        self,
        run: str,
        port: int,
        hosts: Sequence[str],
        own_keys: keys.Keys,
        words: Words[R, O],
        answer: Callable[[R], O],
        note: Note,
        hands_out: bool = False,
    ) -> None:
        """Listen; `hands_out` says whether workers without a key may get the leader's own."""
        self._run, self._hosts, self._keys = run, list(hosts), own_keys
        self._words, self._answer, self._note = words, answer, note
        self._only_root = port < ROOTS_PORTS
        self._hands_out = hands_out
        self._connected: dict[asyncio.StreamWriter, str] = {}  # with their addresses
        self._current: dict[int, bool] = {}
        self._closed: Future[None] = Future()
        family = socket.AF_INET6 if ":" in hosts[0] else socket.AF_INET
        self._socket = socket.create_server((hosts[0], port), family=family)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether a thread listens."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread and all connections."""
        if not self._closed.done():
            self._closed.set_result(None)
        self._thread.join(_TIMEOUT)

    def _serve(self) -> None:
        with self._socket:
            asyncio.run(self._listen())

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, what: self._note("others", what["message"]))
        server = await asyncio.start_server(self._meet, sock=self._socket, backlog=_ACCEPTED)
        self._socket.listen(_WAITING)  # asyncio's backlog is also how many it accepts at once
        await asyncio.wrap_future(self._closed)
        # A connection that is just accepted gets as far as its task, with which it ends: when the
        # server is closed before, asyncio forgets it open.
        loop.remove_reader(self._socket)
        for _ in range(_STEPS_OF_ACCEPTING):
            await asyncio.sleep(0)
        server.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address, port = writer.get_extra_info("peername")[:2]
        try:
            self._admit(address, port)
            self._connected[writer] = address
            await self._converse(reader, writer, address)
        except (OSError, EOFError):  # it has ended, or was too slow
            pass
        except Exception as error:  # whatever it is, it ends only this connection
            why = str(error) if isinstance(error, Refused) else ""
            self._note(address, why or f"unexpected {type(error).__name__}")
        finally:
            self._connected.pop(writer, None)
            writer.transport.abort()

    def _admit(self, address: str, port: int) -> None:
        if address not in self._hosts:
            raise Refused("it is no worker of the gang")
        if self._only_root and port >= ROOTS_PORTS:
            raise Refused("it has no port of root's")
        if list(self._connected.values()).count(address) >= _CONNECTIONS:
            raise Refused("it has too many connections")

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        challenge, number = os.urandom(16), 0
        writer.write(_HELLO.pack(_GREETING, challenge))
        while True:
            with _within(_IDLE, writer):
                begin = await reader.readexactly(1)
            with _within(_TIMEOUT, writer):
                head, body = await _receive(reader, begin)
                self._is_of(address, head[1])
                if head[0] == _ASK_KEY:
                    writer.write(self._hand_out(head[1]))
                else:
                    number += 1
                    writer.write(self._hear(challenge, number, head, body))
                await writer.drain()

    def _is_of(self, address: str, worker: int) -> None:
        if not 0 < worker < len(self._hosts):
            raise Refused("it speaks for a worker that there is not")
        if self._hosts[worker] != address:
            raise Refused("it speaks for a worker that has another address")

    def _hear(self, challenge: bytes, next_number: int, head: Head, body: bytes) -> bytes:
        _kind, worker, number, name, nonce, sign, _length = head
        key = self._keys.find(name)
        if key is None:
            raise Refused("it has another key, or none")
        own = _sign(key, (self._run, "report", worker), challenge, nonce, number, body)
        if not hmac.compare_digest(own, sign):
            raise Refused("its signature is wrong")
        if number != next_number:
            raise Refused("it repeats itself")
        report = self._words.read_report(body)
        if report.worker != worker:
            raise Refused("its report is another worker's")
        refused = self._words.refuse(report)
        if refused:
            raise Refused(refused)
        self._is_up_to_date(worker, key)
        told = messages.write(self._answer(report))
        sign = _sign(key, (self._run, "order", worker), challenge, nonce, number, told)
        return _pack(_TELL, worker, number, key, nonce, sign, told)

    def _is_up_to_date(self, worker: int, key: str) -> None:
        self._current[worker] = key == self._keys.current
        if self._keys.previous and sum(self._current.values()) == len(self._hosts) - 1:
            self._keys.forget_previous()

    def _hand_out(self, worker: int) -> bytes:
        if not self._hands_out or not self._only_root or not self._keys.made_here:
            raise Refused("it has no key, and the controller has to give it one")
        key = self._keys.current.encode("ascii")
        return _pack(_KEY, worker, 0, "", bytes(16), _UNSIGNED, key)


@contextlib.contextmanager
def _within(seconds: float, writer: asyncio.StreamWriter) -> Iterator[None]:
    """End a connection unless the block ends in time."""
    timer = asyncio.get_running_loop().call_later(seconds, writer.transport.abort)
    try:
        yield
    finally:
        timer.cancel()


async def _receive(reader: asyncio.StreamReader, begin: bytes) -> tuple[Head, bytes]:
    begin += await reader.readexactly(1)
    if begin != _TELL[:2]:
        raise Refused("it speaks something else")
    head = _HEAD.unpack(begin + await reader.readexactly(_HEAD.size - 2))
    if head[0] not in (_TELL, _ASK_KEY):
        raise Refused("it speaks something else")
    if head[6] > messages.MOST_BYTES:
        raise Refused("its message is too long")
    return head, await reader.readexactly(head[6])


class Client(Generic[R, O]):
    """A worker's side: one connection, which is opened again whenever it breaks."""

    def __init__(
        self,
        run: str,
        worker: int,
        port: int,
        hosts: Sequence[str],
        own_keys: keys.Keys,
        words: Words[R, O],
    ) -> None:
        self.problem = ""
        self._words = words
        self._run, self._worker, self._port, self._hosts = run, worker, port, list(hosts)
        self._keys = own_keys
        self._tries = 0
        self._socket: socket.socket | None = None
        self._challenge = self._nonce = b""
        self._number = 0

    def exchange(self, report: R) -> O | None:
        """Send the report, and return the order; None if the leader is absent or not trusted."""
        deadline = time.monotonic() + _TIMEOUT
        try:
            if self._socket is None:
                self._connect(deadline)
            if not self._keys.all:
                self._ask_for_key(deadline)
            order = self._tell(messages.write(report), deadline)
        except (OSError, Refused, struct.error) as error:
            self.problem = f"worker 0: {error}" if isinstance(error, Refused) else ""
            self._give_up(deadline)
            return None
        self.problem = ""
        return order

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _give_up(self, deadline: float) -> None:
        self.close()
        # The next time with the key before: worker 0 may not have been given the new one yet.
        self._tries += 1
        if self._keys.made_here and self._tries % 3 == 0:
            with contextlib.suppress(OSError, Refused, struct.error):
                self._connect(deadline)
                self._ask_for_key(deadline)
                self._tries = 0
            self.close()

    def _connect(self, deadline: float) -> None:
        family = socket.AF_INET6 if ":" in self._hosts[0] else socket.AF_INET
        own, leader = self._hosts[self._worker], self._hosts[0]
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.settimeout(_left(deadline))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for port in self._source_ports():
            try:
                self._socket.bind((own, port))
                break
            except OSError:
                if not port:
                    raise
        self._socket.connect((leader, self._port))
        magic, self._challenge = _HELLO.unpack(self._receive(_HELLO.size, deadline))
        if magic != _GREETING:
            raise Refused("it speaks something else")
        self._nonce, self._number = os.urandom(16), 0

    def _source_ports(self) -> list[int]:
        if self._port >= ROOTS_PORTS or os.geteuid() != 0:
            return [0]
        return random.sample(_SOURCES, len(_SOURCES))

    def _receive(self, count: int, deadline: float) -> bytes:
        if self._socket is None:
            raise OSError("no connection")
        parts = bytearray()
        while len(parts) < count:
            self._socket.settimeout(_left(deadline))
            part = self._socket.recv(count - len(parts))
            if not part:
                raise OSError("the connection ended")
            parts += part
        return bytes(parts)

    def _answer(self, kind: bytes, deadline: float) -> tuple[int, bytes, bytes]:
        head = _HEAD.unpack(self._receive(_HEAD.size, deadline))
        if head[0] != kind or head[1] != self._worker:
            raise Refused("it says something else than was asked")
        if head[6] > messages.MOST_BYTES:
            raise Refused("its message is too long")
        return head[2], head[5], self._receive(head[6], deadline)

    def _send(self, data: bytes, deadline: float) -> None:
        if self._socket is None:
            raise OSError("no connection")
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(data)

    def _tell(self, body: bytes, deadline: float) -> O:
        known = self._keys.all
        if not known:
            raise Refused("no key of the gang is here; apply the fleet file")
        key = known[self._tries % len(known)]
        self._number += 1
        challenge, nonce, count = self._challenge, self._nonce, self._number
        sign = _sign(key, (self._run, "report", self._worker), challenge, nonce, count, body)
        packed = _pack(_TELL, self._worker, count, key, nonce, sign, body)
        self._send(packed, deadline)
        number, sign, told = self._answer(_TELL, deadline)
        own = _sign(key, (self._run, "order", self._worker), challenge, nonce, count, told)
        if number != count or not hmac.compare_digest(own, sign):
            raise Refused("its signature is wrong")
        order = self._words.read_order(told)
        if key == self._keys.current:
            self._keys.forget_previous()
        return order

    def _ask_for_key(self, deadline: float) -> None:
        if self._port >= ROOTS_PORTS:
            raise Refused("no key of the gang is here; apply the fleet file")
        asked = _pack(_ASK_KEY, self._worker, 0, "", bytes(16), _UNSIGNED, b"")
        self._send(asked, deadline)
        key = self._answer(_KEY, deadline)[2].decode("ascii", "replace")
        if not is_key(key):
            raise Refused("what it says is no key")
        self._keys.learn(key)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise OSError("no answer in time")
    return left
