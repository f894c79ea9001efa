"""Ports for clouds of tests: each cloud takes one of its own, so any tests run side by side."""

from __future__ import annotations

import random
import socket

# Below the ports that systems give to outgoing connections, which could take one while its cloud is
# down; a random one, because two stages may look at the same moment.
RANGE = range(20000, 30000)


def free_port(address: str = "127.0.0.1") -> int:
    """Return a TCP port that is free at an address."""
    while True:
        port = random.SystemRandom().choice(RANGE)
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
