"""What is read from a request for an instance."""

from __future__ import annotations

from typing import Any

import pytest
from clouds import a_cloud

from tpu_local_cloud.compute_api import instance_request, values
from tpu_local_cloud.compute_errors import ComputeError
from tpu_local_cloud.model.cloud import Cloud

ZONE = "us-east5-a"
BOOT = {"boot": True, "autoDelete": True, "initializeParams": {"diskSizeGb": "100"}}


@pytest.fixture
def cloud() -> Cloud:
    return a_cloud("manual")


def asked(**more: Any) -> dict[str, Any]:
    kind = more.pop("kind", "ct6e-standard-4t")
    return {
        "machineType": f"zones/{ZONE}/machineTypes/{kind}",
        "disks": [BOOT],
        "networkInterfaces": [{}],
        **more,
    }


@pytest.mark.parametrize(
    ("scheduling", "tier"),
    [
        ({}, {"provisioningModel": "STANDARD"}),
        ({"preemptible": True}, {"spot": True, "provisioningModel": "SPOT"}),
        ({"provisioningModel": "SPOT"}, {"spot": True, "provisioningModel": "SPOT"}),
        (
            {"provisioningModel": "FLEX_START", "maxRunDuration": {"seconds": "600"}},
            {"provisioningModel": "FLEX_START"},
        ),
        (
            {"provisioningModel": "RESERVATION_BOUND"},
            {"reserved": True, "provisioningModel": "RESERVATION_BOUND"},
        ),
    ],
)
def test_the_tier(cloud: Cloud, scheduling: dict[str, Any], tier: dict[str, Any]) -> None:
    found = instance_request.read(cloud, ZONE, asked(scheduling=scheduling))
    assert found.body["schedulingConfig"] == tier


def test_a_body_like_a_nodes(cloud: Cloud) -> None:
    found = instance_request.read(
        cloud,
        ZONE,
        asked(
            labels={"owner": "lab"},
            metadata={"items": [{"key": "a", "value": "b"}]},
            serviceAccounts=[{"email": "default", "scopes": ["https://x/y"]}],
            networkInterfaces=[{"accessConfigs": [{}]}],
            tags={"items": ["t"]},
            disks=[BOOT, {"source": f"zones/{ZONE}/disks/data", "mode": "READ_ONLY"}],
        ),
        "4x4",
    )
    assert found.body == {
        "acceleratorType": "v6e-16",
        "labels": {"owner": "lab"},
        "metadata": {"a": "b"},
        "schedulingConfig": {"provisioningModel": "STANDARD"},
        "serviceAccount": {
            "email": "123456789012-compute@developer.gserviceaccount.com",
            "scope": ["https://x/y"],
        },
        "networkConfig": {"enableExternalIps": True},
        "tags": ["t"],
        "dataDisks": [
            {
                "sourceDisk": f"projects/local-project/zones/{ZONE}/disks/data",
                "mode": "READ_ONLY",
                "deviceName": "persistent-disk-1",
                "autoDelete": False,
            }
        ],
    }
    assert found.compute["topology"] == "4x4"


@pytest.mark.parametrize(
    ("kind", "disk", "refused"),
    [
        ("ct6e-standard-4t", "pd-balanced", True),
        ("ct6e-standard-4t", "hyperdisk-balanced", False),
        ("ct5p-hightpu-4t", "pd-balanced", False),
        ("ct5p-hightpu-4t", "hyperdisk-balanced", True),
    ],
)
def test_boot_disks_by_machine_type(cloud: Cloud, kind: str, disk: str, refused: bool) -> None:
    boot = {**BOOT, "initializeParams": {"diskType": f"zones/{ZONE}/diskTypes/{disk}"}}
    body = asked(kind=kind, disks=[boot])
    if not refused:
        instance_request.read(cloud, ZONE, body)
        return
    with pytest.raises(ComputeError, match=f"{disk}. features are not compatible"):
        instance_request.read(cloud, ZONE, body)


@pytest.mark.parametrize(("duration", "seconds"), [({"seconds": "90"}, 90.0), (None, 0.0)])
def test_how_long_a_request_waits(duration: Any, seconds: float) -> None:
    assert instance_request.wait_of({"params": {"requestValidForDuration": duration}}) == seconds


def test_a_metadata_key_is_there_once() -> None:
    items = [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]
    with pytest.raises(ComputeError, match="Duplicate metadata key"):
        values.read_metadata({"items": items})
