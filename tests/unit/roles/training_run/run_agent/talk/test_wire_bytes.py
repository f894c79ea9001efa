"""The bytes between the agents of a gang: agents of two versions meet while a gang is upgraded.

A worker's client and the leader's server talk through a relay, which records them. What it recorded
is in wire_bytes.json. Where a change is meant, and agents of the version before understand it, run
this file as root as a program: it writes the file again.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import socket
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

import pytest
from ports import free_port
from run_agent.decide.gang_state import GATHERING, RUNNING, Report
from run_agent.decide.member import Order
from run_agent.talk import keys, messages, wire
from run_agent.talk.refusals import Refusals

GOLDEN = Path(__file__).with_name("wire_bytes.json")
LEADER, WORKER, RELAY = "127.0.0.2", "127.0.0.3", "127.0.0.5"
KEY, OLDER_KEY = "ab" * 32, "cd" * 32
HEAD = 74
SHORT = Report(1, "5f0c", "d1")
LONG = Report(
    1, "5f0c", "d1",
    last_started=10**9, program="exited", exit_code=-(2**31), signal=128, cause="hung",
    blocked="Grüße, \N{PILE OF POO}, \x1b[2J\n\udc80, " + "x" * 5000, leaving=True,
    sent=1e9 + 0.125,
    heard="owner running 3 yields", quiet=1e-7, tail=["one", "two\t"] * 12,
    builds={"code": "a1", "venv": "b2" * 400}, checkpoint="préemption",
    queue={"behind": "other", "user": "bob", "since": 1700000000.5}, no_turn=True,
)  # fmt: skip
ORDER = Order(GATHERING, 0, "d1", "demo-1")
LONG_ORDER = Order(
    RUNNING, 10**9, "d1", "demo-1",
    reason="exit code 1 on worker 3", waiting="w" * 17000, token="owner running 3", hung=600.0,
    checkpoint="préemption", queue={"behind": "other", "user": "bob", "since": 0}, yields=True,
    stuck=True, saved_at=1700000000.25,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What worker and leader have, what the worker reports, and what the leader answers."""

    reports: tuple[Report, ...] = (SHORT,)
    orders: tuple[Order | None, ...] = (ORDER,)
    """None where the exchange fails."""
    worker_keys: tuple[str, str] = (KEY, "")
    leader_keys: tuple[str, str] = (KEY, "")
    key_made_here: bool = False
    only_root: bool = False


CASES = {
    "short and long messages": Case((SHORT, LONG, SHORT), (ORDER, LONG_ORDER, ORDER)),
    "the worker has a newer key": Case(
        (SHORT, SHORT, LONG), (None, ORDER, LONG_ORDER), worker_keys=(KEY, OLDER_KEY),
        leader_keys=(OLDER_KEY, ""),
    ),
    "the leader has a newer key": Case(
        worker_keys=(OLDER_KEY, ""), leader_keys=(KEY, OLDER_KEY)
    ),
    "the leader gives its key": Case(
        (SHORT, LONG), (ORDER, ORDER), worker_keys=("", ""), key_made_here=True, only_root=True
    ),
}  # fmt: skip
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def bound_to_roots_port(address: str) -> socket.socket:
    """Return a socket at a port that only root can take."""
    for port in range(330, 400):
        made = socket.socket()
        try:
            made.bind((address, port))
        except OSError:
            made.close()
            continue
        return made
    raise AssertionError("no port of root's is free")


class Relay:
    """Passes on what a worker and the leader send each other, and records it by connection."""

    def __init__(self, port: int) -> None:
        self.recorded: list[list[tuple[str, bytes]]] = []
        self._port = port
        self._socket = socket.create_server((RELAY, port))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                worker, _name = self._socket.accept()
                with worker, self._from_worker() as leader:
                    leader.connect((LEADER, self._port))
                    self._pass_on({"worker": worker, "leader": leader})

    def _from_worker(self) -> socket.socket:
        if self._port < wire.ROOTS_PORTS:
            return bound_to_roots_port(WORKER)
        made = socket.socket()
        made.bind((WORKER, 0))
        return made

    def _pass_on(self, sides: dict[str, socket.socket]) -> None:
        said: list[tuple[str, bytes]] = []
        self.recorded.append(said)
        others = {"worker": sides["leader"], "leader": sides["worker"]}
        with contextlib.suppress(ConnectionError):
            while True:
                ready, _, _ = select.select(list(sides.values()), [], [])
                for name in [name for name, side in sides.items() if side in ready]:
                    data = sides[name].recv(65536)
                    if not data:
                        return
                    before = said.pop()[1] if said and said[-1][0] == name else b""
                    said.append((name, before + data))
                    others[name].sendall(data)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(30)


def kept(folder: Path, name: str, have: tuple[str, str], made_here: bool = False) -> keys.Keys:
    path = folder / f"{name}.json"
    data = {"current": have[0], "previous": have[1], "made_here": made_here}
    path.write_text(json.dumps(data))
    return keys.Keys("", path)


def exchanged(case: Case, folder: Path) -> tuple[list[Report], list[Order | None], Relay]:
    """Let a worker and the leader talk; return what each of them understood."""
    count = itertools.count(1)
    reports: list[Report] = []
    answers = iter([order for order in case.orders if order is not None])

    def answer(report: Report) -> Order:
        reports.append(report)
        return next(answers)

    if case.only_root:
        with bound_to_roots_port(LEADER) as probe:
            port = int(probe.getsockname()[1])
    else:
        port = free_port(LEADER)
    leader_keys = kept(folder, "leader", case.leader_keys, case.key_made_here)
    worker_keys = kept(folder, "worker", case.worker_keys)
    with mock.patch.object(os, "urandom", lambda size: bytes([next(count)]) * size):
        server = wire.Server(
            "demo", port, [LEADER, WORKER, "127.0.0.4"], leader_keys, messages.GANG, answer,
            Refusals().note,
            hands_out=case.key_made_here,
        )  # fmt: skip
        relay = Relay(port)
        client = wire.Client(
            "demo", 1, port, [RELAY, WORKER, "127.0.0.4"], worker_keys, messages.GANG
        )
        try:
            orders = [client.exchange(report) for report in case.reports]
        finally:
            client.close()
            relay.close()
            server.close()
    return reports, orders, relay


def written(relay: Relay) -> list[list[list[str]]]:
    """Return the bytes as the golden file has them: who sends them, the head, and the text."""
    return [
        [[who, data[:HEAD].hex(), data[HEAD:].decode()] for who, data in said]
        for said in relay.recorded
    ]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=needs_root if CASES[name].only_root else ()) for name in CASES],
)
def test_the_bytes_are_those_of_the_versions_before(name: str, tmp_path: Path) -> None:
    reports, orders, relay = exchanged(CASES[name], tmp_path)
    assert written(relay) == json.loads(GOLDEN.read_text())[name]
    # Both sides understood each other, except where one has a key that the other has not yet.
    assert [order is not None for order in orders] == [o is not None for o in CASES[name].orders]
    assert len(reports) == sum(order is not None for order in orders)
    assert SHORT in reports
    assert ORDER in orders


def test_every_recorded_conversation_has_its_case() -> None:
    assert set(json.loads(GOLDEN.read_text())) == set(CASES)


def test_what_a_later_version_adds_is_passed_over() -> None:
    for message, read in ((SHORT, messages.read_report), (ORDER, messages.read_order)):
        later = {**asdict(message), "temperature": [1], "an_object": {"a": None}}
        assert read(json.dumps(later).encode()) == message


def test_what_an_earlier_version_leaves_out_has_its_default() -> None:
    report = {"worker": 1, "boot_id": "5f0c", "definition": "d1"}
    order = {"phase": GATHERING, "attempt": 0, "definition": "d1", "run_id": "demo-1"}
    assert messages.read_report(json.dumps(report).encode()) == SHORT
    assert messages.read_order(json.dumps(order).encode()) == ORDER


def main() -> None:
    """Write the golden file."""
    found = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = written(exchanged(case, Path(folder))[2])
    GOLDEN.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
