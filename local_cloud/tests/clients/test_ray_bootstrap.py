"""The first step of `ray up`: bootstrap_gcp, and nodes of what it returns."""

from __future__ import annotations

from typing import Any

import pytest
from cloud_of_clients import LocalCloud
from ray.autoscaler._private.gcp.config import bootstrap_gcp
from ray.autoscaler._private.gcp.node_provider import GCPNodeProvider

FAMILY = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
IMAGE = f"projects/ubuntu-os-accelerator-images/global/images/family/{FAMILY}"
TPU = {"acceleratorType": "v6e-4", "runtimeVersion": "v2-alpha-tpuv6e"}
VM = {
    "machineType": "ct6e-standard-1t",
    "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": IMAGE}}],
    "scheduling": {"onHostMaintenance": "TERMINATE"},
}
TAGS = {"ray-node-name": "ray-c-head", "ray-node-type": "head", "ray-user-node-type": "head"}


def cluster(node: dict[str, Any]) -> dict[str, Any]:
    """Return the file of a cluster, as `ray up` hands it over."""
    return {
        "cluster_name": "c",
        "auth": {"ssh_user": "ubuntu"},
        "provider": {
            "type": "gcp",
            "project_id": LocalCloud.project,
            "region": "us-east5",
            "availability_zone": "us-east5-a",
            "gcp_credentials": {"type": "credentials_token", "credentials": "token"},
        },
        "head_node_type": "head",
        "available_node_types": {"head": {"resources": {}, "node_config": dict(node)}},
    }


@pytest.mark.parametrize("kind", [TPU, VM], ids=["tpu", "vm"])
def test_from_the_first_call_to_a_node(cloud: LocalCloud, kind: dict[str, Any]) -> None:
    found = bootstrap_gcp(cluster(kind))
    assert found["provider"].get("_has_tpus", False) is (kind is TPU)
    node = found["available_node_types"]["head"]["node_config"]
    subnet = node["networkInterfaces"][0]["subnetwork"]
    assert subnet.endswith("/regions/us-east5/subnetworks/default")
    keys = cloud.get(f"compute/v1/projects/{cloud.project}")["commonInstanceMetadata"]["items"]
    assert any(item["key"] == "ssh-keys" for item in keys)
    # What it needs exists now, and is found again.
    again = bootstrap_gcp(cluster(kind))
    assert again["head_node"] == found["head_node"]
    ray = GCPNodeProvider(found["provider"], "c")
    [name] = ray.create_node({**node, **accounts(found, kind)}, TAGS, 1)
    assert [each.rpartition("/")[2] for each in ray.non_terminated_nodes({})] == [name]
    ray.terminate_node(ray.non_terminated_nodes({})[0])
    assert ray.non_terminated_nodes({}) == []


def accounts(found: dict[str, Any], kind: dict[str, Any]) -> dict[str, Any]:
    """Return the service account of the head node, which a TPU has in another form."""
    return {} if kind is TPU else {"serviceAccounts": found["head_node"]["serviceAccounts"]}
