"""The speakers in a gang: its workers for themselves, and no other, once."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from run_agent.decide import config
from run_agent.decide.gang_state import GATHERING, RUNNING, Report
from run_agent.decide.member import Order
from run_agent.talk import keys, messages, wire
from run_agent.talk.leader import Leader
from run_agent.talk.refusals import Refusals
from run_definition import USUAL

HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
KEY, OTHER_KEY = "ab" * 32, "cd" * 32
SEED = int(os.environ.get("TPU_FLEET_PEERS_SEED", "7"))
HEAD = struct.Struct("!4sHQ8s16s32sI")


class Gang:
    """A leader that listens, and what its workers would say."""

    def __init__(self, folder: Path, key: str = KEY, port: int = 0) -> None:
        self.folder = folder
        self.port = port or free_port(HOSTS[0])
        self.leader = Leader(self.config(0))
        self.refusals = Refusals()
        self.keys = keys.Keys(key, folder / "key0.json")
        self.clients: list[wire.Client[Report, Order]] = []
        self.server: wire.Server[Report, Order] | None = None
        self.listen()

    def listen(self, hands_out: bool = False) -> None:
        self.close()
        answer, note = self.leader.exchange, self.refusals.note
        self.server = wire.Server(
            "demo", self.port, HOSTS, self.keys, messages.GANG, answer, note, hands_out=hands_out
        )

    def close(self) -> None:
        if self.server is not None:
            self.server.close()

    def config(self, worker: int) -> config.Config:
        paths = {name: str(self.folder / name) for name in ("state", "runtime", "log")}
        public: dict[str, Any] = {
            **USUAL,
            "run": "demo", "user": "alice", "command": "true", "workdir": "/", "hosts": HOSTS,
            "worker": worker, "port": 1, "peer_port": self.port, "coordinator_port": 2,
            "paths": paths, "timing": {"restart_delay": 0.0, "lost": 600.0},
        }  # fmt: skip
        return config.parse(public, {})

    def report(self, worker: int, **more: Any) -> Report:
        made = Report(worker, f"boot{worker}", self.leader.config.definition, sent=time.monotonic())
        return replace(made, heard=self.leader.gang.token, **more)

    def client(self, worker: int, key: str = KEY, run: str = "demo") -> wire.Client[Report, Order]:
        own = keys.Keys(key, self.folder / f"key{worker}-{len(self.clients)}.json")
        made = wire.Client(run, worker, self.port, HOSTS, own, messages.GANG)
        self.clients.append(made)
        return made

    def until_running(self) -> int:
        """Bring the gang to its next attempt; return the number."""
        clients = {worker: self.client(worker) for worker in (1, 2)}
        deadline = time.monotonic() + 60
        while self.leader.gang.phase != RUNNING and time.monotonic() < deadline:
            self.leader.exchange(self.report(0))
            for worker, client in clients.items():
                client.exchange(self.report(worker))
        assert self.leader.gang.phase == RUNNING
        return self.leader.gang.attempt

    def refused(self, why: str) -> bool:
        """Wait until something was refused for a reason."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(why in text for text in self.refusals.shown()):
                return True
            time.sleep(0.02)
        raise AssertionError((why, self.refusals.shown()))


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Gang]:
    made = Gang(tmp_path)
    yield made
    for client in made.clients:
        client.close()
    made.close()


def test_an_order_says_whether_worker_0_reads_the_fence(gang: Gang) -> None:
    number = gang.until_running()
    at_work = {"program": "running", "last_started": number}
    assert gang.leader.exchange(gang.report(0, **at_work)).guards
    order = gang.client(1).exchange(gang.report(1, **at_work))
    assert order is not None
    assert order.guards
    # Its program is over, and with it what stood beside that; ours may go on for long.
    gang.leader.exchange(gang.report(0, program="exited", exit_code=0, last_started=number))
    assert not gang.leader.exchange(gang.report(1, **at_work)).guards


def connected(gang: Gang, worker: int = 1) -> tuple[socket.socket, bytes]:
    """Connect from a worker's address, as every process there can; return the challenge."""
    made = socket.create_connection((HOSTS[0], gang.port), 30, (HOSTS[worker], 0))
    made.settimeout(30)
    hello = made.recv(20, socket.MSG_WAITALL)
    return made, hello[4:]


def packed(
    challenge: bytes, body: bytes, worker: int = 1, number: int = 1, key: str = KEY, says: int = 0
) -> bytes:
    nonce = bytes(16)
    data = challenge + nonce + struct.pack("!Q", number) + body
    sign = keys.signature(key, f"demo\0report\0{worker}".encode(), data)
    name = keys.name_of(key)
    return HEAD.pack(b"TFM1", worker, number, name, nonce, sign, says or len(body)) + body


def is_closed(line: socket.socket) -> bool:
    """Wait until the other side has ended a connection without an answer."""
    with line:
        try:
            return line.recv(1) == b""
        except ConnectionResetError:
            return True


def forged(gang: Gang, **more: Any) -> bytes:
    """Return what a process without the key says in the name of worker 1."""
    made = asdict(gang.report(1))
    return json.dumps({**made, **more}).encode()


FORGERIES: dict[str, dict[str, Any]] = {
    # Idle and aware, after all that the true worker will ever say.
    "idle": {"program": "exited", "exit_code": 1, "sent": 1e9, "last_started": 1},
    "elsewhere": {"elsewhere": "whatever"},
    "half a worker": {"worker": 0.5},
    "a number as text": {"last_started": "1"},
    "for ever": {"sent": 1e300},
}


@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("key", ["none", "another"])
def test_who_has_not_the_key_is_refused_and_noted(gang: Gang, name: str, key: str) -> None:
    attempt = gang.until_running()
    before = gang.leader.gang
    line, challenge = connected(gang)
    body = forged(gang, **FORGERIES[name])
    said = packed(challenge, body, key=OTHER_KEY)
    if key == "none":  # the right key's name, which goes over the wire, and no signature
        head = HEAD.pack(b"TFM1", 1, 1, keys.name_of(KEY), bytes(16), bytes(32), len(body))
        said = head + body
    line.sendall(said)
    assert is_closed(line)
    assert gang.refused("its signature is wrong" if key == "none" else "it has another key")
    # What the true workers say still counts, and nothing else happened.
    assert gang.leader.gang == before
    order = gang.client(1).exchange(gang.report(1, program="running", last_started=attempt))
    assert order is not None
    assert (order.phase, order.attempt) == (RUNNING, attempt)
    assert gang.leader.exchange(gang.report(0, program="running", last_started=attempt))


def test_no_attempt_begins_while_a_worker_says_that_one_is_alive_whatever_is_forged(
    gang: Gang,
) -> None:
    attempt = gang.until_running()
    true, alive = gang.client(1), {"program": "running", "last_started": attempt}
    crashed = {"program": "exited", "exit_code": 1, "last_started": attempt}
    assert true.exchange(gang.report(1, **alive)) is not None
    gang.client(2).exchange(gang.report(2, **crashed))
    gang.leader.exchange(gang.report(0, **crashed))
    for phase in ("stopping", "gathering"):
        line, challenge = connected(gang)
        heard = f"{gang.leader.gang.owner} {phase} {attempt}"
        body = forged(gang, sent=1e9, heard=heard, **crashed)
        line.sendall(packed(challenge, body, key=OTHER_KEY))
        assert is_closed(line)
        for _ in range(3):
            gang.leader.exchange(gang.report(0, **crashed))
            true.exchange(gang.report(1, **alive))
    assert gang.leader.gang.attempt == attempt
    assert gang.leader.gang.phase == "stopping"
    assert gang.refused("it has another key")


def test_what_was_said_once_cannot_be_said_again(gang: Gang) -> None:
    gang.until_running()
    line, challenge = connected(gang)
    said = packed(challenge, messages.write(gang.report(1)))
    line.sendall(said)
    assert line.recv(HEAD.size, socket.MSG_WAITALL)[:4] == b"TFM1"
    # The same in this connection, and in another one.
    line.sendall(said)
    while line.recv(4096):
        pass
    assert gang.refused("it repeats itself")
    other, _challenge = connected(gang)
    other.sendall(said)
    assert is_closed(other)
    assert gang.refused("its signature is wrong")
    line.close()


@pytest.mark.parametrize(
    ("worker", "signs_as", "says", "why"),
    [
        (1, 2, 2, "it speaks for a worker that has another address"),
        (1, 0, 0, "it speaks for a worker that there is not"),
        (1, 9, 9, "it speaks for a worker that there is not"),
        (1, 1, 2, "its report is another worker's"),
    ],
)
def test_a_worker_speaks_for_itself_only(
    gang: Gang, worker: int, signs_as: int, says: int, why: str
) -> None:
    gang.until_running()
    line, challenge = connected(gang, worker)
    body = messages.write(gang.report(says))
    line.sendall(packed(challenge, body, worker=signs_as))
    assert is_closed(line)
    assert gang.refused(why)


@pytest.mark.parametrize("more", [{"elsewhere": "x"}, {"floor": 9}, {"run_id": "x"}])
def test_what_only_worker_0_looks_at_is_believed_of_nobody_else(
    gang: Gang, more: dict[str, Any]
) -> None:
    assert gang.client(1).exchange(gang.report(1, **more)) is None
    assert gang.refused("it says what only worker 0 looks at")
    assert (gang.leader.gang.phase, gang.leader.gang.attempt) == (GATHERING, 0)


def test_who_is_no_worker_is_not_listened_to(gang: Gang) -> None:
    line = socket.create_connection((HOSTS[0], gang.port), 30, ("127.0.0.9", 0))
    assert is_closed(line)
    assert gang.refused("127.0.0.9 was refused: it is no worker of the gang")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"POST /heartbeat HTTP/1.1\r\nContent-Length: -1\r\n\r\n{}", "something else"),
        (b"GE", "something else"),
        (b"\0" * 200, "something else"),
        (b"TFX1" + bytes(70), "something else"),
        (HEAD.pack(b"TFM1", 1, 1, bytes(8), bytes(16), bytes(32), 2**32 - 1), "too long"),
        (
            HEAD.pack(b"TFM1", 1, 1, bytes(8), bytes(16), bytes(32), messages.MOST_BYTES + 1),
            "too long",
        ),
        (HEAD.pack(b"TFK1", 1, 1, bytes(8), bytes(16), bytes(32), 0), "has to give it one"),
    ],
)
def test_what_is_no_message_is_refused_and_the_others_are_heard(
    gang: Gang, said: bytes, why: str
) -> None:
    line, _challenge = connected(gang)
    line.sendall(said)
    assert is_closed(line)
    assert gang.refused(why)
    assert gang.client(1).exchange(gang.report(1)) is not None


def test_messages_may_come_in_parts_and_several_at_once(gang: Gang) -> None:
    line, challenge = connected(gang)
    body = messages.write(gang.report(1))
    said = b"".join(packed(challenge, body, number=number) for number in (1, 2, 3))
    whole = HEAD.size + len(body)
    for part in (said[:2], said[2:90], said[90 : whole + 40], said[whole + 40 :]):
        line.sendall(part)
        time.sleep(0.05)
    for number in (1, 2, 3):
        head = HEAD.unpack(line.recv(HEAD.size, socket.MSG_WAITALL))
        assert (head[0], head[2]) == (b"TFM1", number)
        assert messages.read_order(line.recv(head[6], socket.MSG_WAITALL)).phase == GATHERING
    line.close()


def test_a_message_that_comes_byte_by_byte_is_not_awaited(
    gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, challenge = connected(gang)
    said = packed(challenge, messages.write(gang.report(1)))
    with line, monkeypatch.context() as patch:
        patch.setattr(wire, "_TIMEOUT", 0.5)
        line.sendall(said[:100])
        more = iter(range(100, len(said)))
        with contextlib.suppress(ConnectionError):
            for at in more:
                line.sendall(said[at : at + 1])
                time.sleep(0.05)
    assert list(more)  # the rest, which cannot be sent any more
    assert exchanges(gang, gang.client(2))


def test_who_reads_no_answers_holds_nobody_and_is_dropped(
    gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, write = Order(GATHERING, 0, "def", "id", waiting="x" * 16000), messages.write
    told = write(order)
    monkeypatch.setattr(messages, "write", lambda one: told if one is order else write(one))
    monkeypatch.setattr(gang.leader, "exchange", lambda _report: order)
    gang.listen()
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.bind((HOSTS[1], 0))
        line.connect((HOSTS[0], gang.port))
        challenge = line.recv(20, socket.MSG_WAITALL)[4:]
        body = messages.write(gang.report(1))
        line.setblocking(False)
        with contextlib.suppress(OSError):
            for number in range(1, 150):
                line.send(packed(challenge, body, number=number))
        assert exchanges(gang, gang.client(2))
        deadline = time.monotonic() + 60
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < deadline:
                with contextlib.suppress(BlockingIOError):
                    line.send(b"TF")
                time.sleep(0.1)
        assert time.monotonic() < deadline


def test_who_says_nothing_is_dropped_and_has_few_connections(
    gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "_IDLE", 0.5)
    monkeypatch.setattr(wire, "_TIMEOUT", 0.5)
    silent = [connected(gang)[0] for _ in range(wire._CONNECTIONS)]
    silent[0].sendall(b"TFM1")  # half a message
    more = socket.create_connection((HOSTS[0], gang.port), 30, (HOSTS[1], 0))
    assert is_closed(more)
    assert gang.refused("it has too many connections")
    assert all(is_closed(line) for line in silent)


def test_another_run_has_other_signatures(gang: Gang) -> None:
    assert gang.client(1, run="other").exchange(gang.report(1)) is None
    assert gang.refused("its signature is wrong")


@pytest.mark.parametrize("signs", [OTHER_KEY, "nothing"])
def test_a_worker_believes_nobody_else_on_the_leaders_port(tmp_path: Path, signs: str) -> None:
    port = free_port(HOSTS[0])
    order = messages.write(Order(RUNNING, 9, "def", "id"))
    with socket.create_server((HOSTS[0], port)) as listening:
        client = wire.Client(
            "demo", 1, port, HOSTS, keys.Keys(KEY, tmp_path / "key"), messages.GANG
        )

        def answer() -> None:
            line, _name = listening.accept()
            with line:
                challenge = bytes(16)
                line.sendall(b"TFG1" + challenge)
                head = HEAD.unpack(line.recv(HEAD.size, socket.MSG_WAITALL))
                line.recv(head[6], socket.MSG_WAITALL)
                sign = bytes(32)
                if signs != "nothing":
                    data = challenge + head[4] + struct.pack("!Q", head[2]) + order
                    sign = keys.signature(signs, b"demo\0order\x001", data)
                line.sendall(
                    HEAD.pack(b"TFM1", 1, head[2], head[3], head[4], sign, len(order)) + order
                )

        thread = threading.Thread(target=answer)
        thread.start()
        assert client.exchange(Report(1, "boot", "def")) is None
        assert client.problem == "worker 0: its signature is wrong"
        thread.join(30)


def mutated(random_: random.Random, value: Any) -> Any:
    odd = [
        None, True, -1, 0.5, 2**70, -(2**70), float("nan"), float("inf"), 1e300, "", "x" * 9000,
        "\n\x1b[2J", "\udc80", [], ["x" * 600], [1], {}, {"behind": 1}, [[]] * 3, "running",
    ]  # fmt: skip
    return random_.choice([item for item in odd if item is not value])


def test_no_odd_field_comes_through(gang: Gang) -> None:
    print(f"note: seed {SEED}")
    random_ = random.Random(SEED)  # noqa: S311 - a test that can be repeated
    before = {GATHERING, RUNNING, "stopping"}
    client = gang.client(1)
    for number in range(400):
        name = random_.choice(sorted(messages.REPORT))
        data = asdict(gang.report(1))
        data[name] = mutated(random_, data[name])
        body = json.dumps(data).encode()
        try:
            report = messages.read_report(body)
        except messages.Refused:
            continue
        # What is taken is of the right kind: no decision trips over it.
        gang.leader.exchange(replace(report, worker=1, elsewhere=""))
        gang.leader.exchange(gang.report(0))
        gang.leader.told()
        gang.leader.peers()
        assert gang.leader.gang.attempt <= messages.MOST_ATTEMPTS + number
        assert gang.leader.gang.phase in before
    assert client.exchange(gang.report(1)) is not None


@pytest.mark.parametrize("body", [b"", b"[" * 100_000, b"[]", b'"x"', b"\xff", b'{"worker": 1}'])
def test_what_is_no_report_is_refused(body: bytes) -> None:
    with pytest.raises(messages.Refused):
        messages.read_report(body)


def test_what_a_worker_says_fits(gang: Gang) -> None:
    long = "\N{PILE OF POO}" * 100_000
    told = gang.report(
        1, blocked=long, elsewhere=long, cause=long, tail=[long] * 99, builds={"c": long}
    )
    body = messages.write(replace(told, blocked=long + "\udc80"))
    assert len(body) <= messages.MOST_BYTES
    assert messages.read_report(body).worker == 1
    order = messages.read_order(messages.write(Order(RUNNING, 1, "d", "r", long, long)))
    assert order.phase == RUNNING


def exchanges(gang: Gang, client: wire.Client[Report, Order], tries: int = 4) -> bool:
    return any(client.exchange(gang.report(client._worker)) is not None for _ in range(tries))


@pytest.mark.parametrize("first", ["leader", "worker"])
def test_a_new_key_disturbs_nobody(gang: Gang, tmp_path: Path, first: str) -> None:
    """The controller made another one: it comes to one of them first."""
    gang.until_running()
    paths = {worker: tmp_path / f"renewed{worker}.json" for worker in (1, 2)}
    for worker, path in paths.items():
        keys.Keys(KEY, path)
        assert worker
    if first == "leader":
        gang.keys = keys.Keys(OTHER_KEY, tmp_path / "key0.json")
        gang.listen()
        old = wire.Client("demo", 1, gang.port, HOSTS, keys.Keys(KEY, paths[1]), messages.GANG)
        assert exchanges(gang, old)
        old.close()
    new = wire.Client("demo", 1, gang.port, HOSTS, keys.Keys(OTHER_KEY, paths[1]), messages.GANG)
    assert exchanges(gang, new)
    if first == "worker":
        gang.keys = keys.Keys(OTHER_KEY, tmp_path / "key0.json")
        gang.listen()
        assert exchanges(gang, new)
    assert gang.keys.previous == KEY  # worker 2 has not the new one yet
    other = wire.Client("demo", 2, gang.port, HOSTS, keys.Keys(OTHER_KEY, paths[2]), messages.GANG)
    assert exchanges(gang, other)
    assert exchanges(gang, new)
    assert (gang.keys.previous, gang.keys.current) == ("", OTHER_KEY)
    assert keys.Keys(OTHER_KEY, tmp_path / "key0.json").all == [OTHER_KEY]
    old = wire.Client(
        "demo", 2, gang.port, HOSTS, keys.Keys(KEY, tmp_path / "old.json"), messages.GANG
    )
    assert not exchanges(gang, old)
    for client in (new, other, old):
        client.close()


def roots_port() -> int:
    for port in range(288, 308):
        with socket.socket() as probe:
            try:
                probe.bind((HOSTS[0], port))
            except OSError:
                continue
            return port
    raise AssertionError("no port of root's is free")


needs_root: Callable[[Any], Any] = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@needs_root
def test_worker_0_tells_its_own_key_to_root_on_the_others_only(tmp_path: Path) -> None:
    gang = Gang(tmp_path, key="", port=roots_port())
    gang.keys.make()
    gang.listen(hands_out=True)
    client = gang.client(1, key="")
    assert exchanges(gang, client)
    assert client._keys.current == gang.keys.current != ""
    # Whoever has no port of root's is not even greeted.
    line = socket.create_connection((HOSTS[0], gang.port), 30, (HOSTS[1], 0))
    assert is_closed(line)
    assert gang.refused("it has no port of root's")
    # A key of the controller's is told to nobody.
    client.close()
    gang.keys = keys.Keys(OTHER_KEY, tmp_path / "key0.json")
    gang.listen(hands_out=True)
    assert not exchanges(gang, gang.client(2, key=""))
    assert gang.refused("the controller has to give it one")
    for one in gang.clients:
        one.close()
    gang.close()


def test_refusals_are_no_flood(capsys: pytest.CaptureFixture[str]) -> None:
    refusals = Refusals()
    for number in range(500):
        refusals.note(f"10.0.0.{number % 100}", "its signature is wrong")
    assert len(refusals.shown()) == 32
    assert len(capsys.readouterr().err.splitlines()) == 32


def test_many_who_come_at_once_are_all_heard(gang: Gang, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the thread is busy they wait; then it takes many in a turn."""
    busy, go_on = threading.Event(), threading.Event()
    turns: list[int] = []

    class Selector(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> Any:
            found = super().select(timeout)
            if found:
                turns.append(len(found))
            return found

    def note(_address: str, _why: str) -> None:
        busy.set()
        go_on.wait(60)

    monkeypatch.setattr(selectors, "DefaultSelector", Selector)
    monkeypatch.setattr(gang.refusals, "note", note)
    gang.listen()
    lines = [socket.create_connection((HOSTS[0], gang.port), 5, ("127.0.0.9", 0))]
    assert busy.wait(30)
    try:
        for _number in range(300):
            lines.append(socket.create_connection((HOSTS[0], gang.port), 5, ("127.0.0.9", 0)))
    finally:
        go_on.set()
        for line in lines:
            line.settimeout(30)
    assert all(is_closed(line) for line in lines)
    assert len(turns) < 60


@pytest.mark.parametrize("error", [OSError(28, "No space left"), RuntimeError("changed size")])
def test_what_cannot_be_noted_ends_no_listening(
    gang: Gang, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def note(_address: str, _why: str) -> None:
        raise error

    monkeypatch.setattr(gang.refusals, "note", note)
    gang.listen()
    assert is_closed(socket.create_connection((HOSTS[0], gang.port), 30, ("127.0.0.9", 0)))
    line, _challenge = connected(gang)
    line.sendall(b"\0" * 200)
    assert is_closed(line)
    assert gang.client(1).exchange(gang.report(1)) is not None


def test_one_who_cannot_be_admitted_disturbs_nobody(
    gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gang.server is not None
    real, failed = gang.server._admit, []

    def admit(address: str, port: int) -> None:
        if not failed:
            failed.append(address)
            raise RuntimeError("dictionary changed size during iteration")
        real(address, port)

    monkeypatch.setattr(gang.server, "_admit", admit)
    assert is_closed(socket.create_connection((HOSTS[0], gang.port), 30, (HOSTS[1], 0)))
    assert gang.refused("unexpected RuntimeError")
    assert gang.client(1).exchange(gang.report(1)) is not None


def test_without_a_free_descriptor_a_worker_is_accepted_later(
    gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failed = socket.socket.accept, []

    def accept(one: socket.socket) -> Any:
        if not failed:
            failed.append(one)
            raise OSError(errno.EMFILE, "Too many open files")
        return real(one)

    monkeypatch.setattr(socket.socket, "accept", accept)
    assert exchanges(gang, gang.client(1))
    assert gang.refused("out of system resource")
