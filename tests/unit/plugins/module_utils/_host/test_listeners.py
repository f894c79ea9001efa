"""The listeners on a port of this machine."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import listeners
from ansible_collections.tpu.fleet.plugins.module_utils._host.listeners import Listener

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout"
V4 = f"""{HEAD}
   0: 0100007F:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  2001        0 111 1
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1
   2: 0100007F:22B8 0100007F:9999 01 00000000:00000000 00:00000000 00000000  2001        0 333 1
"""
V6 = f"""{HEAD}
   0: 00000000000000000000000001000000:22B9 0:0 0A 0:0 0:0 0 2002 0 444 1
   1: 00000000000000000000000000000000:22BA 0:0 0A 0:0 0:0 0 2002 0 555 1
"""


def test_who_listens() -> None:
    found = listeners.listeners([V4, V6, ""])
    assert [(one.port, one.inode, one.uid, one.loopback) for one in found] == [
        (8888, "111", 2001, True),
        (22, "222", 0, False),
        (8889, "444", 2002, True),
        (8890, "555", 2002, False),
    ]
    assert Listener("0200000A", 1, "1", 0).loopback is False


def test_the_process_is_described() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (one,) = listeners.of_port(port)
        assert listeners.holder(one) == os.getpid()
        name = listeners.name_of(os.getuid())
        command = " ".join(Path("/proc/self/cmdline").read_text().split("\0")[:2]).strip()
        told = f"process {os.getpid()} ({command}) of {name}"
        assert listeners.taken(port) == (told, os.getuid())
    assert sys.executable.endswith(command.split()[0].rpartition("/")[2])
    assert listeners.taken(port) is None


def test_a_process_that_is_not_found_is_described_by_its_user(tmp_path: Path) -> None:
    one = Listener("0100007F", 1, "no such inode", os.getuid())
    assert listeners.described(one, tmp_path) == f"a process of {listeners.name_of(os.getuid())}"


def test_open_files_of_a_user_do_not_hold_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "_SECONDS", -1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = listeners.taken(server.getsockname()[1])
    assert told == (f"a process of {listeners.name_of(os.getuid())}", os.getuid())


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_port_that_is_bound_only_is_taken(family: socket.AddressFamily) -> None:
    with socket.socket(family) as bound:
        bound.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        assert listeners.taken(bound.getsockname()[1]) == ("a process that does not listen", None)


def test_closed_connections_of_an_earlier_program_are_no_obstacle() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()
    assert listeners.taken(port) is None
