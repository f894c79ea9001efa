"""The process that listens on the port of a service, as the worker names it."""

from __future__ import annotations

import json
import os
import socket
import subprocess

import pytest

from tpu_fleet.on_worker import service_port
from tpu_fleet.on_worker.listeners import Listener, name_of
from tpu_fleet.workers.ask.worker_program import port_command

V4, V6, OUTSIDE, ANY = "0100007F", "00000000000000000000000001000000", "0200000A", "00000000"
BOB, ALICE = 2002, 2001


@pytest.mark.parametrize(
    ("found", "systemd", "listens", "stranger"),
    [
        ([], True, False, False),
        ([(V4, 0), (V6, 0)], True, True, False),
        # A socket of root that is not the unit's: its first user may have kept it.
        ([(V4, 0)], False, True, True),
        # The program itself, as of Ray or of an earlier version.
        ([(V4, BOB)], False, True, False),
        ([(V4, ALICE)], True, True, True),
        ([(ANY, ALICE)], True, True, True),
        # A client may choose the address of IPv6.
        ([(V4, 0), (V6, ALICE)], True, True, True),
        # Nobody is led there.
        ([(OUTSIDE, ALICE)], True, False, False),
    ],
)
def test_a_stranger_is_found(
    found: list[tuple[str, int]],
    systemd: bool,
    listens: bool,
    stranger: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service_port, "held_by_systemd", lambda name: systemd)
    there = [Listener(address, 8888, "no such inode", uid) for address, uid in found]
    told = service_port.told("notebook-bob", there, BOB)
    assert (told["listens"], bool(told["stranger"])) == (listens, stranger)


def test_a_user_who_is_not_there_has_no_process() -> None:
    assert service_port.uid_of("no-such-user") is None
    told = service_port.told("notebook-bob", [Listener(V4, 8888, "1", ALICE)], None)
    assert told["stranger"]


def test_a_worker_runs_it() -> None:
    def told(user: str) -> dict[str, object]:
        command = ["/bin/sh", "-c", port_command("notebook-bob", port, user)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return dict(json.loads(done.stdout))

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert told(name_of(os.getuid())) == {"listens": True, "stranger": ""}
        assert f"process {os.getpid()} (" in str(told("nobody")["stranger"])
    assert told("nobody") == {"listens": False, "stranger": ""}
