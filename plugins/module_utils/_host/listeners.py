# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out which process listens on a TCP port of this machine. Private to tpu.fleet.

The run agent uses this file too, and `tpu-fleet tunnel` sends it to workers, so it needs only
Python 3.8.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
ANY = ("00000000", "0" * 32)
_LISTENING = "0A"
_SECONDS = 3.0


@dataclass(frozen=True)
class Listener:
    """A port with a listening process, and the user who opened it."""

    address: str
    port: int
    inode: str
    uid: int

    @property
    def loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        return self.address in LOOPBACK


def rows(tables: Iterable[str]) -> list[list[str]]:
    """Return the words of each socket in the tables /proc/net/tcp and tcp6."""
    found = [line.split() for table in tables for line in table.splitlines()[1:]]
    return [words for words in found if len(words) >= 10]


def listeners(tables: Iterable[str]) -> list[Listener]:
    """Return the listeners in the tables /proc/net/tcp and tcp6."""
    found = []
    for words in rows(tables):
        address, _sep, port = words[1].partition(":")
        if words[3] == _LISTENING:
            found.append(Listener(address, int(port, 16), words[9], int(words[7])))
    return found


def tables(proc: Path = PROC) -> list[str]:
    """Return the tables of this machine's TCP sockets."""
    found = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            found.append((proc / "net" / name).read_text(encoding="ascii"))
    return found


def of_port(port: int, proc: Path = PROC) -> list[Listener]:
    """Return what listens on a port of this machine."""
    return [one for one in listeners(tables(proc)) if one.port == port]


def holder(listener: Listener, proc: Path = PROC) -> int:
    """Return the process that listens; 0 if it is not found, as without root's rights.

    The search ends after some seconds, because a user can have millions of open files.
    """
    wanted, deadline = f"socket:[{listener.inode}]", time.monotonic() + _SECONDS
    for process in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError), os.scandir(str(process / "fd")) as descriptors:
            for descriptor in descriptors:
                if time.monotonic() > deadline:
                    return 0
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor.path) == wanted:  # noqa: PTH115 - 3.9 has Path.readlink
                        return int(process.name)
    return 0


def name_of(uid: int) -> str:
    """Return the name of a user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def described(listener: Listener, proc: Path = PROC) -> str:
    """Describe the process that listens, and its user, for a message."""
    pid = holder(listener, proc)
    if not pid:
        return f"a process of {name_of(listener.uid)}"
    words: list[str] = []
    with contextlib.suppress(OSError), (proc / str(pid) / "cmdline").open("rb") as stream:
        words = stream.read(4096).decode("utf-8", "replace").split("\0")
    command = "".join(char if char.isprintable() else "?" for char in " ".join(words[:2]))
    return f"process {pid} ({command[:200].strip()}) of {name_of(listener.uid)}"


def taken(port: int, proc: Path = PROC) -> tuple[str, int | None] | None:
    """Describe what keeps a program from listening on a port, and its uid if that is known.

    None if the port is free, or has only the closed connections of an earlier program.
    """
    found = of_port(port, proc)
    if found:
        return described(found[0], proc), found[0].uid
    if _can_bind(port):
        return None
    ports = [int(words[1].partition(":")[2], 16) for words in rows(tables(proc))]
    # The tables do not list a socket that is bound and neither listens nor is connected.
    return None if port in ports else ("a process that does not listen", None)


def _can_bind(port: int) -> bool:
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104 - closed immediately
        try:
            with socket.socket(family, socket.SOCK_STREAM) as trial:
                if family == socket.AF_INET6:
                    trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                trial.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            continue
        return True
    return True
