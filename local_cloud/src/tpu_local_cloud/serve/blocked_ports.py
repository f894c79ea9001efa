"""Ports of machines that a fault hides from other machines, as a firewall of the network would."""

from __future__ import annotations

import asyncio

from ..machines import MachineBackend
from ..model.cloud import Cloud
from ..model.shared.faults import ports_of

LOOK_EVERY = 0.5


class BlockedPorts:
    """Has the network of one cloud's machines drop what the fault port_blocked names."""

    def __init__(self, cloud: Cloud, backend: MachineBackend) -> None:
        self._cloud, self._backend = cloud, backend
        self._now: frozenset[tuple[str, int]] = frozenset()

    async def run(self) -> None:
        """Follow the faults until this task is cancelled."""
        while True:
            wanted = self.wanted()
            if wanted != self._now:
                await asyncio.to_thread(self._backend.block_ports, wanted)
                self._now = wanted
            await asyncio.sleep(LOOK_EVERY)

    def wanted(self) -> frozenset[tuple[str, int]]:
        """Return the ports to block now, each with the internal address of its machine."""
        cloud = self._cloud
        if not len(cloud.faults):
            return frozenset()
        found = set()
        for node in [*cloud.nodes_in("-"), *cloud.compute.records()]:
            for worker, machine in enumerate(node.machines):
                where = {"node": node.name, "zone": node.zone, "worker": worker}
                for fault in cloud.faults.all_active("port_blocked", cloud.clock.now(), **where):
                    found |= {(machine["internal_ip"], port) for port in ports_of(fault)}
        return frozenset(found)
