"""The bodies that create slices are as Google's discovery document says, and have our defaults."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.groups import Mark
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_bodies import (
    Shape,
    slice_bodies,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import BadRequest
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import DataDisk
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.answers import (
    ZONE,
    bodies,
    spec,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.discovery import (
    compares,
    problems,
)

SCHEMA_OF = {
    "instance": "Instance",
    "policy": "ResourcePolicy",
    "template": "InstanceTemplate",
    "group": "InstanceGroupManager",
}
TIERS: dict[str, dict[str, Any]] = {
    "on_demand": {},
    "spot": {"max_run_duration": "4h"},
    "flex_start": {"max_run_duration": "2d", "valid_for": 3600.0},
    "reserved": {"reservation": "res1"},
    "calendar": {"reservation": "res1"},
}
SHAPES = [
    ("ct6e-standard-1t", "", "v6e-1"),
    ("ct6e-standard-4t", "2x2", "v6e-4"),
    ("ct6e-standard-8t", "2x4", "v6e-8"),
    ("ct6e-standard-4t", "2x4", "v6e-8"),
    ("ct6e-standard-4t", "4x4", "v6e-16"),
    ("tpu7x-standard-4t", "2x2x1", "v7x-8"),
    ("tpu7x-standard-4t", "2x2x2", "v7x-16"),
    ("ct5p-hightpu-4t", "2x2x2", "v5p-16"),
]
DISKS = (
    DataDisk(f"projects/p/zones/{ZONE}/disks/data", "READ_ONLY"),
    DataDisk(f"projects/p/zones/{ZONE}/disks/mine", "READ_WRITE"),
    DataDisk(f"projects/p/zones/{ZONE}/disks/its", "READ_ONLY", ("1",)),
)


def one(shape: Shape | None = None, **rest: Any) -> dict[str, Any]:
    """Return the body of a slice of one machine."""
    found: dict[str, Any] = slice_bodies(spec("one", **rest), shape or Shape("ct6e-standard-1t"))[
        "instance"
    ]
    return found


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("kind", "topology", "accelerator_type"), SHAPES)
def test_bodies_are_as_the_discovery_document_says(
    kind: str, topology: str, accelerator_type: str, tier: str
) -> None:
    shape = Shape(kind, topology, tier, **TIERS[tier])
    assert shape.accelerator_type == accelerator_type
    wanted = spec(
        accelerator_type=accelerator_type,
        description="mine",
        labels={"team": "a"},
        metadata={"k": "v"},
        tags=("ssh",),
        data_disks=DISKS,
        ssh_keys=("me:ssh-ed25519 AAAA me",),
        startup_script="true",
    )
    found = slice_bodies(wanted, shape)
    assert set(found) == ({"instance"} if shape.workers == 1 else {"policy", "template", "group"})
    for name, body in found.items():
        assert problems(SCHEMA_OF[name], body) == []


@compares
def test_the_check_of_bodies_finds_what_is_wrong() -> None:
    body = bodies()["group"]
    body["targetSizePolicy"]["mode"] = "BULKY"
    body["targetSize"] = "4"
    body["sizes"] = 4
    assert len(problems("InstanceGroupManager", body)) == 3


def test_defaults_that_google_does_not_give() -> None:
    body = one()
    boot, network = body["disks"][0], body["networkInterfaces"][0]
    assert boot["initializeParams"]["diskSizeGb"] == "100"
    assert boot["initializeParams"]["diskType"] == f"zones/{ZONE}/diskTypes/hyperdisk-balanced"
    assert boot["initializeParams"]["sourceImage"] == (
        "projects/ubuntu-os-accelerator-images/global/images/family/"
        "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
    )
    assert network["nicType"] == "GVNIC"
    assert network["network"] == "global/networks/default"
    assert network["accessConfigs"] == [{"name": "external-nat", "type": "ONE_TO_ONE_NAT"}]
    assert "serviceAccounts" not in body  # and so the users of the machine get no token
    assert body["scheduling"]["onHostMaintenance"] == "TERMINATE"
    assert body["metadata"]["items"] == [{"key": "enable-guest-attributes", "value": "TRUE"}]
    assert body["machineType"] == f"zones/{ZONE}/machineTypes/ct6e-standard-1t"
    assert "advancedMachineFeatures" not in body


def test_what_types_want() -> None:
    features = one(Shape("ct6e-standard-8t"))["advancedMachineFeatures"]
    assert features == {"threadsPerCore": 1}
    disk = one(Shape("ct5p-hightpu-4t"))["disks"][0]["initializeParams"]
    assert disk["diskType"].endswith("/pd-balanced")
    image = one(Shape("tpu7x-standard-4t"))["disks"][0]["initializeParams"]["sourceImage"]
    assert image.endswith("/family/ubuntu-accel-2404-amd64-tpu-tpu7x")


def test_what_the_spec_says() -> None:
    body = one(
        boot_disk_size_gb=200,
        external_ips=False,
        subnetwork="inner",
        service_account="me@p.iam.gserviceaccount.com",
        data_disks=DISKS[:1],
        labels={"team": "a"},
    )
    assert body["disks"][0]["initializeParams"]["diskSizeGb"] == "200"
    assert body["disks"][1]["source"] == f"projects/p/zones/{ZONE}/disks/data"
    assert body["disks"][1]["autoDelete"] is False
    assert body["disks"][1]["deviceName"] == "data"
    (network,) = body["networkInterfaces"]
    assert network == {"nicType": "GVNIC", "subnetwork": "regions/us-central1/subnetworks/inner"}
    assert body["serviceAccounts"] == [
        {
            "email": "me@p.iam.gserviceaccount.com",
            "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
        }
    ]
    assert body["labels"]["team"] == "a"
    assert body["labels"]["tpu-fleet"] == "lab"
    assert body["labels"]["tpu-fleet-slice"] == "one"


def test_tiers_of_one_machine() -> None:
    spot = one(Shape("ct6e-standard-1t", tier="spot"))["scheduling"]
    assert (spot["provisioningModel"], spot["preemptible"]) == ("SPOT", True)
    assert spot["automaticRestart"] is False
    flex = one(Shape("ct6e-standard-1t", tier="flex_start", max_run_duration="4h"))
    assert flex["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": "FLEX_START",
        "instanceTerminationAction": "DELETE",
        "maxRunDuration": {"seconds": "14400"},
    }
    assert flex["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert flex["params"] == {"requestValidForDuration": {"seconds": "7200"}}
    reserved = one(Shape("ct6e-standard-1t", tier="reserved", reservation="res1"))
    assert reserved["scheduling"]["provisioningModel"] == "RESERVATION_BOUND"
    assert reserved["reservationAffinity"]["values"] == ["res1"]
    # The reservation says when it ends.
    assert one(Shape("ct6e-standard-1t", tier="calendar", reservation="res1")) == reserved
    for tier in ("on_demand", "spot", "reserved", "calendar"):
        shape = Shape("ct6e-standard-1t", tier=tier, **TIERS[tier])
        assert "params" not in one(shape)
        assert "tpu-fleet-wait" not in one(shape)["labels"]


@pytest.mark.parametrize(("valid_for", "seconds"), [(None, 7200), (600.0, 600), (9e5, 7200)])
def test_how_long_a_request_waits(valid_for: float | None, seconds: int) -> None:
    body = one(Shape("ct6e-standard-1t", tier="flex_start", valid_for=valid_for))
    assert body["params"]["requestValidForDuration"] == {"seconds": str(seconds)}
    assert body["labels"]["tpu-fleet-wait"] == str(seconds)


def test_a_group_makes_all_machines_at_once() -> None:
    found = bodies(Shape("ct6e-standard-4t", "4x4", "flex_start", "1d"))
    group, template = found["group"], found["template"]
    assert group["targetSizePolicy"] == {"mode": "BULK"}
    assert group["targetSize"] == 4
    assert group["instanceLifecyclePolicy"] == {"defaultActionOnFailure": "DO_NOTHING"}
    # A bare name is refused: "The URL is malformed."
    policy = "projects/p/regions/us-central1/resourcePolicies/big"
    assert group["resourcePolicies"] == {"workloadPolicy": policy}
    assert group["instanceTemplate"] == "projects/p/regions/us-central1/instanceTemplates/big"
    assert found["policy"]["workloadPolicy"] == {
        "type": "HIGH_THROUGHPUT",
        "acceleratorTopology": "4x4",
    }
    properties = template["properties"]
    assert properties["machineType"] == "ct6e-standard-4t"
    assert properties["disks"][0]["initializeParams"]["diskType"] == "hyperdisk-balanced"
    # Only a request for one machine may say how long it waits.
    assert "params" not in properties


def test_machines_are_made_again_where_that_is_declared_and_possible() -> None:
    for tier, action in (("on_demand", "REPAIR"), ("flex_start", "DO_NOTHING")):
        shape = Shape("ct6e-standard-4t", "4x4", tier, repair=True)
        policy = bodies(shape)["group"]["instanceLifecyclePolicy"]
        assert policy == {"defaultActionOnFailure": action}


def test_a_template_has_only_disks_that_all_machines_can_have() -> None:
    disks = bodies(data_disks=DISKS)["template"]["properties"]["disks"]
    assert [disk.get("source") for disk in disks] == [None, "data"]


def test_a_long_name_leaves_room_for_the_suffix() -> None:
    name = f"{'a' * 57}-{'b' * 5}"
    found = slice_bodies(spec(name), Shape("ct6e-standard-4t", "4x4"))
    assert found["group"]["name"] == name
    assert found["group"]["baseInstanceName"] == "a" * 57


def test_parts_say_whose_they_are_and_what_they_were_made_from() -> None:
    mark = Mark.read(bodies()["template"]["description"])
    assert mark is not None
    assert (mark.slice, mark.zone, mark.owner) == ("big", ZONE, "lab")
    same = Mark.read(bodies()["template"]["description"])
    other = Mark.read(bodies(startup_script="false")["template"]["description"])
    assert same is not None
    assert other is not None
    assert mark.is_like(same)
    assert not mark.is_like(other)
    assert Mark.read(str(mark)) == mark


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("res1", "res1"),
        (f"projects/p/zones/{ZONE}/reservations/res1", "res1"),
        (f"projects/other/zones/{ZONE}/reservations/res1", "projects/other/reservations/res1"),
        ("projects/other/reservations/res1", "projects/other/reservations/res1"),
    ],
)
def test_names_of_reservations(name: str, value: str) -> None:
    body = one(Shape("ct6e-standard-1t", tier="reserved", reservation=name))
    assert body["reservationAffinity"]["values"] == [value]


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        (Shape("n2-standard-8"), "machine_type"),
        (Shape("ct6e-standard-4t", "3x3"), "topology"),
        (Shape("ct6e-standard-1t", "4x4"), "topology"),
        (Shape("ct6e-standard-1t", tier="preemptible"), "tier"),
        (Shape("ct6e-standard-1t", tier="reserved"), "reservation"),
        (Shape("ct6e-standard-1t", tier="calendar"), "reservation"),
        (Shape("ct6e-standard-1t", reservation="res1"), "reservation"),
        (Shape("ct6e-standard-1t", tier="flex_start", max_run_duration="8d"), "max_run_duration"),
        (Shape("ct6e-standard-1t", tier="flex_start", max_run_duration="5m"), "max_run_duration"),
        (Shape("ct6e-standard-1t", max_run_duration="soon"), "max_run_duration"),
    ],
)
def test_what_no_zone_accepts_is_refused(shape: Shape, field: str) -> None:
    with pytest.raises(BadRequest, match=field):
        slice_bodies(spec(), shape)
