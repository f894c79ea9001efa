"""SkyPilot's provisioner for GCP, GCPTPUVMInstance, and the handler that goes by its errors."""

from __future__ import annotations

from typing import Any

import pytest
from cloud_of_clients import HOME, LocalCloud
from sky import clouds, resources
from sky.backends.cloud_vm_ray_backend import FailoverCloudErrorHandlerV2
from sky.provision import common
from sky.provision.gcp import instance
from sky.provision.gcp.instance_utils import GCPTPUVMInstance
from sky.utils.status_lib import ClusterStatus

ZONE, ELSEWHERE = "us-east5-a", "europe-west4-a"
NODE = {
    "acceleratorType": "v6e-8",
    "runtimeVersion": "v2-alpha-tpuv6e",
    "networkConfig": {"enableExternalIps": True},
    "labels": {},
}

# Which types are where, at which price: what SkyPilot gets from its own site else.
CATALOG = """\
InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice
TPU-VM,240,400,tpu-v6e-8,1,,us-east5,us-east5-a,12.9,5.1
TPU-VM,240,400,tpu-v6e-8,1,,europe-west4,europe-west4-a,12.9,5.1
"""


@pytest.fixture(scope="module", autouse=True)
def _catalog() -> None:
    kept = HOME / ".sky/catalogs/v8/gcp/vms.csv"
    kept.parent.mkdir(parents=True)
    kept.write_text(CATALOG)


def provider(zone: str = ZONE) -> dict[str, Any]:
    return {"project_id": LocalCloud.project, "availability_zone": zone, "_has_tpus": True}


def run(count: int = 1, zone: str = ZONE, **node: Any) -> common.ProvisionRecord:
    config = common.ProvisionConfig(
        provider_config=provider(zone),
        authentication_config={},
        docker_config={},
        node_config={**NODE, "labels": {}, **node},
        count=count,
        tags={"team": "vision"},
        resume_stopped_nodes=True,
        ports_to_open_on_launch=None,
    )
    return instance.run_instances(zone[:-2], "c", "c", config)


def status(zone: str = ZONE) -> list[ClusterStatus]:
    return [each for each, _ in instance.query_instances("c", "c", provider(zone), False).values()]


def test_a_life(cloud: LocalCloud) -> None:
    record = run(2)
    assert len(record.created_instance_ids) == 2
    assert status() == [ClusterStatus.UP] * 2
    info = instance.get_cluster_info("us-east5", "c", provider())
    assert str(info.head_instance_id).endswith(f"/{record.head_instance_id}")
    name = record.created_instance_ids[0]
    name = f"projects/{cloud.project}/locations/{ZONE}/nodes/{name.rpartition('/')[2]}"
    GCPTPUVMInstance.set_labels(cloud.project, ZONE, name, {"phase": "two"})
    found = GCPTPUVMInstance.filter(cloud.project, ZONE, {"phase": "two", "team": "vision"}, None)
    assert list(found) == [name]
    GCPTPUVMInstance.add_network_tag_if_not_exist(cloud.project, ZONE, name, "sky-ports")
    assert GCPTPUVMInstance.filter(cloud.project, ZONE, None, None)[name]["tags"] == ["sky-ports"]
    assert GCPTPUVMInstance.get_vpc_name(cloud.project, ZONE, name) == "default"
    instance.stop_instances("c", provider())
    assert status() == [ClusterStatus.STOPPED] * 2
    resumed = run(2)
    assert len(resumed.resumed_instance_ids) == 2
    assert status() == [ClusterStatus.UP] * 2
    instance.terminate_instances("c", provider())
    assert cloud.nodes() == []


def test_a_queued_resource(cloud: LocalCloud) -> None:
    run(gcp_queued_resource=True, schedulingConfig={"preemptible": True})
    assert cloud.nodes() == [(ZONE, "READY")]
    [queued] = cloud.control("state", method="GET")["queued_resources"]
    assert queued["state"] == "ACTIVE"


def test_a_queued_resource_over_quota(cloud: LocalCloud) -> None:
    cloud.fault("quota", limit=0)
    with pytest.raises(common.ProvisionerError) as caught:
        run(gcp_queued_resource=True)
    assert [error["code"] for error in caught.value.errors] == [
        "type.googleapis.com/google.rpc.QuotaFailure"
    ]


def blocked(error: Exception, zone: str = ZONE) -> list[tuple[str | None, str | None]]:
    """Return what the handler does not try again: region and zone, or all."""
    wish = resources.Resources(
        cloud=clouds.GCP(),
        instance_type="TPU-VM",
        accelerators={"tpu-v6e-8": 1},
        region=zone[:-2],
        zone=zone,
    )
    found: set[Any] = set()
    region = clouds.Region(zone[:-2])
    FailoverCloudErrorHandlerV2.update_blocklist_on_error(
        found, wish, region, [clouds.Zone(zone)], error
    )
    return [(each.region, each.zone) for each in found]


@pytest.mark.parametrize(
    ("fault", "options", "expected"),
    [
        ("stock_out", {}, [("us-east5", ZONE)]),
        ("quota", {"limit": 0}, [("us-east5", ZONE)]),
        ("quota", {"limit": 0, "scope": "region"}, [("us-east5", None)]),
        ("location_denied", {"wording": "old"}, [("us-east5", ZONE)]),
        ("reservation_full", {}, [("us-east5", ZONE)]),
        ("iam_denied", {}, [(None, None)]),
    ],
    ids=["stock-out", "quota", "region-quota", "location", "reservation", "iam"],
)
def test_it_fails_over_by_the_branch_that_is_made_for_it(
    cloud: LocalCloud,
    fault: str,
    options: dict[str, Any],
    expected: list[tuple[str | None, str | None]],
) -> None:
    cloud.fault(fault, match={"zone": ZONE}, options=options)
    with pytest.raises(common.ProvisionerError) as caught:
        run()
    assert blocked(caught.value) == expected
    # What it does with the zone that is left.
    run(zone=ELSEWHERE)
    assert cloud.nodes() == [(ELSEWHERE, "READY")]
