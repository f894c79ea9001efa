"""The first step of `sky launch`: bootstrap_instances, and instances of what it returns."""

from __future__ import annotations

from typing import Any

import pytest
from cloud_of_clients import LocalCloud
from sky.provision import common
from sky.provision.gcp import instance
from sky.provision.gcp.config import bootstrap_instances
from sky.utils.status_lib import ClusterStatus

ZONE = "us-east5-a"
FAMILY = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
IMAGE = f"projects/ubuntu-os-accelerator-images/global/images/family/{FAMILY}"
TPU = {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e", "labels": {}}
VM = {
    "machineType": "ct6e-standard-1t",
    "labels": {},
    "metadata": {"items": []},
    "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": IMAGE}}],
}


def wish(node: dict[str, Any]) -> common.ProvisionConfig:
    return common.ProvisionConfig(
        provider_config={"project_id": LocalCloud.project, "availability_zone": ZONE},
        authentication_config={},
        docker_config={},
        node_config={**node, "labels": {}},
        count=1,
        tags={"team": "vision"},
        resume_stopped_nodes=True,
        ports_to_open_on_launch=None,
    )


@pytest.mark.parametrize("kind", [TPU, VM], ids=["tpu", "vm"])
def test_from_the_first_call_to_an_instance(cloud: LocalCloud, kind: dict[str, Any]) -> None:
    config = bootstrap_instances("us-east5", "c", wish(kind))
    assert config.provider_config.get("_has_tpus", False) is (kind is TPU)
    subnet = config.node_config["networkInterfaces"][0]["subnetwork"]
    assert subnet.endswith("/regions/us-east5/subnetworks/default")
    # It found the network that there is, because its firewall rules are those it needs.
    networks = cloud.get(f"compute/v1/projects/{cloud.project}/global/networks")["items"]
    assert [network["name"] for network in networks] == ["default"]
    record = instance.run_instances("us-east5", "c", "c", config)
    assert len(record.created_instance_ids) == 1
    found = instance.query_instances("c", "c", config.provider_config, False)
    assert [status for status, _ in found.values()] == [ClusterStatus.UP]
    # It finds its service account again, with the roles that it has given to it.
    again = bootstrap_instances("us-east5", "c", wish(kind))
    for key in ("serviceAccount", "serviceAccounts"):
        assert again.node_config.get(key) == config.node_config.get(key)
    instance.terminate_instances("c", config.provider_config)
    assert instance.query_instances("c", "c", config.provider_config, False) == {}
