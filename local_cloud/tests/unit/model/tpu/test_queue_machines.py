"""Queued resources whose machines take their time: none is left behind, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clouds import until

from tpu_local_cloud.machines import MachineError, MachineSpec
from tpu_local_cloud.machines.none import NoMachines
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.store import Store

ZONE = "us-central2-b"
BODY: dict[str, Any] = {
    "spot": {},
    "tpu": {
        "nodeSpec": [
            {
                "parent": f"projects/local-project/locations/{ZONE}",
                "multisliceParams": {"nodeCount": 2, "nodeIdPrefix": "n"},
                "node": {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"},
            }
        ]
    },
}


class SlowMachines(NoMachines):
    """Machines that come up when they are let, of which one may be broken; it counts them."""

    name = "slow"

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.begun = 0
        self.broken = False
        self.left: set[str] = set()
        self._lock = threading.Lock()

    def create(self, spec: MachineSpec) -> None:
        """Wait until it may go on."""
        with self._lock:
            self.begun += 1
            broken = self.broken and self.begun == 1
        assert self.go_on.wait(10)
        if broken:
            raise MachineError("there is no room for it")
        super().create(spec)
        with self._lock:
            self.left.add(spec.machine_id)

    def delete(self, machine_id: str) -> None:
        """Take one off the list."""
        super().delete(machine_id)
        with self._lock:
            self.left.discard(machine_id)


@pytest.fixture
def machines() -> SlowMachines:
    return SlowMachines()


@pytest.fixture
def cloud(machines: SlowMachines) -> Iterator[Cloud]:
    made = Cloud(machines, Store(None), Clock("immediate"))
    yield made
    machines.go_on.set()
    made.close()


def state(cloud: Cloud) -> str:
    record = cloud.queued.get(f"{ZONE}/queuedResources/q")
    return record.state if record else "gone"


def making(cloud: Cloud, machines: SlowMachines) -> None:
    cloud.queue.create(ZONE, "q", BODY, "v2")
    until(cloud, lambda: machines.begun == 2)
    assert state(cloud) == "PROVISIONING"


def test_it_is_active_when_all_machines_are_up(cloud: Cloud, machines: SlowMachines) -> None:
    making(cloud, machines)
    machines.go_on.set()
    until(cloud, lambda: state(cloud) == "ACTIVE")
    assert len(machines.left) == 2
    cloud.queue.reset(ZONE, "q", "v2")
    before = set(machines.left)
    until(cloud, lambda: state(cloud) == "ACTIVE" and len(machines.left) == 2)
    assert not before & machines.left


@pytest.mark.parametrize(
    ("act", "ends"),
    [
        (lambda c: c.queue.delete(ZONE, "q", "v2", force=True), "gone"),
        (lambda c: c.queue.suspend(ZONE, "q"), "SUSPENDED"),
        (lambda c: c.preempt(ZONE, "n-1"), "SUSPENDED"),
        (lambda c: c.queue.fail(ZONE, "q"), "FAILED"),
    ],
)
@pytest.mark.parametrize("up", [False, True])
def test_whatever_ends_it_leaves_no_machine(
    cloud: Cloud, machines: SlowMachines, act: Callable[[Cloud], None], ends: str, up: bool
) -> None:
    making(cloud, machines)
    if up:
        machines.go_on.set()
        until(cloud, lambda: state(cloud) == "ACTIVE")
    act(cloud)
    machines.go_on.set()
    until(cloud, lambda: state(cloud) == ends)
    until(cloud, lambda: not machines.left and not cloud.tasks)
    assert cloud.nodes == {}
    assert cloud.addresses.is_empty()


def test_a_machine_that_cannot_be_made(cloud: Cloud, machines: SlowMachines) -> None:
    machines.broken = True
    making(cloud, machines)
    machines.go_on.set()
    until(cloud, lambda: state(cloud) == "FAILED")
    until(cloud, lambda: not machines.left and not cloud.tasks)
    assert cloud.nodes == {}


def test_addresses_are_not_given_away_while_machines_come_up(
    cloud: Cloud, machines: SlowMachines
) -> None:
    making(cloud, machines)
    cloud.queue.delete(ZONE, "q", "v2", force=True)
    cloud.advance()
    cloud.advance()
    assert [node.state for node in cloud.nodes.values()] == ["CREATING"] * 2
    machines.go_on.set()
    until(cloud, lambda: state(cloud) == "gone")
    assert cloud.addresses.is_empty()
