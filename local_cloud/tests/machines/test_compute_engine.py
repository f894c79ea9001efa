"""Instances and slices of Compute Engine on real machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from container_cloud import ContainerCloud, eventually

ZONE, REGION = "us-central1-b", "us-central1"
POLICY = f"projects/local-project/regions/{REGION}/resourcePolicies/square"
TEMPLATE = f"regions/{REGION}/instanceTemplates/four"
ME = "http://metadata.google.internal/computeMetadata/v1/instance"
READ = f"curl -sf -H 'Metadata-Flavor: Google' {ME}"
# test_small.py has small machines whole, at night too.
KINDS = pytest.mark.parametrize(
    "kind", ["container", pytest.param("small", marks=pytest.mark.night)]
)


class Instances:
    """The instances of one cloud, and how to reach them."""

    def __init__(self, cloud: ContainerCloud) -> None:
        self.cloud = cloud

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        whole = f"{self.cloud.endpoint}compute/v1/projects/local-project/{path}"
        answer = requests.request(method, whole, json=body, params=query, timeout=150)
        assert answer.ok, answer.text
        return answer.json()

    def do(self, method: str, path: str, body: Any = None, **query: str) -> None:
        """Ask for something, and wait until it is done."""
        done = self.ask(method, path, body, **query)
        while done["status"] != "DONE":
            place = done["selfLink"].partition("/local-project/")[2]
            done = self.ask("POST", f"{place}/wait")
        assert "error" not in done, done

    def properties(self, kind: str, action: str) -> dict[str, Any]:
        public = self.cloud.key.with_suffix(".pub").read_text().strip()
        metadata = {
            "enable-guest-attributes": "TRUE",
            "local-cloud-machine": kind,
            "ssh-keys": f"ubuntu:{public}",
        }
        return {
            "disks": [{"boot": True, "autoDelete": True}],
            "metadata": {"items": [{"key": k, "value": v} for k, v in metadata.items()]},
            "networkInterfaces": [{"accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}],
            "scheduling": {"provisioningModel": "SPOT", "instanceTerminationAction": action},
        }

    def insert(self, name: str, kind: str, action: str = "STOP") -> None:
        machine = f"zones/{ZONE}/machineTypes/ct6e-standard-1t"
        body = {"name": name, "machineType": machine, **self.properties(kind, action)}
        self.do("POST", f"zones/{ZONE}/instances", body)

    def make_slice(self, kind: str, action: str = "STOP", on_failure: str = "DO_NOTHING") -> None:
        workload = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x4"}
        self.do("POST", f"regions/{REGION}/resourcePolicies",
                {"name": "square", "workloadPolicy": workload})  # fmt: skip
        properties = {"machineType": "ct6e-standard-4t", **self.properties(kind, action)}
        network = {**properties["networkInterfaces"][0], "network": "global/networks/default"}
        properties["networkInterfaces"] = [network]
        self.do("POST", f"regions/{REGION}/instanceTemplates",
                {"name": "four", "properties": properties})  # fmt: skip
        body = {
            "name": "slice",
            "instanceTemplate": TEMPLATE,
            "targetSize": 2,
            "targetSizePolicy": {"mode": "BULK"},
            "resourcePolicies": {"workloadPolicy": POLICY},
            "instanceLifecyclePolicy": {"defaultActionOnFailure": on_failure},
        }
        self.do("POST", f"zones/{ZONE}/instanceGroupManagers", body)
        eventually(self.is_whole)

    @property
    def status(self) -> Any:
        return self.ask("GET", f"zones/{ZONE}/instanceGroupManagers/slice")["status"]

    def is_whole(self) -> bool:
        return self.status["isStable"] and self.status["currentInstanceStatuses"] == {"running": 2}

    def members(self) -> list[str]:
        path = f"zones/{ZONE}/instanceGroupManagers/slice/listManagedInstances"
        return [each["name"] for each in self.ask("POST", path)["managedInstances"]]

    def run(self, name: str, command: str) -> str:
        """Run a command on an instance."""
        shown = self.ask("GET", f"zones/{ZONE}/instances/{name}")
        address = shown["networkInterfaces"][0]["accessConfigs"][0]["natIP"]
        return self.cloud.ssh(address, command)

    def power(self) -> dict[str, str]:
        return {
            worker["instance"]: worker["power"]
            for node in self.cloud.control("state")["nodes"]
            for worker in node["workers"]
        }

    def preempt(self, name: str) -> None:
        self.cloud.control(f"nodes/local-project/{ZONE}/{name}:preempt", {})

    def clear(self) -> None:
        places = (f"zones/{ZONE}/instanceGroupManagers", f"zones/{ZONE}/instances",
                  f"regions/{REGION}/instanceTemplates",
                  f"regions/{REGION}/resourcePolicies")  # fmt: skip
        for place in places:
            for each in self.ask("GET", place).get("items", []):
                self.do("DELETE", f"{place}/{each['name']}")


@pytest.fixture
def instances(container_cloud: ContainerCloud) -> Iterator[Instances]:
    made = Instances(container_cloud)
    yield made
    made.clear()
    assert container_cloud.control("state")["nodes"] == []


@KINDS
def test_an_instance_is_a_machine(instances: Instances, kind: str) -> None:
    instances.insert("one", kind)
    assert instances.run("one", "hostname") == "one"
    assert instances.run("one", f"{READ}/name") == "one"
    assert instances.run("one", f"{READ}/attributes/accelerator-type") == "v6e-1"
    path = f"zones/{ZONE}/instances/one/getGuestAttributes"
    published = instances.ask("GET", path, queryPath="hostkeys/")["queryValue"]["items"]
    keys = {each["key"]: each["value"] for each in published}
    assert keys["ssh-ed25519"] in instances.run("one", "cat /etc/ssh/ssh_host_ed25519_key.pub")


# In CI test_machines.py stops and starts a node, which is the same machine.
@pytest.mark.night
@KINDS
def test_a_stopped_instance_keeps_its_disk(instances: Instances, kind: str) -> None:
    instances.insert("one", kind)
    instances.run("one", "echo kept > ~/note")
    instances.do("POST", f"zones/{ZONE}/instances/one/stop")
    assert instances.power() == {"one": "stopped"}
    instances.do("POST", f"zones/{ZONE}/instances/one/start")
    assert instances.run("one", "cat ~/note") == "kept"


@KINDS
def test_the_workers_of_a_slice_find_each_other_by_name(instances: Instances, kind: str) -> None:
    instances.make_slice(kind)
    first, second = instances.members()
    for worker, (name, other) in enumerate(((first, second), (second, first))):
        assert instances.run(name, f"{READ}/attributes/agent-worker-number") == str(worker)
        named = instances.run(name, f"{READ}/attributes/worker-network-endpoints")
        assert named == f"{first},{second}"
        assert instances.run(name, f"ping -c1 -W5 {other} > /dev/null && echo here") == "here"


@KINDS
def test_a_preempted_worker_is_stopped_and_started(instances: Instances, kind: str) -> None:
    instances.make_slice(kind)
    first, second = instances.members()
    instances.run(first, "echo kept > ~/note")
    instances.preempt(first)
    assert instances.power() == {first: "stopped", second: "running"}
    assert instances.status["appliedAcceleratorTopologies"][0]["state"] == "INCOMPLETE"
    instances.do("POST", f"zones/{ZONE}/instances/{first}/start")
    assert instances.is_whole()
    assert instances.run(first, "cat ~/note") == "kept"


def test_a_group_makes_a_lost_worker_again_on_a_new_disk(instances: Instances) -> None:
    instances.make_slice("small", "DELETE", "REPAIR")
    first, second = instances.members()
    instances.run(first, "echo lost > ~/note")
    instances.preempt(first)
    eventually(instances.is_whole)
    assert instances.members() == [first, second]
    assert instances.run(first, "ls") == ""
    assert instances.run(second, f"ping -c1 -W5 {first} > /dev/null && echo here") == "here"


def test_maintenance_of_one_worker_reboots_all(instances: Instances) -> None:
    instances.make_slice("small")
    read = "cat /proc/sys/kernel/random/boot_id"
    before = [instances.run(name, read) for name in instances.members()]
    path = f"zones/{ZONE}/instances/{instances.members()[1]}/simulateMaintenanceEvent"
    instances.do("POST", path)
    eventually(instances.is_whole)
    after = [instances.run(name, read) for name in instances.members()]
    assert not set(before) & set(after)


# In CI local_cloud/tests/api/test_compute_engine.py has such a request, which waits, runs and ends.
@pytest.mark.night
def test_a_flex_start_instance_is_gone_after_its_run(instances: Instances) -> None:
    cloud = instances.cloud
    cloud.control("clock", {"mode": "real", "speed": 60})
    try:
        kind = f"zones/{ZONE}/machineTypes/ct6e-standard-1t"
        flex = {
            "provisioningModel": "FLEX_START",
            "maxRunDuration": {"seconds": "1200"},
            "instanceTerminationAction": "DELETE",
        }
        body = {**instances.properties("small", "DELETE"), "scheduling": flex}
        body |= {"name": "one", "machineType": kind}
        body["params"] = {"requestValidForDuration": {"seconds": "7200"}}
        instances.do("POST", f"zones/{ZONE}/instances", body)
        assert instances.run("one", "hostname") == "one"
        eventually(lambda: instances.power() == {})
    finally:
        cloud.control("clock", {"mode": "immediate", "speed": 1})


@KINDS
def test_one_machine_of_a_slice_loses_its_address_and_gets_another(
    instances: Instances, kind: str
) -> None:
    instances.make_slice(kind)
    first, second = instances.members()

    def address(name: str) -> str:
        card = instances.ask("GET", f"zones/{ZONE}/instances/{name}")["networkInterfaces"][0]
        return str(card.get("accessConfigs", [{}])[0].get("natIP", ""))

    before, nic = address(second), {"networkInterface": "nic0"}
    path = f"zones/{ZONE}/instances/{second}"
    instances.do("POST", f"{path}/deleteAccessConfig", accessConfig="external-nat", **nic)
    assert address(second) == ""
    assert instances.cloud.try_ssh(before, "true", connect=3).returncode != 0
    assert instances.run(first, "hostname") == first
    instances.do("POST", f"{path}/addAccessConfig", {"name": "mine"}, **nic)
    assert address(second) not in ("", before)
    assert instances.run(second, "hostname") == second
    read = f"{READ}/network-interfaces/0/access-configs/0/external-ip"
    assert instances.run(second, read) == address(second)
    tags = instances.ask("GET", path)["tags"]
    instances.do("POST", f"{path}/setTags", {**tags, "items": ["lab"]})
    assert "lab" in instances.run(second, f"{READ}/tags")
