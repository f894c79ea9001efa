"""Machines that are only addresses, for work on the API and for fleets of thousands."""

from __future__ import annotations

from collections.abc import Callable

from .base import SHUTDOWN_LIMIT, AddressPool, MachineError, MachineSpec, PowerStatus


class NoMachines:
    """Remember only which machines would run."""

    name = "none"

    def __init__(self) -> None:
        # Google's default subnets are in 10.128.0.0/9; 198.18.0.0/15 is reserved for benchmarks
        # (RFC 2544), so that nothing real is ever addressed by mistake.
        self._internal = AddressPool("10.128.0.2", "10.255.255.254")
        self._external = AddressPool("198.18.0.1", "198.19.255.254")
        self._power: dict[str, PowerStatus] = {}

    def open(self) -> None:
        """There is nothing to prepare."""

    def metadata_address(self) -> tuple[str, int] | None:
        """Return None, which is never read."""
        return None

    def allocate_internal(self, used: set[str]) -> str:
        """Return an internal address that is not in `used`."""
        return self._internal.take(used)

    def allocate_external(self, used: set[str]) -> str:
        """Return an external address that is not in `used`."""
        return self._external.take(used)

    def create(self, spec: MachineSpec) -> None:
        """Note the machine as running."""
        self._power[spec.machine_id] = "running"

    def delete(self, machine_id: str) -> None:
        """Forget the machine."""
        self._power.pop(machine_id, None)

    def power_off(self, machine_id: str, seconds: float = SHUTDOWN_LIMIT) -> None:
        """Note the machine as stopped."""
        self._power[machine_id] = "stopped"

    def power_on(self, spec: MachineSpec) -> None:
        """Note the machine as running."""
        self._power[spec.machine_id] = "running"

    def reboot(self, spec: MachineSpec) -> None:
        """Note the machine as running."""
        self._power[spec.machine_id] = "running"

    def set_external_ip(self, spec: MachineSpec) -> None:
        """Only the API knows addresses here."""

    def block_ports(self, ports: frozenset[tuple[str, int]]) -> None:
        """No machine sends anything here."""

    def set_disks(self, spec: MachineSpec) -> None:
        """Only the API knows disks here."""

    def grow_disk(self, zone: str, name: str, size_gb: int) -> None:
        """There is nothing on a disk."""

    def delete_disk(self, zone: str, name: str) -> None:
        """There is nothing on a disk."""

    def status(self, machine_id: str) -> PowerStatus:
        """Return the last recorded state."""
        return self._power.get(machine_id, "gone")

    def leader(self, machine_id: str) -> int | None:
        """Return None; nothing runs."""
        return None

    def round_trip(self, milliseconds: float | None = None) -> float:
        """Return zero; there is no network."""
        if milliseconds:
            raise MachineError("machines that are only addresses have no round trip")
        return 0.0

    def close(self) -> None:
        """There is nothing to release."""

    def destroy(self, progress: Callable[[str], None]) -> None:
        """Forget every machine."""
        self._power.clear()
