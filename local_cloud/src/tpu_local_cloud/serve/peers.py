"""The user of this computer behind a connection, from the kernel's tables."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

Address = tuple[str, int]

_SOCK_DIAG_BY_FAMILY = 20
_ERROR = 2
_NO_COOKIE = 0xFFFFFFFF
_PROC = Path("/proc/net/tcp")


def owner(client: Address, server: Address) -> int | None:
    """Return the uid of the process at the client's end of an IPv4 connection.

    None: the kernel does not say, or the process has ended. A closed socket looks like one of
    root's, but has no inode.
    """
    try:
        found = _by_netlink(client, server)
    except OSError:
        # Not every kernel has sock_diag: the table of all connections, which takes longer.
        found = _by_proc(client, server)
    if found is None:
        return None
    uid, inode = found
    return uid if inode else None


def _by_netlink(client: Address, server: Address) -> tuple[int, int] | None:
    """Ask for one connection: struct inet_diag_req_v2, answered by struct inet_diag_msg."""
    ends = struct.pack("!HH", client[1], server[1])
    ends += b"".join(socket.inet_aton(end[0]).ljust(16, b"\0") for end in (client, server))
    body = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF)
    body += ends + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    head = struct.pack("=IHHII", 16 + len(body), _SOCK_DIAG_BY_FAMILY, 1, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as link:
        link.settimeout(2)
        link.send(head + body)
        answer = link.recv(8192)
    if struct.unpack_from("=H", answer, 4)[0] == _ERROR:
        number = -struct.unpack_from("=i", answer, 16)[0]
        # ENOENT: no such connection, or no module for this in the kernel.
        raise OSError(number, "sock_diag")
    uid, inode = struct.unpack_from("=II", answer, 16 + 4 + 48 + 12)
    return uid, inode


def _by_proc(client: Address, server: Address) -> tuple[int, int] | None:
    wanted = [_as_proc(client), _as_proc(server)]
    try:
        lines = _PROC.read_text().splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if words[1:3] == wanted:
            return int(words[7]), int(words[9])
    return None


def _as_proc(end: Address) -> str:
    [number] = struct.unpack("=I", socket.inet_aton(end[0]))
    return f"{number:08X}:{end[1]:04X}"
