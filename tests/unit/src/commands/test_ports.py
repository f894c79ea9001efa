"""Ports of this computer."""

from __future__ import annotations

import socket

from tpu_fleet.commands.ports import free, free_port


def test_another_port_where_somebody_has_the_wanted_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert free(port) == 0
        assert free_port(port) not in (0, port)
    assert free(port) == free_port(port) == port
