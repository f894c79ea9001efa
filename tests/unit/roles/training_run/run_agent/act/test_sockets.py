"""The sockets of a machine, as the kernel lists them."""

from __future__ import annotations

import os
import socket

import pytest
from run_agent.act import listeners, sockets

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid inode
   0: 0200000A:A001 0300000A:2122 02 00000005:00000000 01:00000014 00000000  1000        0 77 1 x
   1: 00000000:2122 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 78 1 x
   2: 0000000000000000FFFF00000200000A:A002 0000000000000000FFFF00000300000A:01BB 01 0:0 0 0 0 0 79
   3: broken
"""


def test_rows_of_the_kernels_tables() -> None:
    calls, listens, mapped = sockets.sockets([TABLE])
    assert (calls.said, calls.unsent, calls.inode) == ("10.0.0.3:8482 SYN_SENT", 5, "77")
    assert (listens.said, listens.own_port) == ("listens on port 8482", 8482)
    assert mapped.said == "10.0.0.3:443 ESTABLISHED"


@pytest.mark.parametrize(("address", "family"), [("127.0.0.1", 2), ("::1", 10)])
def test_the_process_of_a_socket_is_found(address: str, family: int) -> None:
    with socket.create_server((address, 0), family=socket.AddressFamily(family)) as server:
        port = server.getsockname()[1]
        there = sockets.sockets(listeners.tables())
        (own,) = [one for one in there if one.own_port == port and one.state == "LISTEN"]
        assert sockets.holders({own.inode}, [os.getpid()]) == {own.inode: os.getpid()}
        assert own.address in ("0.0.0.0", "::")  # noqa: S104 - nothing listens on it here
