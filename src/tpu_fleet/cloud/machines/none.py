"""Machines that are addresses only: for work on the API, and for fleets of thousands."""

from __future__ import annotations

from .base import AddressPool, MachineError, MachineSpec, PowerStatus


class NoMachines:
    """Remember which machines would be on, and nothing else."""

    name = "none"

    def __init__(self) -> None:
        # Google's default subnets live in 10.128.0.0/9; 198.18.0.0/15 is reserved for benchmarks
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

    def power_off(self, machine_id: str) -> None:
        """Note the machine as stopped."""
        self._power[machine_id] = "stopped"

    def power_on(self, spec: MachineSpec) -> None:
        """Note the machine as running."""
        self._power[spec.machine_id] = "running"

    def reboot(self, spec: MachineSpec) -> None:
        """Note the machine as running."""
        self._power[spec.machine_id] = "running"

    def set_external_ip(self, spec: MachineSpec) -> None:
        """Addresses are the API's business alone here."""

    def set_disks(self, spec: MachineSpec) -> None:
        """Disks are the API's business alone, too."""

    def grow_disk(self, zone: str, name: str, size_gb: int) -> None:
        """There is nothing on a disk."""

    def delete_disk(self, zone: str, name: str) -> None:
        """There is nothing on a disk."""

    def status(self, machine_id: str) -> PowerStatus:
        """Return what was noted last."""
        return self._power.get(machine_id, "gone")

    def round_trip(self, milliseconds: float | None = None) -> float:
        """Return no time at all; there is no way to anybody."""
        if milliseconds:
            raise MachineError("there is no way to machines that are addresses only")
        return 0.0

    def close(self) -> None:
        """There is nothing to let go of."""

    def destroy(self) -> None:
        """Forget every machine."""
        self._power.clear()
