"""How an instance is read, and which node it is."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.instance import (
    STATES,
    Instance,
    node_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_plan import plan
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.answers import (
    HOME,
    ZONE,
    instance,
    metadata,
    spec,
    tpu_env,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.discovery import (
    compares,
    schemas,
)

SPOT = {"provisioningModel": "SPOT", "preemptible": True}
FLEX = {"provisioningModel": "FLEX_START", "maxRunDuration": {"seconds": "3600"}}
OVER = {"scheduling": {"terminationTimestamp": "2026-11-23T03:00:00.000-07:00"}}


def read(*args: Any, **rest: Any) -> Instance:
    return Instance.from_api(instance(*args, **rest))


def test_a_node_of_an_instance() -> None:
    node = node_of(read(scheduling={"provisioningModel": "STANDARD"}))
    assert (node.api, node.machine_type) == ("compute", "ct6e-standard-1t")
    assert (node.name, node.project, node.zone) == ("one", "p", ZONE)
    assert (node.accelerator_type, node.topology) == ("v6e-1", "1x1")
    assert (node.state, node.health, node.tier) == ("READY", "HEALTHY", "on_demand")
    assert [(end.internal_ip, end.external_ip, end.instance) for end in node.endpoints] == [
        ("10.128.0.41", "203.0.113.41", "one")
    ]
    assert node.data_disks == [
        {"sourceDisk": f"projects/p/zones/{ZONE}/disks/data", "mode": "READ_WRITE"}
    ]
    assert (node.network, node.subnetwork, node.external_ips) == ("default", "default", True)
    assert node.tags == ["ssh"]
    # The API writes the time of another zone; people read that of nodes as UTC.
    assert node.create_time == "2026-11-23T08:02:53.245000Z"
    assert node.queued_resource is None
    assert node.is_ready


def test_the_label_that_finds_the_machines_of_a_slice_is_not_shown() -> None:
    """Otherwise a fleet file with purge: [labels] would remove it."""
    assert node_of(read()).labels == {"tpu-fleet": "lab", "tpu-fleet-spec": "abc"}


def test_what_google_writes_is_not_among_the_metadata() -> None:
    """Otherwise a fleet file with purge: [metadata] would remove the workers' numbers."""
    google = metadata(
        enable_guest_attributes="TRUE",
        accelerator_type="v6e-1",
        agent_worker_number="0",
        tpu_env=tpu_env(0, "1x1", "v6e-1"),
        worker_network_endpoints="one",
    )
    assert node_of(read(metadata=google)).metadata == {"enable-guest-attributes": "TRUE"}


def test_a_slice_as_declared_does_not_differ() -> None:
    wanted = spec(
        "one", accelerator_type="v6e-1", tier="on_demand", boot_disk_size_gb=100, tags=("ssh",)
    )
    labels = {**wanted.owned_labels(), "tpu-fleet-slice": "one"}
    assert plan(wanted, node_of(read(labels=labels))) == []


@compares
def test_every_status_of_the_api_has_a_state() -> None:
    every = schemas()["Instance"]["properties"]["status"]["enum"]
    assert set(every) == {*STATES, "PENDING"}


@pytest.mark.parametrize(
    ("status", "rest", "state"),
    [
        ("PROVISIONING", {}, "CREATING"),
        ("STAGING", {}, "CREATING"),
        ("RUNNING", {}, "READY"),
        ("REPAIRING", {}, "REPAIRING"),
        ("STOPPING", {}, "STOPPING"),
        ("DEPROVISIONING", {}, "DELETING"),
        # The word for a stopped machine, which can be started.
        ("TERMINATED", {}, "STOPPED"),
        ("SUSPENDED", {}, "STOPPED"),
        ("TERMINATED", {"scheduling": SPOT}, "PREEMPTED"),
        ("TERMINATED", {"scheduling": FLEX}, "STOPPED"),
        (
            "TERMINATED",
            {
                "scheduling": FLEX,
                "resourceStatus": OVER,
                "lastStopTimestamp": "2026-11-23T10:00:01.000Z",
            },
            "TERMINATED",
        ),
        (
            "TERMINATED",
            {
                "scheduling": FLEX,
                "resourceStatus": OVER,
                "lastStopTimestamp": "2026-11-23T09:59:59.000Z",
            },
            "STOPPED",
        ),
    ],
)
def test_states(status: str, rest: dict[str, Any], state: str) -> None:
    assert read(status=status, **rest).state == state


def test_a_status_that_is_new_is_waited_for() -> None:
    raw = {**instance(), "status": "DREAMING"}
    assert node_of(Instance.from_api(raw)).state == "DREAMING"


@pytest.mark.parametrize(
    ("scheduling", "tier"),
    [
        ({}, "on_demand"),
        ({"provisioningModel": "STANDARD"}, "on_demand"),
        (SPOT, "spot"),
        (FLEX, "flex_start"),
        ({"provisioningModel": "RESERVATION_BOUND"}, "reserved"),
    ],
)
def test_tiers(scheduling: dict[str, Any], tier: str) -> None:
    assert node_of(read(scheduling=scheduling)).tier == tier


@pytest.mark.parametrize(
    ("kind", "has"),
    [
        ("ct6e-standard-8t", True),
        ("ct6e-standard-4t-tpu", True),
        ("tpu7x-standard-4t", True),
        ("n2-standard-8", False),
        ("a3-highgpu-8g", False),
    ],
)
def test_which_machines_have_tpus(kind: str, has: bool) -> None:
    assert read(machine_type=kind).has_tpus is has


def test_maintenance_makes_a_machine_unusable_while_it_lasts() -> None:
    for status, usable in (("PENDING", True), ("ONGOING", False)):
        coming = {"upcomingMaintenance": {"maintenanceStatus": status, "type": "SCHEDULED"}}
        node = node_of(read(resourceStatus=coming))
        assert node.is_ready is usable
        assert node.upcoming_maintenance == coming["upcomingMaintenance"]


def test_fields_may_be_absent() -> None:
    node = node_of(Instance.from_api({"name": "bare", "zone": HOME}))
    assert (node.name, node.zone, node.state) == ("bare", ZONE, "STATE_UNSPECIFIED")
    assert node.endpoints[0].internal_ip == ""
