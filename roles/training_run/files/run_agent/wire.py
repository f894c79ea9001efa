"""Heartbeats between the workers of a gang: signed messages over one connection for each worker.

Every connection begins with a number that the leader draws. With it, the number that the worker
draws, and the message's place in the connection everything is signed, in both directions: what was
said once cannot be said again, here or elsewhere. Sizes and times are bounded, and only the gang's
own addresses are listened to; where the leader's port is one of root's, only root there.
"""

from __future__ import annotations

import contextlib
import os
import random
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from . import keys, messages
from .gang_state import Report
from .member import Order
from .messages import Refused

ROOTS_PORTS = 1024
# Source ports that root takes: NFS takes its own from 665 on.
_SOURCES = range(512, 600)
_TIMEOUT = 5.0
_IDLE = 30.0
_CONNECTIONS = 4  # of one address; a worker needs one
_WAITING = 1024
_ACCEPTED = 64  # at once, before connected workers are read again
_HELLO = struct.Struct("!4s16s")
# What follows: magic, worker, number, the key's name, the worker's own number, signature, length.
_HEAD = struct.Struct("!4sHQ8s16s32sI")
_GREETING, _TELL, _ASK_KEY, _KEY = b"TFG1", b"TFM1", b"TFK1", b"TFS1"
# No message may end the thread that serves all workers.
_UNEXPECTED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_NO_KEY, _UNSIGNED = bytes(8), bytes(32)

Answer = Callable[[Report], Order]
Note = Callable[[str, str], None]


def _context(run: str, direction: str, worker: int) -> bytes:
    return f"{run}\0{direction}\0{worker}".encode()


def _signed(challenge: bytes, nonce: bytes, number: int, body: bytes) -> bytes:
    return challenge + nonce + struct.pack("!Q", number) + body


def _pack(
    kind: bytes, worker: int, number: int, key: str, nonce: bytes, sign: bytes, body: bytes
) -> bytes:
    name = keys.name_of(key) if key else _NO_KEY
    return _HEAD.pack(kind, worker, number, name, nonce, sign, len(body)) + body


@dataclass
class _Line:
    """One connection, as the leader has it."""

    socket: socket.socket
    address: str
    port: int
    challenge: bytes
    heard: float
    begun: Optional[float] = None  # when the message that is coming began to come
    number: int = 0
    coming: bytearray = field(default_factory=bytearray)
    going: bytearray = field(default_factory=bytearray)


class Server:
    """The leader's side: one thread for all workers."""

    def __init__(
        self,
        run: str,
        port: int,
        hosts: Sequence[str],
        own_keys: keys.Keys,
        answer: Answer,
        note: Note,
        hands_out: bool = False,
    ) -> None:
        """Listen; `hands_out` says whether workers without a key may get the leader's own."""
        self._run, self._hosts, self._keys = run, list(hosts), own_keys
        self._answer, self._tell = answer, note
        self._only_root = port < ROOTS_PORTS
        self._hands_out = hands_out
        self._lines: Dict[int, _Line] = {}  # by descriptor
        self._current: Dict[int, bool] = {}
        self._closed = False
        family = socket.AF_INET6 if ":" in hosts[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((hosts[0], port))
            self._socket.listen(_WAITING)
            self._socket.setblocking(False)
        except OSError:
            self._socket.close()
            raise
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether a thread listens."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Listen no more."""
        self._closed = True
        self._thread.join(_TIMEOUT)

    def _note(self, address: str, why: str) -> None:
        # Standard error has no reader, or the disk behind it is full.
        with contextlib.suppress(OSError, *_UNEXPECTED):
            self._tell(address, why)

    def _serve(self) -> None:
        try:
            self._hear_all()
        finally:
            for line in list(self._lines.values()):
                self._drop(line)
            self._selector.close()
            self._socket.close()

    def _hear_all(self) -> None:
        while not self._closed:
            for ready, events in self._selector.select(0.2):
                if ready.fileobj is self._socket:
                    self._accept()
                    continue
                self._go_on(ready.data, events)
            now = time.monotonic()
            for line in list(self._lines.values()):
                slow = line.begun is not None and now - line.begun > _TIMEOUT
                if slow or now - line.heard > _IDLE:
                    self._drop(line)

    def _accept(self) -> None:
        for _number in range(_ACCEPTED):
            try:
                made, name = self._socket.accept()
            except BlockingIOError:
                return
            except OSError:
                time.sleep(0.1)  # without a free descriptor it would be asked again at once
                return
            try:
                self._admit(made, str(name[0]), int(name[1]))
            except (OSError, *_UNEXPECTED) as error:
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(made)
                self._lines.pop(made.fileno(), None)
                made.close()
                self._note(str(name[0]), f"unexpected {type(error).__name__}")

    def _admit(self, made: socket.socket, address: str, port: int) -> None:
        why = ""
        if address not in self._hosts:
            why = "it is no worker of the gang"
        elif self._only_root and port >= ROOTS_PORTS:
            why = "it has no port of root's"
        elif sum(line.address == address for line in self._lines.values()) >= _CONNECTIONS:
            why = "it has too many connections"
        if why:
            made.close()
            self._note(address, why)
            return
        made.setblocking(False)
        line = _Line(made, address, port, os.urandom(16), time.monotonic())
        line.going += _HELLO.pack(_GREETING, line.challenge)
        self._lines[made.fileno()] = line
        self._selector.register(made, selectors.EVENT_READ, line)
        self._flush(line)

    def _drop(self, line: _Line) -> None:
        if self._lines.pop(line.socket.fileno(), None) is not None:
            self._selector.unregister(line.socket)
            line.socket.close()

    def _go_on(self, line: _Line, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                data = line.socket.recv(65536)
                if not data:
                    self._drop(line)
                    return
                line.begun = line.begun or time.monotonic()
                line.coming += data
                self._read(line)
            self._flush(line)
        except Refused as refused:
            self._note(line.address, str(refused))
            self._drop(line)
        except BlockingIOError:
            return
        except OSError:
            self._drop(line)
        except _UNEXPECTED as error:
            self._note(line.address, f"unexpected {type(error).__name__}")
            self._drop(line)

    def _flush(self, line: _Line) -> None:
        if line.socket.fileno() not in self._lines:
            return
        try:
            while line.going:
                del line.going[: line.socket.send(line.going)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(line)
            return
        more = selectors.EVENT_WRITE if line.going else 0
        self._selector.modify(line.socket, selectors.EVENT_READ | more, line)

    def _read(self, line: _Line) -> None:
        while len(line.coming) >= _HEAD.size:
            head = _HEAD.unpack_from(line.coming)
            kind, length = head[0], head[6]
            if kind not in (_TELL, _ASK_KEY):
                raise Refused("it speaks something else")
            if length > messages.MOST_BYTES:
                raise Refused("its message is too long")
            if len(line.coming) < _HEAD.size + length:
                return
            body = bytes(line.coming[_HEAD.size : _HEAD.size + length])
            del line.coming[: _HEAD.size + length]
            line.begun = time.monotonic() if line.coming else None
            if kind == _ASK_KEY:
                self._hand_out(line, head[1])
            else:
                self._hear(line, head, body)
            line.heard = time.monotonic()
        if len(line.coming) > 0 and line.coming[:2] != _TELL[:2]:
            raise Refused("it speaks something else")

    def _is_of(self, line: _Line, worker: int) -> None:
        if not 0 < worker < len(self._hosts):
            raise Refused("it speaks for a worker that there is not")
        if self._hosts[worker] != line.address:
            raise Refused("it speaks for a worker that has another address")

    def _hear(
        self, line: _Line, head: Tuple[bytes, int, int, bytes, bytes, bytes, int], body: bytes
    ) -> None:
        _kind, worker, number, name, nonce, sign, _length = head
        self._is_of(line, worker)
        key = self._keys.find(name)
        if key is None:
            raise Refused("it has another key, or none")
        data = _signed(line.challenge, nonce, number, body)
        if not _same(keys.signature(key, _context(self._run, "report", worker), data), sign):
            raise Refused("its signature is wrong")
        if number != line.number + 1:
            raise Refused("it repeats itself")
        line.number = number
        report = messages.read_report(body)
        if report.worker != worker:
            raise Refused("its report is another worker's")
        if report.elsewhere or report.floor or report.run_id:
            raise Refused("it says what only worker 0 looks at")
        self._is_up_to_date(worker, key)
        told = messages.write(self._answer(report))
        data = _signed(line.challenge, nonce, number, told)
        sign = keys.signature(key, _context(self._run, "order", worker), data)
        line.going += _pack(_TELL, worker, number, key, nonce, sign, told)

    def _is_up_to_date(self, worker: int, key: str) -> None:
        self._current[worker] = key == self._keys.current
        if self._keys.previous and sum(self._current.values()) == len(self._hosts) - 1:
            self._keys.forget_previous()

    def _hand_out(self, line: _Line, worker: int) -> None:
        self._is_of(line, worker)
        if not self._hands_out or not self._only_root or not self._keys.made_here:
            raise Refused("it has no key, and the controller has to give it one")
        line.going += _pack(
            _KEY, worker, 0, "", bytes(16), _UNSIGNED, self._keys.current.encode("ascii")
        )


def _same(one: bytes, other: bytes) -> bool:
    return keys.hmac.compare_digest(one, other)


class Client:
    """A worker's side: one connection, which is opened again whenever it breaks."""

    def __init__(
        self, run: str, worker: int, port: int, hosts: Sequence[str], own_keys: keys.Keys
    ) -> None:
        self.problem = ""
        self._run, self._worker, self._port, self._hosts = run, worker, port, list(hosts)
        self._keys = own_keys
        self._tries = 0
        self._socket: Optional[socket.socket] = None
        self._challenge = self._nonce = b""
        self._number = 0

    def exchange(self, report: Report) -> Optional[Order]:
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

    def _source_ports(self) -> List[int]:
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

    def _answer(self, kind: bytes, deadline: float) -> Tuple[int, bytes, bytes]:
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

    def _tell(self, body: bytes, deadline: float) -> Order:
        known = self._keys.all
        if not known:
            raise Refused("no key of the gang is here; apply the fleet file")
        key = known[self._tries % len(known)]
        self._number += 1
        data = _signed(self._challenge, self._nonce, self._number, body)
        sign = keys.signature(key, _context(self._run, "report", self._worker), data)
        packed = _pack(_TELL, self._worker, self._number, key, self._nonce, sign, body)
        self._send(packed, deadline)
        number, sign, told = self._answer(_TELL, deadline)
        data = _signed(self._challenge, self._nonce, self._number, told)
        own = keys.signature(key, _context(self._run, "order", self._worker), data)
        if number != self._number or not _same(own, sign):
            raise Refused("its signature is wrong")
        order = messages.read_order(told)
        if key == self._keys.current:
            self._keys.forget_previous()
        return order

    def _ask_for_key(self, deadline: float) -> None:
        if self._port >= ROOTS_PORTS:
            raise Refused("no key of the gang is here; apply the fleet file")
        asked = _pack(_ASK_KEY, self._worker, 0, "", bytes(16), _UNSIGNED, b"")
        self._send(asked, deadline)
        key = self._answer(_KEY, deadline)[2].decode("ascii", "replace")
        if not keys.is_key(key):
            raise Refused("what it says is no key")
        self._keys.learn(key)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise OSError("no answer in time")
    return left
