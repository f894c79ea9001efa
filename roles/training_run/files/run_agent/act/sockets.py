"""The TCP sockets of this machine, and the processes that have them open."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import listeners
from .kernel_view import PROC

_STATES = {
    "01": "ESTABLISHED", "02": "SYN_SENT", "03": "SYN_RECV", "04": "FIN_WAIT1", "05": "FIN_WAIT2",
    "06": "TIME_WAIT", "07": "CLOSE", "08": "CLOSE_WAIT", "09": "LAST_ACK", "0A": "LISTEN",
    "0B": "CLOSING",
}  # fmt: skip
_MOST_ROWS = 20_000
_SECONDS = 1.5


@dataclass(frozen=True)
class Socket:
    """A socket, by the kernel's table."""

    inode: str
    state: str
    own_port: int
    address: str
    port: int
    unsent: int

    @property
    def said(self) -> str:
        """Where it leads, for people."""
        if self.state == "LISTEN":
            return f"listens on port {self.own_port}"
        shown = f"[{self.address}]" if ":" in self.address else self.address
        return f"{shown}:{self.port} {self.state}"


def sockets(tables: Iterable[str]) -> list[Socket]:
    """Return the sockets in the tables /proc/net/tcp and tcp6."""
    found = []
    for words in listeners.rows(tables)[:_MOST_ROWS]:
        with contextlib.suppress(ValueError, IndexError):
            own, other = words[1].rpartition(":"), words[2].rpartition(":")
            unsent = int(words[4].partition(":")[0], 16)
            state = _STATES.get(words[3], "UNKNOWN")
            address = _address(other[0])
            found.append(
                Socket(words[9], state, int(own[2], 16), address, int(other[2], 16), unsent)
            )
    return found


def _address(text: str) -> str:
    """Read an address, of which each four bytes are turned round."""
    data = bytes.fromhex(text)
    turned = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    address = ipaddress.ip_address(turned)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def holders(wanted: set[str], pids: Iterable[int], proc: Path = PROC) -> dict[str, int]:
    """Return which of these processes has each of these sockets.

    The search ends after some seconds, because users can open any number of files.
    """
    found: dict[str, int] = {}
    deadline = time.monotonic() + _SECONDS
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(str(proc / str(pid) / "fd")) as entries:
            for entry in entries:
                if time.monotonic() > deadline or len(found) == len(wanted):
                    return found
                with contextlib.suppress(OSError):
                    target = os.readlink(entry.path)  # noqa: PTH115 - as in chip_holders.py
                    inode = target[8:-1] if target.startswith("socket:[") else ""
                    if inode in wanted:
                        found.setdefault(inode, pid)
    return found
