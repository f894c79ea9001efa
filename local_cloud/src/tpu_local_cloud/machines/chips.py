"""Chips of machines: device files, the processes that have them open, a port beside these."""

from __future__ import annotations

import os
import re
import socket
import stat
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .helpers import enter_network

DEVICE = re.compile(r"/dev/(?:accel|vfio/)(\d+)")
PORT = 8431
# The number of /dev/full, so that what opens it reads zeros, and writes nothing.
_MAJOR, _MINOR = 1, 7


@dataclass(frozen=True)
class Held:
    """The chips of a machine that processes have open, and the user of one of these."""

    chips: tuple[int, ...]
    uid: int


def provide(leader: int, count: int) -> None:
    """Create the device files of so many chips in the machine of this PID 1."""
    for number in range(count):
        path = f"/proc/{leader}/root/dev/accel{number}"
        if not os.path.lexists(path):
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(_MAJOR, _MINOR))
            os.chmod(path, 0o666)  # noqa: PTH101, S103 - as on a TPU VM; mknod took the umask off


def held(leaders: Mapping[str, int]) -> dict[str, Held]:
    """Return what processes of machines hold, by machine; a machine without chips costs little."""
    networks = {}
    for machine, leader in leaders.items():
        with suppress(OSError):
            if _has_devices(leader):
                networks[os.stat(f"/proc/{leader}/ns/net").st_ino] = machine  # noqa: PTH116
    found: dict[str, tuple[set[int], int]] = {}
    for process in Path("/proc").glob("[0-9]*") if networks else ():
        with suppress(OSError):
            machine = networks.get((process / "ns/net").stat().st_ino, "")
            chips = _chips(process) if machine else set()
            if chips:
                before = found.get(machine, (set(), 0))[0]
                found[machine] = (before | chips, process.stat().st_uid)
    return {machine: Held(tuple(sorted(chips)), uid) for machine, (chips, uid) in found.items()}


def _has_devices(leader: int) -> bool:
    place = Path(f"/proc/{leader}/root/dev")
    return any(DEVICE.fullmatch(f"/dev/{path.relative_to(place)}") for path in
               (*place.glob("accel*"), *place.glob("vfio/*")))  # fmt: skip


def _chips(process: Path) -> set[int]:
    found = set()
    for descriptor in os.scandir(process / "fd"):
        with suppress(OSError):
            match = DEVICE.fullmatch(os.readlink(descriptor.path))  # noqa: PTH115
            found |= {int(match[1])} if match else set()
    return found


def listener(leader: int, uid: int, port: int = PORT) -> socket.socket:
    """Return a socket that listens on the loopback address of a machine, as its user's.

    Raise OSError if a process of the machine has the port.
    """
    made: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            made.append(_listen(leader, uid, port))
        except OSError as error:
            made.append(error)

    # A thread of its own enters the machine's network, and ends there.
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def _listen(leader: int, uid: int, port: int) -> socket.socket:
    enter_network(leader)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # /proc/net/tcp shows the owner of a socket.
        os.fchown(listening.fileno(), uid, -1)
        listening.bind(("127.0.0.1", port))
        listening.listen(16)
    except OSError:
        listening.close()
        raise
    return listening
