"""Free ports for the servers and clouds of tests, so any tests run side by side."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator

# Below the ports that systems give to outgoing connections, which could take one while its cloud is
# down; a random one, because two stages may look at the same moment.
RANGE = range(20000, 30000)


def free_port(*addresses: str) -> int:
    """Return a TCP port that is free at all these addresses, or at 127.0.0.1."""
    for _try in range(100):
        port = random.SystemRandom().choice(RANGE)
        try:
            with contextlib.ExitStack() as held:
                for address in addresses or ("127.0.0.1",):
                    held.enter_context(socket.socket()).bind((address, port))
        except OSError:
            continue
        return port
    raise RuntimeError(f"no port is free at {', '.join(addresses)}")


@contextlib.contextmanager
def deaf_port(address: str = "127.0.0.1") -> Iterator[int]:
    """Give a port whose packets the kernel drops, as a firewall does: its queue is full."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind((address, 0))
        server.listen(0)
        for _ in range(3):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        yield server.getsockname()[1]
