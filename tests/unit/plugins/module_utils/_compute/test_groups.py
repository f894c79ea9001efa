"""Which slices the lists of instances, groups, templates and policies show."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.groups import (
    Group,
    Part,
    Seen,
    leftovers,
    slice_nodes,
    slice_requests,
    waiting_until,
)
from ansible_collections.tpu.fleet.plugins.module_utils._compute.instance import Instance
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_bodies import Shape
from ansible_collections.tpu.fleet.plugins.module_utils._core.error_table import Reaction
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import row_of
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Listing, Node
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import (
    QueuedResource,
    failure_of,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.answers import (
    HOME,
    LINKS,
    REGION,
    ZONE,
    group,
    instance,
    member,
    metadata,
    policy,
    template,
    tpu_env,
    waiting,
)

NOW = datetime(2026, 11, 25, tzinfo=timezone.utc)
FOUR = tuple(member(number) for number in range(4))
SPOT = {"provisioningModel": "SPOT", "preemptible": True}
FULL = {
    "lastProgressCheck": {
        "timestamp": "2026-11-23T02:00:00.000-07:00",
        "error": {
            "errors": [
                {
                    "code": "ZONE_RESOURCE_POOL_EXHAUSTED",
                    "message": "The zone does not have enough resources available to fulfill it.",
                }
            ]
        },
    }
}


def seen(
    *instances: dict[str, Any],
    groups: tuple[dict[str, Any], ...] = (),
    templates: tuple[dict[str, Any], ...] = (),
    policies: tuple[dict[str, Any], ...] = (),
    silent: dict[str, list[str]] | None = None,
) -> Seen:
    """Return what lists showed, in some of which scopes are missing."""
    lost = silent or {}
    return Seen(
        Listing([Group.from_api(raw) for raw in groups], lost.get("groups", [])),
        Listing([Instance.from_api(raw) for raw in instances], lost.get("instances", [])),
        Listing([Part.from_api(raw, "instanceTemplates") for raw in templates]),
        Listing([Part.from_api(raw, "resourcePolicies") for raw in policies]),
        NOW,
    )


def only(listing: Listing[Node]) -> Node:
    (node,) = listing.items
    return node


def only_request(listing: Listing[QueuedResource]) -> QueuedResource:
    (queued,) = listing.items
    return queued


# -- groups --------------------------------------------------------------------------------------


def test_a_group_is_one_node() -> None:
    node = only(slice_nodes(seen(*FOUR, groups=(group(),), templates=(template(),))))
    assert (node.name, node.zone, node.api) == ("big", ZONE, "compute")
    assert (node.accelerator_type, node.topology) == ("v6e-16", "4x4")
    assert node.machine_type == "ct6e-standard-4t"
    assert (node.state, node.tier) == ("READY", "on_demand")
    assert node.labels == {"tpu-fleet": "lab", "tpu-fleet-spec": "abc"}
    assert node.metadata == {"startup-script": "true"}
    assert node.queued_resource is None


def test_workers_are_in_the_order_of_their_numbers() -> None:
    """Neither the order of the list nor the random names say anything."""
    node = only(slice_nodes(seen(*FOUR[::-1], groups=(group(),))))
    names = [end.instance for end in node.endpoints]
    assert names == ["big-dx0", "big-cx1", "big-bx2", "big-ax3"]


def test_without_numbers_workers_are_in_the_order_of_their_names() -> None:
    made_by = metadata(created_by=f"projects/123/zones/{ZONE}/instanceGroupManagers/big")
    unnumbered = [member(number, metadata=made_by) for number in range(4)]
    node = only(slice_nodes(seen(*unnumbered, groups=(group(),))))
    assert [end.instance for end in node.endpoints] == ["big-ax3", "big-bx2", "big-cx1", "big-dx0"]


def test_v7x_counts_cores() -> None:
    env = tpu_env(0, "2x2x2", "v7x-16")
    by = f"projects/123/zones/{ZONE}/instanceGroupManagers/big"
    two = [
        member(
            number,
            machine_type="tpu7x-standard-4t",
            metadata=metadata(agent_worker_number=str(number), tpu_env=env, created_by=by),
        )
        for number in range(2)
    ]
    status = {"appliedAcceleratorTopologies": [{"acceleratorTopology": "2x2x2", "state": "ACTIVE"}]}
    node = only(slice_nodes(seen(*two, groups=(group(size=2, status=status),))))
    assert (node.accelerator_type, node.state) == ("v7x-16", "READY")


STATES = [
    ("all run", [], {}, "READY"),
    # It can be stable before its machines are counted.
    ("not counted", [], {"status": {"currentInstanceStatuses": {"staging": 4}}}, "REPAIRING"),
    ("not stable", [], {"status": {"isStable": False}}, "REPAIRING"),
    (
        "connections come up",
        [],
        {
            "status": {
                "isStable": False,
                "appliedAcceleratorTopologies": [{"state": "ACTIVATING"}],
            }
        },
        "CREATING",
    ),
    (
        "connections degraded",
        [],
        {"status": {"appliedAcceleratorTopologies": [{"state": "ACTIVE_DEGRADED"}]}},
        "REPAIRING",
    ),
    (
        "connections failed",
        [],
        {"status": {"appliedAcceleratorTopologies": [{"state": "FAILED"}]}},
        "TERMINATED",
    ),
    (
        "machines come up",
        ["STAGING", "STAGING", "PROVISIONING", "RUNNING"],
        {
            "currentActions": {"creating": 4},
            "status": {
                "isStable": False,
                "currentInstanceStatuses": {"staging": 2},
                "appliedAcceleratorTopologies": [],
            },
        },
        "CREATING",
    ),
    (
        "one is made again",
        ["RUNNING", "RUNNING", "RUNNING", "STAGING"],
        {
            "currentActions": {"none": 3, "recreating": 1},
            "status": {"isStable": False, "currentInstanceStatuses": {"running": 3}},
        },
        "REPAIRING",
    ),
    (
        "one is being taken back",
        ["RUNNING", "RUNNING", "RUNNING", "STOPPING"],
        {"status": {"currentInstanceStatuses": {"running": 3}}},
        "REPAIRING",
    ),
    (
        "one is gone, and nobody makes it again",
        ["RUNNING", "RUNNING", "RUNNING"],
        {
            "currentActions": {"none": 3},
            "status": {
                "currentInstanceStatuses": {"running": 3},
                "appliedAcceleratorTopologies": [{"state": "INCOMPLETE"}],
            },
        },
        "TERMINATED",
    ),
    (
        "one was stopped",
        ["RUNNING", "RUNNING", "RUNNING", "TERMINATED"],
        {"status": {"currentInstanceStatuses": {"running": 3, "terminated": 1}}},
        "TERMINATED",
    ),
    (
        "the group has not noticed that one is gone",
        ["RUNNING", "RUNNING", "RUNNING"],
        {},
        "REPAIRING",
    ),
    (
        "all have expired",
        None,
        {
            "currentActions": {"none": 0},
            "status": {"currentInstanceStatuses": {"nonExistent": 4}},
        },
        "TERMINATED",
    ),
    ("all were stopped", ["TERMINATED"] * 4, {}, "STOPPED"),
    (
        "two were stopped and two deleted",
        ["TERMINATED"] * 2,
        {"status": {"currentInstanceStatuses": {"terminated": 2, "nonExistent": 2}}},
        "TERMINATED",
    ),
    ("it is being deleted", [], {"currentActions": {"deleting": 4}}, "DELETING"),
    ("its machines are being deleted", ["DEPROVISIONING"] * 4, {}, "DELETING"),
    (
        "it has just been asked for",
        None,
        {
            "currentActions": {"creating": 4},
            "status": {"isStable": False, "currentInstanceStatuses": {"nonExistent": 4}},
        },
        "CREATING",
    ),
]


@pytest.mark.parametrize(
    ("statuses", "rest", "state"), [row[1:] for row in STATES], ids=[row[0] for row in STATES]
)
def test_states_of_a_group(statuses: list[str] | None, rest: dict[str, Any], state: str) -> None:
    each = [] if statuses is None else statuses or ["RUNNING"] * 4
    members = [member(number, status) for number, status in enumerate(each)]
    node = only(slice_nodes(seen(*members, groups=(group(**rest),), templates=(template(),))))
    assert node.state == state


def test_a_machine_that_was_taken_back_makes_the_slice_preempted() -> None:
    three = [member(number, scheduling=SPOT) for number in range(3)]
    gone = member(3, "TERMINATED", scheduling=SPOT)
    status = {"currentInstanceStatuses": {"running": 3, "terminated": 1}}
    node = only(slice_nodes(seen(*three, gone, groups=(group(status=status),))))
    assert (node.state, node.tier) == ("PREEMPTED", "spot")


def test_maintenance_of_one_machine_makes_the_slice_unusable() -> None:
    ongoing = {"upcomingMaintenance": {"maintenanceStatus": "ONGOING"}}
    node = only(slice_nodes(seen(*FOUR[:3], member(3, resourceStatus=ongoing), groups=(group(),))))
    assert (node.state, node.health, node.is_ready) == ("READY", "UNHEALTHY_MAINTENANCE", False)


def test_labels_and_metadata_are_what_all_machines_have() -> None:
    other = member(3)
    other["labels"] = {"tpu-fleet-slice": "big", "mine": "1"}
    other["metadata"]["items"].append({"key": "only", "value": "here"})
    node = only(slice_nodes(seen(*FOUR[:3], other, groups=(group(),), templates=(template(),))))
    # Its template still says whose it is.
    assert node.labels["tpu-fleet"] == "lab"
    assert "mine" not in node.labels
    assert node.metadata == {"startup-script": "true"}


def test_a_disk_that_not_all_machines_have_is_shown_with_its_workers() -> None:
    bare = [member(number, disks=[{"boot": True}]) for number in (0, 1, 3)]
    node = only(slice_nodes(seen(*bare, FOUR[2], groups=(group(),))))
    source = f"projects/p/zones/{ZONE}/disks/data"
    assert node.data_disks == [{"sourceDisk": source, "mode": "READ_WRITE", "workerIds": ["2"]}]


# -- what waits ----------------------------------------------------------------------------------


def test_a_group_without_machines_yet_is_a_request() -> None:
    lists = seen(groups=(waiting(),), templates=(template(),), policies=(policy(),))
    assert slice_nodes(lists).items == []
    queued = only_request(slice_requests(lists))
    assert (queued.name, queued.zone, queued.api) == ("big", ZONE, "compute")
    assert (queued.state, queued.tier) == ("WAITING_FOR_RESOURCES", "on_demand")
    (node,) = queued.nodes
    assert (node.name, node.accelerator_type, node.topology) == ("big", "v6e-16", "4x4")
    assert node.labels["tpu-fleet"] == "lab"
    assert queued.is_waiting


FLEX_FOUR = Shape("ct6e-standard-4t", "4x4", "flex_start", "4h")
BULK = {"inProgress": True, **FULL}


def test_a_request_says_why_it_waits() -> None:
    lists = seen(
        groups=(waiting(bulkInstanceOperation=BULK),), templates=(template(shape=FLEX_FOUR),)
    )
    queued = only_request(slice_requests(lists))
    assert (queued.state, queued.tier) == ("WAITING_FOR_RESOURCES", "flex_start")
    assert queued.error["code"] == 8


@pytest.mark.parametrize("tier", ["on_demand", "spot"])
def test_only_flex_start_waits_where_there_is_nothing(tier: str) -> None:
    """Others ask the next zone, as with the Cloud TPU API."""
    shape = Shape("ct6e-standard-4t", "4x4", tier)
    lists = seen(groups=(waiting(bulkInstanceOperation=BULK),), templates=(template(shape=shape),))
    queued = only_request(slice_requests(lists))
    assert queued.state == "FAILED"
    assert failure_of(queued).kind == "stock_out"


@pytest.mark.parametrize(("hours", "state"), [(1, "WAITING_FOR_RESOURCES"), (-1, "FAILED")])
@pytest.mark.parametrize("bulk", [BULK, {"inProgress": True}])
def test_the_wait_of_a_group_ends_as_it_was_told(
    bulk: dict[str, Any], hours: int, state: str
) -> None:
    until = (NOW + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
    raw = {**waiting(bulkInstanceOperation=bulk), "description": waiting_until(until)}
    lists = seen(groups=(raw,), templates=(template(shape=FLEX_FOUR),))
    assert slice_nodes(lists).items == []
    queued = only_request(slice_requests(lists))
    assert (queued.state, queued.valid_until) == (state, until)
    if state == "FAILED":
        error = failure_of(queued)
        # Google's last word is kept, because it may tell capacity from quota.
        assert row_of(error).key == ("stock_out" if bulk is BULK else "queued_expired")
        assert row_of(error).reaction is Reaction.NEXT_PLACE
        assert until in error.message


def test_a_group_that_got_nothing_has_failed() -> None:
    """The planner then deletes it, and goes on to the next zone."""
    status = {
        "bulkInstanceOperation": {"inProgress": False, **FULL},
        "currentInstanceStatuses": {"nonExistent": 4},
        "appliedAcceleratorTopologies": [],
    }
    lists = seen(groups=(group(status=status),), templates=(template(),))
    assert slice_nodes(lists).items == []
    queued = only_request(slice_requests(lists))
    assert (queued.state, queued.is_dead) == ("FAILED", True)
    assert failure_of(queued).kind == "stock_out"


def test_a_pending_machine_is_a_request() -> None:
    flex = {"provisioningModel": "FLEX_START"}
    labels = {"tpu-fleet": "lab", "tpu-fleet-wait": "7200"}
    lists = seen(instance(status="PENDING", scheduling=flex, labels=labels))
    assert slice_nodes(lists).items == []
    queued = only_request(slice_requests(lists))
    assert (queued.name, queued.tier) == ("one", "flex_start")
    assert queued.valid_until == "2026-11-23T10:02:53Z"
    assert queued.nodes[0].accelerator_type == "v6e-1"
    assert queued.nodes[0].labels == {"tpu-fleet": "lab"}


def test_machines_that_come_up_are_no_longer_a_request() -> None:
    members = [member(number, "PROVISIONING") for number in range(4)]
    lists = seen(*members, groups=(waiting(),))
    assert slice_requests(lists).items == []
    assert only(slice_nodes(lists)).state == "CREATING"


def test_nothing_is_both_a_node_and_a_request() -> None:
    for raw in (group(), waiting(), waiting(bulkInstanceOperation={"inProgress": True, **FULL})):
        lists = seen(groups=(raw,), templates=(template(),))
        both = [*slice_nodes(lists).items, *slice_requests(lists).items]
        assert [item.name for item in both] == ["big"]


# -- what is not a slice -------------------------------------------------------------------------


def test_machines_without_tpus_are_no_slices() -> None:
    web = instance("web", machine_type="e2-medium", labels={})
    webs = group("webs", status={"appliedAcceleratorTopologies": []})
    assert slice_nodes(seen(web, groups=(webs,))).items == []
    by = metadata(created_by=f"projects/1/zones/{ZONE}/instanceGroupManagers/webs")
    alike = instance("webs-1", machine_type="e2-medium", labels={}, metadata=by)
    assert slice_nodes(seen(alike, groups=(webs,))).items == []


def test_what_others_made_is_shown_without_an_owner() -> None:
    theirs = instance("theirs", labels={"team": "b"})
    assert only(slice_nodes(seen(theirs))).labels == {"team": "b"}


def test_a_regional_group_of_others_is_a_slice_too() -> None:
    by = metadata(created_by=f"projects/1/regions/{REGION}/instanceGroupManagers/theirs")
    workers = [
        instance(f"theirs-{n}", machine_type="ct6e-standard-4t", labels={}, metadata=by)
        for n in range(4)
    ]
    raw = group("theirs")
    del raw["zone"]
    raw |= {"region": f"{LINKS}/regions/{REGION}"}
    raw["distributionPolicy"] = {"zones": [{"zone": HOME}], "targetShape": "ANY_SINGLE_ZONE"}
    node = only(slice_nodes(seen(*workers, groups=(raw,))))
    assert (node.name, node.zone, len(node.endpoints)) == ("theirs", ZONE, 4)


# -- partial lists -------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["groups", "instances"])
def test_a_zone_that_one_list_lacks_is_unreachable(which: str) -> None:
    lists = seen(silent={which: [ZONE]})
    assert slice_nodes(lists).unreachable == [ZONE]
    assert slice_requests(lists).unreachable == [ZONE]


def test_machines_whose_group_is_out_of_sight_are_no_slices_of_their_own() -> None:
    lists = seen(*FOUR, silent={"groups": [ZONE]})
    assert slice_nodes(lists).items == []
    assert slice_nodes(lists).unreachable == [ZONE]


@pytest.mark.parametrize("raw", [group(), group(status={"currentInstanceStatuses": {}})])
def test_a_group_whose_machines_are_out_of_sight_is_not_judged(raw: dict[str, Any]) -> None:
    lists = seen(groups=(raw,), templates=(template(),), silent={"instances": [ZONE]})
    assert slice_nodes(lists).items == []
    assert slice_requests(lists).items == []
    assert slice_nodes(lists).unreachable == [ZONE]


def test_a_group_whose_template_is_out_of_sight_is_not_gone() -> None:
    lists = seen(groups=(waiting(),))
    lists.templates.unreachable.append(f"regions/{REGION}")
    assert slice_requests(lists).items == []
    assert slice_requests(lists).unreachable == [ZONE]


def test_another_zone_does_not_matter() -> None:
    lists = seen(*FOUR, groups=(group(),), silent={"groups": ["us-east5-a"]})
    assert only(slice_nodes(lists)).state == "READY"


# -- what is left over ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "age", "state"),
    [
        ("RUNNING", timedelta(days=1), "TERMINATED"),
        ("STOPPING", timedelta(days=1), "DELETING"),
        # Its group may have been made after the list of groups.
        ("RUNNING", timedelta(seconds=5), "CREATING"),
    ],
)
def test_machines_without_their_group(status: str, age: timedelta, state: str) -> None:
    born = (NOW - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    node = only(slice_nodes(seen(member(0, status, creationTimestamp=born))))
    assert (node.name, node.state) == ("big", state)
    assert node.labels["tpu-fleet"] == "lab"


def test_parts_without_a_group_are_left_over() -> None:
    for lists in (
        seen(templates=(template(),), policies=(policy(),)),
        seen(templates=(template(),)),
        seen(policies=(policy(),)),
    ):
        (node,) = leftovers(lists)
        assert (node.name, node.zone, node.state) == ("big", ZONE, "TERMINATED")
        assert (node.project, node.api) == ("p", "compute")
        assert node.labels == {"tpu-fleet": "lab"}
        # They use none of the grant.
        assert node.accelerator_type == ""
        assert node.topology == ""


def test_parts_in_use_are_not_left_over() -> None:
    parts = {"templates": (template(),), "policies": (policy(),)}
    assert leftovers(seen(groups=(group(),), **parts)) == []
    assert leftovers(seen(silent={"groups": [ZONE]}, **parts)) == []
    assert leftovers(seen(FOUR[0], **parts)) == []
    # Two zones of a region race, and share them.
    other = group(
        zone=f"{LINKS}/zones/us-central1-a",
        selfLink=f"{LINKS}/zones/us-central1-a/instanceGroupManagers/big",
    )
    assert leftovers(seen(groups=(other,), **parts)) == []


def test_each_owner_has_what_is_left_over_of_its_own() -> None:
    theirs = template()
    theirs["description"] = theirs["description"].replace("lab", "others")
    found = leftovers(seen(templates=(theirs,), policies=(policy(),)))
    assert [node.labels["tpu-fleet"] for node in found] == ["others", "lab"]
    # A group of this name that was made of something else uses neither.
    other = group(instanceTemplate=f"{LINKS}/global/instanceTemplates/web", resourcePolicies={})
    assert len(leftovers(seen(groups=(other,), templates=(template(),)))) == 1


def test_parts_of_others_are_not_left_over() -> None:
    theirs = {**template(), "description": "for the web servers"}
    assert leftovers(seen(templates=(theirs,))) == []
