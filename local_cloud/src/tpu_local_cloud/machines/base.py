"""The interface of a machine backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Literal, Protocol

SHUTDOWN_LIMIT = 30.0
"""Seconds after which a machine that shuts down is killed, as Google does."""
PowerStatus = Literal["running", "stopped", "gone"]


class MachineError(RuntimeError):
    """A machine, or its computer, failed; the message is for people."""


@dataclass(frozen=True)
class DataDisk:
    """One data disk of one machine."""

    zone: str
    name: str
    size_gb: int
    writes: bool

    def same_attachment(self, other: DataDisk) -> bool:
        """Return whether it equals the other, apart from what can change while it is attached."""
        return replace(self, size_gb=other.size_gb) == other


@dataclass(frozen=True)
class MachineSpec:
    """One worker of a node, as the API knows it."""

    machine_id: str
    """`t1v-n-<8 hex>-w-<k>`: unique in the cloud and also the host name."""
    zone: str
    node_uid: str
    worker: int
    internal_ip: str
    external_ip: str | None = None
    disks: tuple[DataDisk, ...] = ()
    """In the order in which they are attached; only `create` and `set_disks` look at them."""
    own_kernel: bool = False
    """Whether it has its own kernel instead of this computer's."""
    shares: bool = False
    """Whether it has the folder that all such machines share, which outlasts each of them."""
    small: bool = False
    """Whether it is little more than an sshd, so that a thousand fit on a computer."""
    peers: tuple[tuple[str, str], ...] = ()
    """Address and name of each machine that it finds by name; only `create` looks at them."""

    @property
    def hosts(self) -> str:
        """Return its lines of /etc/hosts, which stand in for the DNS of Google's networks."""
        return "".join(f"{address} {name}\n" for address, name in self.peers)


class MachineBackend(Protocol):
    """Blocking calls, safe to make from several threads; each is idempotent."""

    name: str

    def open(self) -> None:
        """Get ready when the server starts, and take over the machines that exist already."""

    def metadata_address(self) -> tuple[str, int] | None:
        """Return where the machines expect the metadata server, or None without machines."""

    def allocate_internal(self, used: set[str]) -> str:
        """Return an internal address that is not in `used`."""

    def allocate_external(self, used: set[str]) -> str:
        """Return an external address that is not in `used`."""

    def create(self, spec: MachineSpec) -> None:
        """Create and boot the machine; return when it answers on its SSH port."""

    def delete(self, machine_id: str) -> None:
        """Remove the machine with its disk immediately, as preemption does."""

    def power_off(self, machine_id: str, seconds: float = SHUTDOWN_LIMIT) -> None:
        """Shut the machine down, or kill it after so many seconds; its disk stays."""

    def power_on(self, spec: MachineSpec) -> None:
        """Boot a stopped machine from its disk; return when it answers on its SSH port."""

    def reboot(self, spec: MachineSpec) -> None:
        """Reboot the machine, which comes back with the external address of `spec`."""

    def set_external_ip(self, spec: MachineSpec) -> None:
        """Give the machine the external address of `spec`, or none, while it runs."""

    def block_ports(self, ports: frozenset[tuple[str, int]]) -> None:
        """Drop what machines send to these ports, each with an internal address, and no others."""

    def set_disks(self, spec: MachineSpec) -> None:
        """Attach the disks of `spec` to the machine, and detach its others."""

    def grow_disk(self, zone: str, name: str, size_gb: int) -> None:
        """Enlarge a disk, also while it is attached."""

    def delete_disk(self, zone: str, name: str) -> None:
        """Delete an unattached disk with its contents."""

    def status(self, machine_id: str) -> PowerStatus:
        """Return the present state of the machine."""

    def leader(self, machine_id: str) -> int | None:
        """Return the process id of PID 1 of a running machine; None if it has no processes."""

    def round_trip(self, milliseconds: float | None = None) -> float:
        """Return the round trip to small machines; set it first, if given."""

    def close(self) -> None:
        """Release the machines when the server stops; they keep running."""

    def destroy(self, progress: Callable[[str], None]) -> None:
        """Remove every machine and everything created for them; report each step that takes long.

        `progress` gets a line of text.
        """


class AddressPool:
    """Assigns addresses in order, so that a released one is not reused immediately."""

    def __init__(self, first: str, last: str) -> None:
        self._first = int(IPv4Address(first))
        self._size = int(IPv4Address(last)) - self._first + 1
        self._next = 0

    def take(self, used: set[str]) -> str:
        """Return the next address that is not in `used`."""
        for step in range(self._size):
            offset = (self._next + step) % self._size
            address = str(IPv4Address(self._first + offset))
            if address not in used:
                self._next = offset + 1
                return address
        raise MachineError(f"all {self._size} addresses from {IPv4Address(self._first)} are in use")
