"""Work on machines takes its time, and meanwhile other things happen."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from clouds import SlowMachines, until

from tpu_local_cloud.machines import MachineError, MachineSpec
from tpu_local_cloud.machines.none import NoMachines
from tpu_local_cloud.model import transitions
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.store import Store

ZONE = "us-central2-b"
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}


class Machines(SlowMachines):
    """Machines that do not reboot when they are broken."""

    def reboot(self, spec: MachineSpec) -> None:
        """Fail on demand."""
        if self.broken:
            raise MachineError("it does not come back")
        super().reboot(spec)


class TalkingMachines(NoMachines):
    """Machines that are up at once, and publish their host keys when the test says so."""

    name = "talking"

    def metadata_address(self) -> tuple[str, int]:
        """Return where they would publish."""
        return "127.0.0.1", 1


@pytest.fixture
def talking() -> Iterator[Cloud]:
    made = Cloud(TalkingMachines(), Store(None), Clock("immediate"))
    yield made
    made.close()


@pytest.fixture
def machines() -> Machines:
    return Machines()


@pytest.fixture
def cloud(machines: Machines) -> Iterator[Cloud]:
    made = Cloud(machines, Store(None), Clock("immediate"))
    yield made
    machines.go_on.set()
    made.close()


def test_a_node_is_ready_when_its_machines_are(cloud: Cloud, machines: Machines) -> None:
    operation = cloud.create(ZONE, "n1", BODY, "v2")
    assert machines.begun.wait(5)
    assert (cloud.node(ZONE, "n1").state, operation.done) == ("CREATING", False)
    machines.go_on.set()
    until(cloud, lambda: operation.done)
    assert cloud.node(ZONE, "n1").state == "READY"


def test_preemption_during_creation_leaves_no_machine(cloud: Cloud, machines: Machines) -> None:
    cloud.create(ZONE, "n1", BODY, "v2")
    assert machines.begun.wait(5)
    cloud.preempt(ZONE, "n1")
    machines.go_on.set()
    cloud.close()
    node = cloud.nodes[f"{ZONE}/n1"]
    assert node.state == "PREEMPTED"
    assert machines.status(node.machines[0]["machine_id"]) == "gone"


def test_a_machine_that_does_not_come_back_is_said(cloud: Cloud, machines: Machines) -> None:
    machines.go_on.set()
    made = cloud.create(ZONE, "n1", BODY, "v2")
    until(cloud, lambda: made.done)
    machines.broken = True
    operation = cloud.maintain(ZONE, "n1", [0], "v2alpha1")
    until(cloud, lambda: operation.done)
    assert operation.error is not None
    assert operation.error["code"] == 13
    # Google's word for a node whose repair failed; not a state that promises to pass.
    assert cloud.node(ZONE, "n1").state == "UNKNOWN"


def test_nodes_without_machines_are_not_made_up(cloud: Cloud) -> None:
    with pytest.raises(ValueError, match="without machines"):
        cloud.populate([(ZONE, "n1", dict(BODY))])
    assert cloud.nodes == {}


def publish_host_key(cloud: Cloud, worker: int) -> None:
    cloud.publish(cloud.node(ZONE, "n1"), worker, "hostkeys", "ssh-ed25519", "AAAA")


def are_up(cloud: Cloud) -> bool:
    machines = cloud.node(ZONE, "n1").machines
    return all(cloud.backend.status(machine["machine_id"]) == "running" for machine in machines)


def test_a_node_is_ready_when_all_its_host_keys_are_known(talking: Cloud) -> None:
    operation = talking.create(ZONE, "n1", {**BODY, "acceleratorType": "v4-16"}, "v2")
    until(talking, lambda: are_up(talking))
    publish_host_key(talking, 0)
    time.sleep(3 * transitions.LOOK_EVERY)
    assert (talking.node(ZONE, "n1").state, operation.done) == ("CREATING", False)
    publish_host_key(talking, 1)
    until(talking, lambda: operation.done)
    assert talking.node(ZONE, "n1").state == "READY"


def test_a_machine_without_host_keys_does_not_hold_its_node_up_for_ever(
    talking: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transitions, "HOST_KEYS_LIMIT", 0.3)
    operation = talking.create(ZONE, "n1", BODY, "v2")
    until(talking, lambda: operation.done)
    assert (talking.node(ZONE, "n1").state, operation.error) == ("READY", None)


def test_preemption_before_the_host_keys_leaves_no_machine(talking: Cloud) -> None:
    operation = talking.create(ZONE, "n1", BODY, "v2")
    until(talking, lambda: are_up(talking))
    talking.preempt(ZONE, "n1")
    assert operation.error is not None
    talking.close()
    node = talking.nodes[f"{ZONE}/n1"]
    assert node.state == "PREEMPTED"
    assert talking.backend.status(node.machines[0]["machine_id"]) == "gone"


def test_a_server_that_stops_waits_for_no_host_keys(talking: Cloud) -> None:
    talking.create(ZONE, "n1", BODY, "v2")
    until(talking, lambda: are_up(talking))
    begun = time.monotonic()
    talking.close()
    assert time.monotonic() - begun < transitions.HOST_KEYS_LIMIT / 2
    assert talking.nodes[f"{ZONE}/n1"].state == "READY"
