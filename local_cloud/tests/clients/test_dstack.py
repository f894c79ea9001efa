"""dstack's backend for GCP: GCPCompute, by google-cloud-tpu over gRPC and google-cloud-compute."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from cloud_of_clients import LocalCloud
from dstack._internal.core.backends.gcp.compute import GCPCompute
from dstack._internal.core.backends.gcp.models import GCPConfig, GCPDefaultCreds
from dstack._internal.core.errors import NoCapacityError, ProvisioningError
from dstack._internal.core.models.backends.base import BackendType
from dstack._internal.core.models.instances import (
    Gpu,
    InstanceAvailability,
    InstanceConfiguration,
    InstanceOfferWithAvailability,
    InstanceType,
    Resources,
    SSHKey,
)
from dstack._internal.core.models.resources import Memory
from dstack._internal.core.models.volumes import (
    GCPVolumeConfiguration,
    Volume,
    VolumeProvisioningData,
    VolumeStatus,
)
from google.api_core import exceptions
from google.cloud import compute_v1

# The first has what the second is asked for when it is full.
ZONES = ["us-east5-a", "us-east5-b"]


@pytest.fixture
def dstack(cloud: LocalCloud) -> GCPCompute:
    config = {"project_id": cloud.project, "regions": ["us-east5"], "tpu": True}
    return GCPCompute(GCPConfig(creds=GCPDefaultCreds(), **config))


def create(dstack: GCPCompute, kind: str = "v6e-8", spot: bool = False, **wish: Any) -> Any:
    gpu = Gpu(name=kind, memory_mib=32 * 1024)
    resources = Resources(cpus=1, memory_mib=1024, gpus=[gpu], spot=spot)
    offer = InstanceOfferWithAvailability(
        backend=BackendType.GCP,
        instance=InstanceType(name=kind, resources=resources),
        region="us-east5",
        price=1,
        availability=InstanceAvailability.UNKNOWN,
        availability_zones=ZONES,
    )
    configuration = InstanceConfiguration(
        project_name="main",
        instance_name="trainer",
        user="ada",
        ssh_keys=[SSHKey(public="ssh-ed25519 AAAA ada")],
        **wish,
    )
    return dstack.create_instance(offer, configuration, None)


def test_a_life(cloud: LocalCloud, dstack: GCPCompute) -> None:
    data = create(dstack, spot=True)
    assert data.availability_zone == ZONES[0]
    assert data.hostname is None
    dstack.update_provisioning_data(data, "", "")
    [node] = cloud.control("state", method="GET")["nodes"]
    assert data.hostname == node["workers"][0]["external_ip"]
    assert data.internal_ip == node["workers"][0]["internal_ip"]
    name = f"projects/{cloud.project}/locations/{ZONES[0]}/nodes/{data.instance_id}"
    made = dstack.tpu_client.get_node(name=name)
    assert made.scheduling_config.preemptible
    assert made.labels["dstack_name"] == "trainer"
    assert made.runtime_version == "v2-alpha-tpuv6e"
    assert "ubuntu:ssh-ed25519 AAAA ada" in made.metadata["ssh-keys"]
    dstack.terminate_instance(data.instance_id, data.region, data.backend_data)
    assert cloud.nodes() == []
    dstack.terminate_instance(data.instance_id, data.region, data.backend_data)
    with pytest.raises(ProvisioningError, match="not found"):
        dstack.update_provisioning_data(data, "", "")


def volume(name: str, zone: str) -> Volume:
    return Volume(
        id=uuid.uuid4(),
        name=name,
        user="ada",
        project_name="main",
        configuration=GCPVolumeConfiguration(
            region=zone[:-2], name=name, size=Memory.parse("20GB")
        ),
        external=False,
        created_at=datetime.now(UTC),
        last_processed_at=datetime.now(UTC),
        status=VolumeStatus.ACTIVE,
        deleted=False,
        volume_id=name,
        provisioning_data=VolumeProvisioningData(
            volume_id=name, size_gb=20, availability_zone=zone
        ),
    )


def test_disks_are_attached_and_detached(cloud: LocalCloud, dstack: GCPCompute) -> None:
    for name in ("data", "more"):
        disk = compute_v1.Disk(name=name, size_gb=20)
        dstack.disk_client.insert(project=cloud.project, zone=ZONES[0], disk_resource=disk).result(
            60
        )
    kept, other = volume("data", ZONES[0]), volume("more", ZONES[0])
    data = create(dstack, "v5litepod-8", volumes=[kept])
    assert dstack.attach_volume(kept, data).device_name == "persistent-disk-1"
    other.attachment_data = dstack.attach_volume(other, data)
    assert other.attachment_data.device_name == "persistent-disk-2"
    name = f"projects/{cloud.project}/locations/{ZONES[0]}/nodes/{data.instance_id}"
    disks = [disk.source_disk for disk in dstack.tpu_client.get_node(name=name).data_disks]
    assert [each.rpartition("/")[2] for each in disks] == ["data", "more"]
    dstack.detach_volume(other, data)
    assert dstack.is_volume_detached(other, data)
    assert len(dstack.tpu_client.get_node(name=name).data_disks) == 1


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("stock_out", {}),
        ("quota", {"limit": 0}),
        ("rate_limit", {}),
        ("unavailable", {}),
        ("reservation_missing", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_it_takes_for_a_full_zone_leads_to_the_next(
    cloud: LocalCloud, dstack: GCPCompute, fault: str, options: dict[str, Any]
) -> None:
    cloud.fault(fault, match={"zone": ZONES[0]}, options=options)
    data = create(dstack)
    cloud.mend()
    assert data.availability_zone == ZONES[1]
    assert json.loads(data.backend_data) == {"is_tpu": True, "zone": ZONES[1]}
    assert cloud.nodes() == [(ZONES[1], "READY")]


def test_without_a_zone_that_has_capacity(cloud: LocalCloud, dstack: GCPCompute) -> None:
    cloud.fault("stock_out")
    with pytest.raises(NoCapacityError):
        create(dstack)


def test_what_is_no_lack_of_capacity_is_said(cloud: LocalCloud, dstack: GCPCompute) -> None:
    cloud.fault("iam_denied", match={"permission": "tpu.nodes.create"})
    with pytest.raises(exceptions.PermissionDenied, match=r"Permission 'tpu\.nodes\.create'"):
        create(dstack)
