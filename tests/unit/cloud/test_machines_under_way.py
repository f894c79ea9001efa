"""Work on machines takes its time, and meanwhile other things happen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tpu_fleet.cloud.clock import Clock
from tpu_fleet.cloud.machines import MachineError, MachineSpec, NoMachines
from tpu_fleet.cloud.model import Cloud
from tpu_fleet.cloud.store import Store

ZONE = "us-central2-b"
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}


class SlowMachines(NoMachines):
    """Machines that come up when they are let, and do not reboot when they are broken."""

    name = "slow"

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.broken = False

    def create(self, spec: MachineSpec) -> None:
        """Wait until it may go on."""
        self.begun.set()
        assert self.go_on.wait(10)
        super().create(spec)

    def reboot(self, spec: MachineSpec) -> None:
        """Fail on demand."""
        if self.broken:
            raise MachineError("it does not come back")
        super().reboot(spec)


@pytest.fixture
def machines() -> SlowMachines:
    return SlowMachines()


@pytest.fixture
def cloud(machines: SlowMachines) -> Iterator[Cloud]:
    made = Cloud(machines, Store(None), Clock("immediate"))
    yield made
    machines.go_on.set()
    made.close()


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_node_is_ready_when_its_machines_are(cloud: Cloud, machines: SlowMachines) -> None:
    operation = cloud.create(ZONE, "n1", BODY, "v2")
    assert machines.begun.wait(5)
    assert (cloud.node(ZONE, "n1").state, operation.done) == ("CREATING", False)
    machines.go_on.set()
    until(lambda: operation.done)
    assert cloud.node(ZONE, "n1").state == "READY"


def test_preemption_during_creation_leaves_no_machine(cloud: Cloud, machines: SlowMachines) -> None:
    cloud.create(ZONE, "n1", BODY, "v2")
    assert machines.begun.wait(5)
    cloud.preempt(ZONE, "n1")
    machines.go_on.set()
    cloud.close()
    node = cloud.nodes[f"{ZONE}/n1"]
    assert node.state == "PREEMPTED"
    assert machines.status(node.machines[0]["machine_id"]) == "gone"


def test_a_machine_that_does_not_come_back_is_said(cloud: Cloud, machines: SlowMachines) -> None:
    machines.go_on.set()
    made = cloud.create(ZONE, "n1", BODY, "v2")
    until(lambda: made.done)
    machines.broken = True
    operation = cloud.maintain(ZONE, "n1", [0], "v2alpha1")
    until(lambda: operation.done)
    assert operation.error is not None
    assert operation.error["code"] == 13
    # Google's word for a node whose repair failed; not a state that promises to pass.
    assert cloud.node(ZONE, "n1").state == "UNKNOWN"


def test_nodes_without_machines_are_not_made_up(cloud: Cloud) -> None:
    with pytest.raises(ValueError, match="without machines"):
        cloud.populate([(ZONE, "n1", dict(BODY))])
    assert cloud.nodes == {}
