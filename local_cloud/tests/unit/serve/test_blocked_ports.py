"""Which ports of machines the fault port_blocked hides from other machines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tpu_local_cloud.machines.none import NoMachines
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.faults import Fault, Faults
from tpu_local_cloud.model.shared.store import Store
from tpu_local_cloud.serve.blocked_ports import BlockedPorts

ZONE = "us-central2-b"


class Machines(NoMachines):
    """Machines that keep what was blocked."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked: list[frozenset[tuple[str, int]]] = []

    def block_ports(self, ports: frozenset[tuple[str, int]]) -> None:
        self.blocked.append(ports)


def cloud_of(backend: NoMachines) -> Cloud:
    delays = dict.fromkeys(("create", "delete", "start", "stop", "update", "maintain"), 1.0)
    cloud = Cloud(backend, Store(None), Clock("manual"), delays=delays)
    body: dict[str, Any] = {"acceleratorType": "v4-16", "runtimeVersion": "tpu-ubuntu2204-base"}
    cloud.create(ZONE, "pair", body, "v2")
    cloud.clock.advance(5.0)
    cloud.advance()
    return cloud


def test_the_ports_of_the_named_worker_as_long_as_the_fault_is_on() -> None:
    backend = Machines()
    cloud = cloud_of(backend)
    ports = BlockedPorts(cloud, backend)
    assert ports.wanted() == frozenset()
    where = {"node": "pair", "worker": 1}
    cloud.faults.add(Fault("port_blocked", where, options={"ports": "8482,8471"}))
    second = cloud.node(ZONE, "pair").machines[1]["internal_ip"]
    assert ports.wanted() == {(second, 8482), (second, 8471)}

    async def follow() -> None:
        task = asyncio.create_task(ports.run())
        while not backend.blocked:
            await asyncio.sleep(0.01)
        cloud.faults.clear()
        while len(backend.blocked) < 2:
            await asyncio.sleep(0.05)
        task.cancel()

    asyncio.run(asyncio.wait_for(follow(), 10))
    assert backend.blocked == [{(second, 8482), (second, 8471)}, frozenset()]


@pytest.mark.parametrize("options", [{}, {"ports": "x"}, {"ports": "0"}, {"ports": 70000}])
def test_what_is_no_port_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"ports|literal"):
        Faults().add(Fault("port_blocked", {}, options=options))
