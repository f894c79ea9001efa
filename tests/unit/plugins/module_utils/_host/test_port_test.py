"""Whether packets reach a port: an open one, a closed one, and one that a firewall drops."""

from __future__ import annotations

import errno
import json
import socket
import time
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import port_test
from ansible_collections.tpu.fleet.plugins.module_utils._host.worker_ports import Target, rows
from ports import deaf_port, free_port


def test_what_each_port_shows() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, deaf_port() as deaf:
        here, closed = server.getsockname()[1], free_port()
        wanted = [Target(n, "127.0.0.1", port) for n, port in enumerate((here, closed, deaf))]
        wanted.append(Target(3, "255.255.255.255", 1))
        begun = time.monotonic()
        found = port_test.tried(wanted, 0.3)
        assert time.monotonic() - begun < 2
    assert rows(found) == [
        {"worker": 0, "port": here, "result": "open"},
        {"worker": 1, "port": closed, "result": "refused"},
        {"worker": 2, "port": deaf, "result": "timeout"},
        {"worker": 3, "port": 1, "result": "no route"},
    ]
    assert [one.blocked for one in found] == [False, False, True, True]


def test_a_look_returns_at_once() -> None:
    with deaf_port() as deaf:
        test = port_test.PortTest([Target(0, "127.0.0.1", deaf)], 60)
        begun = time.monotonic()
        assert test.look() is None
        assert time.monotonic() - begun < 1
        test.close()
    assert port_test.tried([]) == []


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (0, "open"),
        (errno.ECONNREFUSED, "refused"),
        (errno.ECONNRESET, "refused"),
        (errno.ETIMEDOUT, "timeout"),
        (errno.EHOSTUNREACH, "no route"),
        (errno.EACCES, "no route"),
    ],
)
def test_what_an_error_shows(code: int, result: str) -> None:
    assert port_test.result_of(code) == result


def test_a_name_is_not_tried() -> None:
    assert port_test.tried([Target(1, "localhost", 1)], 0.2) == []


def test_the_frameworks_of_a_venv_are_those_that_were_recorded(tmp_path: Path) -> None:
    packages = {"jax": "0.10.2", "torch-xla": "2.9.0", "numpy": "2.0"}
    record = {"path": "/opt/venvs/a", "packages": packages}
    (tmp_path / "a.json").write_text(json.dumps(record))
    (tmp_path / "b.json").write_text("{")
    assert port_test.versions_of("/opt/venvs/a", tmp_path) == {
        "jax": "0.10.2",
        "torch_xla": "2.9.0",
    }
    assert port_test.versions_of("/opt/venvs/b", tmp_path) == {}
    assert port_test.versions_of("", tmp_path) == {}


def test_a_run_is_tested_by_its_definition(tmp_path: Path) -> None:
    with deaf_port("127.0.0.2") as deaf, socket.create_server(("127.0.0.2", 0)) as gang:
        definition = {
            "hosts": ["127.0.0.2", "127.0.0.3"],
            "worker": 1,
            "peer_port": gang.getsockname()[1],
            "coordinator_port": deaf,
        }
        found = port_test.tried(port_test.targets_of(definition, {}, False, tmp_path), 0.3)
    assert sorted((one.worker, one.result) for one in found) == [(0, "open"), (0, "timeout")]
    assert port_test.targets_of({}, {}, False, tmp_path) == []
