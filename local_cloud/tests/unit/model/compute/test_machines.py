"""Work on the machines of instances takes its time, and meanwhile other things happen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clouds import SlowMachines, until

from tpu_local_cloud.machines import MachineSpec
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.compute.records import statuses
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.records import NodeRecord, OperationRecord
from tpu_local_cloud.model.shared.store import Store

ZONE = "us-east5-a"
STOPS, DELETES = {"instanceTerminationAction": "STOP"}, {"instanceTerminationAction": "DELETE"}


class NotedMachines(SlowMachines):
    """Machines whose changes are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def create(self, spec: MachineSpec) -> None:
        """Note it."""
        super().create(spec)
        self.log.append(f"create {spec.machine_id}")

    def delete(self, machine_id: str) -> None:
        """Note it."""
        self.log.append(f"delete {machine_id}")
        super().delete(machine_id)

    def set_external_ip(self, spec: MachineSpec) -> None:
        """Note it."""
        self.log.append(f"{spec.machine_id} at {'an' if spec.external_ip else 'no'} address")

    def set_disks(self, spec: MachineSpec) -> None:
        """Note it."""
        self.log.append(f"{spec.machine_id} with {len(spec.disks)} disks")

    def reboot(self, spec: MachineSpec) -> None:
        """Note it."""
        self.log.append(f"reboot {spec.machine_id}")
        super().reboot(spec)


@pytest.fixture
def machines() -> NotedMachines:
    return NotedMachines()


@pytest.fixture
def cloud(machines: NotedMachines) -> Iterator[Cloud]:
    # Real time, in which everything takes 50 milliseconds.
    made = Cloud(machines, Store(None), Clock("real"), delays={"all": 0.05})
    yield made
    machines.go_on.set()
    made.close()


def a_body() -> dict[str, Any]:
    return {"acceleratorType": "v6e-1", "labels": {}, "metadata": {}, "schedulingConfig": {}}


def known(scheduling: dict[str, Any], topology: str = "1x1") -> dict[str, Any]:
    kind = "ct6e-standard-1t" if topology == "1x1" else "ct6e-standard-4t"
    return {
        "machineType": kind,
        "topology": topology,
        "properties": {"scheduling": scheduling},
    }


def insert(cloud: Cloud, name: str = "one", **scheduling: Any) -> OperationRecord:
    return cloud.compute.insert(ZONE, name, a_body(), known(scheduling), 0.0)


def insert_group(cloud: Cloud, repairs: bool = False, **scheduling: Any) -> NodeRecord:
    group = {"base": "s", "size": 2, "template": "t", "policy": "p", "repairs": repairs, "body": {}}
    compute = {**known(scheduling, "2x4"), "group": group}
    cloud.compute.insert_group(ZONE, "s", {**a_body(), "acceleratorType": "v6e-8"}, compute, 2)
    return cloud.compute.group(f"zones/{ZONE}", "s")


def ready(cloud: Cloud, node: NodeRecord) -> None:
    until(cloud, lambda: statuses(node) == ["RUNNING"] * len(node.machines) != [])


def test_an_instance_runs_when_its_machine_does(cloud: Cloud, machines: NotedMachines) -> None:
    operation = insert(cloud)
    until(cloud, machines.begun.is_set)
    assert not operation.done
    assert cloud.compute.staging(cloud.compute.instance(ZONE, "one")[0])
    machines.go_on.set()
    until(cloud, lambda: operation.done)
    assert machines.status("one") == "running"


def test_a_deletion_waits_for_the_machine_that_comes_up(
    cloud: Cloud, machines: NotedMachines
) -> None:
    made = insert(cloud)
    until(cloud, machines.begun.is_set)
    ended = cloud.compute.delete(*cloud.compute.instance(ZONE, "one"))
    machines.go_on.set()
    until(cloud, lambda: ended.done)
    assert (made.error, ended.error) == (None, None)
    assert cloud.nodes == {}
    assert machines.log == ["create one", "delete one"]
    # The name is free, and nothing of the old instance is left to meet a new one.
    again = insert(cloud)
    until(cloud, lambda: again.done)
    assert machines.status("one") == "running"


def test_a_machine_that_does_not_come_up_fails_the_insertion(
    cloud: Cloud, machines: NotedMachines
) -> None:
    machines.broken = True
    machines.go_on.set()
    operation = insert(cloud)
    until(cloud, lambda: operation.done)
    assert operation.error is not None
    assert cloud.nodes == {}


def test_a_group_whose_machines_do_not_come_up_waits_again(
    cloud: Cloud, machines: NotedMachines
) -> None:
    machines.broken = True
    machines.go_on.set()
    node = insert_group(cloud)
    until(cloud, lambda: "progress" in node.compute["group"])
    machines.broken = False
    ready(cloud, node)


@pytest.mark.parametrize(("scheduling", "power"), [(STOPS, "stopped"), (DELETES, "gone")])
def test_a_preempted_instance_keeps_its_disk_or_not(
    cloud: Cloud, machines: NotedMachines, scheduling: dict[str, Any], power: str
) -> None:
    machines.go_on.set()
    operation = insert(cloud, **scheduling)
    until(cloud, lambda: operation.done)
    cloud.preempt(ZONE, "one")
    assert machines.status("one") == power
    assert (cloud.compute.find(ZONE, "one") is None) == (power == "gone")


def test_a_lost_instance_of_a_group_is_made_again_on_a_new_disk(
    cloud: Cloud, machines: NotedMachines
) -> None:
    machines.go_on.set()
    node = insert_group(cloud, repairs=True, **STOPS)
    ready(cloud, node)
    first = node.machines[0]["name"]
    address = node.machines[0]["internal_ip"]
    cloud.preempt(ZONE, first)
    assert statuses(node) == ["PROVISIONING", "RUNNING"]
    ready(cloud, node)
    assert machines.log[-2:] == [f"delete {first}", f"create {first}"]
    assert node.machines[0]["internal_ip"] == address


def test_a_group_that_is_emptied_gives_its_addresses_back(
    cloud: Cloud, machines: NotedMachines
) -> None:
    machines.go_on.set()
    node = insert_group(cloud)
    ready(cloud, node)
    names = [machine["name"] for machine in node.machines]
    cloud.compute.resize(node, 0)
    until(cloud, lambda: node.state == "EMPTY")
    assert [machines.status(name) for name in names] == ["gone", "gone"]
    assert cloud.addresses.is_empty()


def test_a_reset_reboots_one_machine(cloud: Cloud, machines: NotedMachines) -> None:
    machines.go_on.set()
    node = insert_group(cloud)
    ready(cloud, node)
    operation = cloud.compute.reset(node, 1)
    until(cloud, lambda: operation.done)
    assert machines.log[-1] == f"reboot {node.machines[1]['name']}"
    cloud.reboot(ZONE, node.machines[0]["name"], 0)
    assert machines.log[-1] == f"reboot {node.machines[0]['name']}"


def test_everything_is_removed_at_a_reset_of_the_cloud(
    cloud: Cloud, machines: NotedMachines
) -> None:
    machines.go_on.set()
    node = insert_group(cloud)
    ready(cloud, node)
    cloud.reset()
    assert cloud.nodes == {}
    assert {machines.status(machine["name"]) for machine in node.machines} == {"gone"}


def test_only_the_machine_that_is_asked_for_changes(cloud: Cloud, machines: NotedMachines) -> None:
    machines.go_on.set()
    node = insert_group(cloud)
    ready(cloud, node)
    cloud.around.disks.put(f"{ZONE}/d", {"name": "d", "zone": ZONE, "sizeGb": "10"})
    first, second = (machine["machine_id"] for machine in node.machines)
    data = {
        "sourceDisk": f"projects/{cloud.project}/zones/{ZONE}/disks/d",
        "mode": "READ_ONLY",
        "deviceName": "d",
        "autoDelete": False,
    }
    machines.log.clear()
    begun = [
        cloud.compute.set_access(node, 1, "mine", "addAccessConfig"),
        # The second begins before the first has ended, and does not undo it.
        cloud.compute.attach_disk(node, 0, data),
        cloud.compute.attach_disk(node, 1, data),
    ]
    until(cloud, lambda: all(operation.done for operation in begun))
    assert not any(operation.error for operation in begun)
    assert sorted(machines.log) == sorted(
        [f"{second} at an address", f"{first} with 1 disks", f"{second} with 1 disks"]
    )
    assert [bool(machine["external_ip"]) for machine in node.machines] == [False, True]
    machines.log.clear()
    begun = [
        cloud.compute.detach_disk(node, 1, data["sourceDisk"]),
        cloud.compute.set_access(node, 1, "", "deleteAccessConfig"),
    ]
    until(cloud, lambda: all(operation.done for operation in begun))
    assert sorted(machines.log) == sorted([f"{second} at no address", f"{second} with 0 disks"])
    assert node.body["dataDisks"] == [{**data, "workerIds": ["0"]}]
