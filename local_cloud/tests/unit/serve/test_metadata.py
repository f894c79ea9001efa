"""What a worker reads of itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from clouds import a_cloud

from tpu_local_cloud.compute_api import instance_request
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.records import NodeRecord
from tpu_local_cloud.serve import metadata

IMAGE = (
    "projects/ubuntu-os-accelerator-images/global/images/family/"
    "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
)
ZONES = {"v4": "us-central2-b", "v5p": "us-central1-a", "v5litepod": "us-central1-a"}
ZONES |= {"v6e": "us-east1-d", "v2": "us-central1-f", "v3": "europe-west4-a"}


def made(accelerator_type: str, **more: Any) -> tuple[Cloud, NodeRecord]:
    cloud = a_cloud()
    zone = ZONES[accelerator_type.split("-")[0]]
    body = {
        "acceleratorType": accelerator_type,
        "runtimeVersion": "tpu-ubuntu2204-base",
        "networkConfig": {"enableExternalIps": True},
        **more,
    }
    cloud.create(zone, "n1", body, "v2")
    return cloud, cloud.node(zone, "n1")


def environment(accelerator_type: str, worker: int = 0) -> dict[str, str]:
    text = metadata.tpu_env(*made(accelerator_type), worker)
    pairs = (line.split(": ", 1) for line in text.splitlines())
    return {key: value.strip("'") for key, value in pairs}


@pytest.mark.parametrize(
    ("accelerator_type", "per_host", "hosts", "topology"),
    [
        ("v4-8", "2,2,1", "1,1,1", "2x2x1"),
        ("v4-16", "2,2,1", "1,1,2", "2x2x2"),
        ("v4-256", "2,2,1", "2,2,8", "4x4x8"),
        ("v5p-128", "2,2,1", "2,2,4", "4x4x4"),
        ("v2-8", "2,2,1", "1,1,1", "2x2"),
        ("v3-32", "2,2,1", "2,2,1", "4x4"),
        ("v5litepod-1", "1,1,1", "1,1,1", "1x1"),
        ("v5litepod-8", "2,4,1", "1,1,1", "2x4"),
        ("v5litepod-16", "2,2,1", "2,2,1", "4x4"),
        ("v6e-32", "2,2,1", "2,4,1", "4x8"),
    ],
)
def test_how_the_chips_lie(accelerator_type: str, per_host: str, hosts: str, topology: str) -> None:
    found = environment(accelerator_type)
    assert found["CHIPS_PER_HOST_BOUNDS"] == per_host
    assert found["HOST_BOUNDS"] == hosts
    assert found["TOPOLOGY"] == topology
    assert found["ACCELERATOR_TYPE"] == accelerator_type


def test_tpu_env_names_node_and_worker() -> None:
    cloud, node = made("v4-16", schedulingConfig={"spot": True})
    text = metadata.tpu_env(cloud, node, 1)
    for line in (
        "WORKER_ID: '1'",
        "NODE_ID: 'n1'",
        f"UID: '{node.uid}'",
        "ZONE: 'us-central2-b'",
        "PREEMPTIBLE: 'true'",
        "TYPE: 'V4'",
        "CONSUMER_PROJECT_ID: 'local-project'",
        "RUNTIME_VERSION: 'tpu-ubuntu2204-base'",
    ):
        assert line in text.splitlines()


def test_every_worker_knows_all_in_order() -> None:
    cloud, node = made("v4-16")
    for worker in (0, 1):
        found = metadata.attributes(cloud, node, worker)
        triples = [entry.split(":") for entry in found["worker-network-endpoints"].split(",")]
        assert [triple[2] for triple in triples] == [m["internal_ip"] for m in node.machines]
        assert found["agent-worker-number"] == found["worker-id"] == str(worker)
        assert found["instance-id"] == "n1"


def test_the_owners_metadata_does_not_hide_the_services() -> None:
    cloud, node = made("v4-8", metadata={"startup-script": "true", "worker-id": "77"})
    found = metadata.attributes(cloud, node, 0)
    assert (found["startup-script"], found["worker-id"]) == ("true", "0")


def test_the_whole_tree_is_spelled_as_googles() -> None:
    cloud, node = made("v4-8", metadata={"ssh-keys": "me:key"})
    cloud.set_project_metadata({"ssh-keys": "you:key"})
    whole = json.loads(json.dumps(metadata.camel(metadata.tree(cloud, node, 0))))
    instance, project = whole["instance"], whole["project"]
    access = instance["networkInterfaces"][0]["accessConfigs"][0]
    assert access["externalIp"] == node.machines[0]["external_ip"]
    assert instance["attributes"]["ssh-keys"] == "me:key"
    assert instance["maintenanceEvent"] == "NONE"
    assert project["attributes"] == {"ssh-keys": "you:key"}
    assert (project["projectId"], project["numericProjectId"]) == ("local-project", 123456789012)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instance/attributes/worker-id", "0"),
        ("instance/preempted", "FALSE"),
        ("instance/zone", "projects/123456789012/zones/us-central2-b"),
        ("project/project-id", "local-project"),
    ],
)
def test_paths(path: str, value: str) -> None:
    cloud, node = made("v4-8")
    assert metadata.find(metadata.tree(cloud, node, 0), path.split("/")) == value


@pytest.mark.parametrize(
    "path",
    ["instance/attributes/none", "instance/name/more", "instance/network-interfaces/7", "x"],
)
def test_paths_that_are_not_there(path: str) -> None:
    cloud, node = made("v4-8")
    with pytest.raises(KeyError):
        metadata.find(metadata.tree(cloud, node, 0), path.split("/"))


def test_directories_are_listed() -> None:
    assert metadata.listing({"a": "x", "b": {}, "c": [{}]}) == "a\nb/\nc/\n"


# Instances of Compute Engine ------------------------------------------------------------------


def instance(**more: Any) -> tuple[Cloud, NodeRecord]:
    cloud = a_cloud()
    asked = {
        "machineType": "zones/us-east5-a/machineTypes/ct6e-standard-1t",
        "disks": [{"boot": True, "initializeParams": {"sourceImage": IMAGE}}],
        "metadata": {"items": [{"key": "mine", "value": "yes"}]},
        "networkInterfaces": [{"network": "global/networks/default"}],
        **more,
    }
    read = instance_request.read(cloud, "us-east5-a", asked)
    cloud.compute.insert("us-east5-a", "one", read.body, read.compute, 0.0)
    return cloud, cloud.compute.instance("us-east5-a", "one")[0]


def test_an_instance_reads_its_metadata_as_the_api_shows_it() -> None:
    cloud, node = instance()
    found = metadata.tree(cloud, node, 0)["instance"]
    assert found["attributes"] == node.machines[0]["metadata"]
    assert found["attributes"]["mine"] == "yes"
    assert found["attributes"]["worker-network-endpoints"] == "one"
    assert "worker-id" not in found["attributes"]


def test_an_instance_knows_its_name_and_id() -> None:
    cloud, node = instance()
    found = metadata.tree(cloud, node, 0)["instance"]
    assert (found["name"], str(found["id"])) == ("one", node.uid)
    assert found["hostname"] == "one.us-east5-a.c.local-project.internal"
    assert found["machine-type"] == "projects/123456789012/machineTypes/ct6e-standard-1t"
    assert found["image"] == IMAGE
    assert found["zone"] == "projects/123456789012/zones/us-east5-a"


@pytest.mark.parametrize("has", [True, False])
def test_an_instance_has_the_account_that_it_was_given(has: bool) -> None:
    accounts = [{"email": "a@b.c", "scopes": ["https://x/y"]}] if has else []
    cloud, node = instance(serviceAccounts=accounts)
    found = metadata.tree(cloud, node, 0)["instance"]["service-accounts"]
    account = {"aliases": ["default"], "email": "a@b.c", "scopes": ["https://x/y"]}
    assert found == ({"a@b.c": account, "default": account} if has else {})


def test_an_instance_reads_its_disks_and_its_card() -> None:
    cloud, node = instance()
    found = metadata.tree(cloud, node, 0)
    [disk] = found["instance"]["disks"]
    assert (disk["device-name"], disk["index"]) == ("persistent-disk-0", 0)
    [card] = found["instance"]["network-interfaces"]
    assert card["mac"].startswith("42:01:0a:")
    assert (card["gateway"], card["mtu"]) == ("10.202.0.1", 1460)
    assert found["instance"]["scheduling"]["automatic-restart"] == "TRUE"
    assert found["universe"] == {"universe-domain": "googleapis.com"}


@pytest.mark.parametrize(
    ("zone", "kind", "expected"),
    [
        ("us-central2-b", "v4-16", "ct4p-hightpu-4t"),
        ("us-east5-a", "v6e-8", "ct6e-standard-8t"),
        ("us-east5-a", "v5litepod-16", "ct5lp-hightpu-4t"),
    ],
)
def test_the_machine_type_of_a_node(zone: str, kind: str, expected: str) -> None:
    cloud = a_cloud()
    body = {"acceleratorType": kind, "runtimeVersion": "tpu-ubuntu2204-base"}
    cloud.create(zone, "n", body, "v2")
    found = metadata.tree(cloud, cloud.node(zone, "n"), 0)["instance"]
    assert found["machine-type"].endswith(f"/machineTypes/{expected}")
