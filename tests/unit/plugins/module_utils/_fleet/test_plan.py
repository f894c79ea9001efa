"""The plan of a fleet, as tables: what is wanted, what is seen, what comes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import BadRequest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan import plan_fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import Plan, Try, World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import (
    Grant,
    Place,
    parse_allocations,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import QueuedResource
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.versions import api_version_of

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
A, B, C = "us-east1-d", "europe-west4-a", "us-central2-b"
OURS = {"tpu-fleet": "managed"}


def fleet(*slices: dict[str, Any], allocations: Any = "unrestricted", **params: Any) -> Fleet:
    defaults = {"tier": "spot", "accelerator_type": "v6e-8", "zones": [A, B]}
    entries = []
    for entry in slices or ({},):
        merged = {"name": "big", **defaults, **entry}
        if "accelerator_types" in entry:
            del merged["accelerator_type"]
        if "zone" in entry:
            del merged["zones"]
        entries.append(merged)
    return Fleet.from_params({"slices": entries, "allocations": allocations, **params}, "p")


def node(
    state: str = "READY", zone: str = A, name: str = "big", labels: Any = None, **raw: Any
) -> Node:
    labels = OURS if labels is None else labels
    return Node.from_api(
        {
            "name": f"projects/p/locations/{zone}/nodes/{name}",
            "id": "7",
            "state": state,
            "health": "HEALTHY",
            "acceleratorType": "v6e-8",
            "runtimeVersion": "v2-alpha-tpuv6e",
            "labels": {"tpu-fleet-spec": "x", **labels},
            "schedulingConfig": {"spot": True},
            "createTime": "2026-11-21T10:00:00Z",
            **raw,
        }
    )


def queued(state: str, zone: str = A, name: str = "big", **raw: Any) -> QueuedResource:
    parent = f"projects/p/locations/{zone}"
    spec = {
        "parent": parent,
        "nodeId": name,
        "node": {"acceleratorType": "v6e-8", "labels": OURS},
    }
    return QueuedResource.from_api(
        {
            "name": f"{parent}/queuedResources/{name}",
            "state": {"state": state, **raw},
            "tpu": {"nodeSpec": [spec]},
            "spot": {},
        }
    )


def plan(
    wanted: Fleet,
    *nodes: Node,
    queue: tuple[QueuedResource, ...] = (),
    unreachable: tuple[str, ...] = (),
    tries: Any = None,
    now: datetime = NOW,
) -> Plan:
    return plan_fleet(wanted, World(nodes, queue, frozenset(unreachable), now), tries or {})


def kinds(found: Plan) -> list[tuple[str, str]]:
    return [(action.kind, action.zone) for action in found.actions]


def phase(found: Plan, name: str = "big") -> str:
    return next(status.phase for status in found.statuses if status.slice == name)


def text(found: Plan, name: str = "big") -> str:
    return next(status.text for status in found.statuses if status.slice == name)


# What is there -----------------------------------------------------------------------------------


def test_nothing_is_done_about_a_slice_that_is_as_declared() -> None:
    found = plan(fleet(), node())
    assert found.done
    assert phase(found) == "ready"


def test_a_slice_that_is_not_there_is_asked_for_in_the_best_place() -> None:
    found = plan(fleet())
    assert kinds(found) == [("create_node", A)]
    assert found.actions[0].body["labels"]["tpu-fleet"] == "managed"
    assert found.actions[0].reason == "there is none"


@pytest.mark.parametrize("state", ["CREATING", "RESTARTING", "REPAIRING", "STOPPING"])
def test_what_is_on_its_way_is_waited_for(state: str) -> None:
    found = plan(fleet(), node(state))
    assert (kinds(found), phase(found)) == ([], "coming")


@pytest.mark.parametrize("state", ["HIDDEN", "UNHIDING", "STATE_UNSPECIFIED", "BRAND_NEW"])
def test_what_cannot_be_changed_now_is_waited_for(state: str) -> None:
    other = node(state, runtimeVersion="tpu-vm-base")
    wanted = fleet({"labels": {"a": "b"}, "runtime_version": "v2-alpha-tpuv6e", "recreate": True})
    found = plan(wanted, other)
    assert (kinds(found), phase(found)) == ([], "coming")


def test_an_unhealthy_slice_is_waited_for_and_not_called_ready() -> None:
    assert phase(plan(fleet(), node(health="UNHEALTHY_MAINTENANCE"))) == "coming"


@pytest.mark.parametrize("state", ["PREEMPTED", "TERMINATED", "UNKNOWN", "STOPPED"])
def test_a_lost_slice_is_cleared_away_first(state: str) -> None:
    found = plan(fleet(), node(state))
    assert kinds(found) == [("delete_node", A)]
    assert phase(found) == "clearing"
    assert state in found.actions[0].reason


def test_a_slice_that_is_being_deleted_is_not_made_again_before_it_is_gone() -> None:
    found = plan(fleet(), node("DELETING"))
    assert (kinds(found), phase(found)) == ([], "clearing")


BAD = {"on_bad_chips": "recreate"}


def test_a_slice_with_bad_chips_is_deleted_to_be_requested_again() -> None:
    found = plan(fleet(BAD, bad_chips={"big": "7"}), node())
    assert (kinds(found), phase(found)) == ([("delete_node", A)], "clearing")
    assert found.actions[0].reason == "its chips do not initialise"


def test_another_node_of_its_name_is_left_alone() -> None:
    assert plan(fleet(BAD, bad_chips={"big": "6"}), node()).done


def test_a_slice_with_bad_chips_stays_where_the_grant_holds_no_other() -> None:
    granted = [{"zone": C, "generation": "v4", "tier": "on_demand", "chips": 8}]
    found = plan(fleet(BAD, bad_chips={"big": "7"}, allocations=granted), node())
    assert kinds(found) == []
    assert "its chips do not initialise; not recreated: " in text(found)
    silent = plan(fleet(BAD, bad_chips={"big": "7"}), node(), unreachable=(B,))
    assert (kinds(silent), phase(silent)) == ([], "unknown")


@pytest.mark.parametrize("entry", [{}, {"on_bad_chips": "report"}])
def test_nothing_is_recreated_that_does_not_say_so(entry: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="on_bad_chips: recreate"):
        fleet(entry, bad_chips={"big": "7"})


def test_a_lost_slice_stays_when_its_owner_says_keep() -> None:
    found = plan(fleet({"on_preempt": "keep"}), node("PREEMPTED"))
    assert (kinds(found), phase(found), found.done) == ([], "kept", True)


def test_a_stopped_slice_is_started() -> None:
    raw = {"schedulingConfig": {}}
    found = plan(fleet({"tier": "on_demand"}), node("STOPPED", **raw))
    assert kinds(found) == [("start_node", A)]


def test_labels_change_in_place() -> None:
    found = plan(fleet({"labels": {"team": "vision"}}), node())
    assert kinds(found) == [("patch_node", A)]
    assert [d.field for d in found.actions[0].differences] == ["labels"]


def test_another_runtime_needs_a_word_before_the_slice_is_deleted() -> None:
    other = node(runtimeVersion="tpu-vm-base")
    held = plan(fleet({"runtime_version": "v2-alpha-tpuv6e"}), other)
    assert (kinds(held), phase(held)) == ([], "differs")
    assert "recreate: true" in text(held)
    again = plan(fleet({"runtime_version": "v2-alpha-tpuv6e", "recreate": True}), other)
    assert kinds(again) == [("delete_node", A)]
    assert "runtime_version is 'tpu-vm-base'" in again.actions[0].reason


def test_nothing_is_deleted_that_could_not_be_made_again() -> None:
    small = [{"zone": A, "generation": "v6e", "tier": "spot", "chips": 8}]
    wanted = fleet(
        {"accelerator_type": "v6e-16", "zone": A, "recreate": True},
        allocations=[{**small[0], "chips": 16}],
    )
    assert kinds(plan(wanted, node())) == [("delete_node", A)]
    ended = fleet(
        {"accelerator_type": "v6e-16", "zone": A, "recreate": True},
        allocations=[{**small[0], "chips": 16, "ends": "2026-11-20T00:00:00Z"}],
    )
    found = plan(ended, node())
    assert (kinds(found), phase(found)) == ([], "differs")


# What is not ours --------------------------------------------------------------------------------


def test_what_is_not_ours_is_left_alone_and_its_zone_avoided() -> None:
    found = plan(fleet(), node(labels={"tpu-fleet": "someone"}))
    assert kinds(found) == [("create_node", B)]
    only = plan(fleet({"zone": A}), node(labels={"team": "x"}))
    assert (kinds(only), phase(only)) == ([], "refused")
    assert "adopt: true" in text(only)


def test_what_is_adopted_gets_our_label_and_stays() -> None:
    found = plan(fleet({"adopt": True}), node(labels={"team": "x"}))
    assert kinds(found) == [("patch_node", A)]


def test_orphans_are_listed_and_go_only_when_told() -> None:
    old = node(name="old")
    listed = plan(fleet(), node(), old)
    assert ([str(o) for o in listed.orphans], kinds(listed)) == ([f"node old (READY) in {A}"], [])
    assert listed.done
    pruned = plan(fleet(prune=True), node(), old, node(name="theirs", labels={"tpu-fleet": "x"}))
    assert [(a.kind, a.name) for a in pruned.actions] == [("delete_node", "old")]
    assert not pruned.done


# What cannot be seen -----------------------------------------------------------------------------


def test_nothing_is_done_while_a_zone_of_the_slice_does_not_answer() -> None:
    found = plan(fleet(), unreachable=(B,))
    assert (kinds(found), phase(found)) == ([], "unknown")
    assert B in text(found)


def test_nothing_is_deleted_to_be_made_again_while_a_zone_does_not_answer() -> None:
    wanted = fleet({"runtime_version": "v2-alpha-tpuv6e", "recreate": True})
    found = plan(wanted, node(runtimeVersion="tpu-vm-base"), unreachable=(B,))
    assert (kinds(found), phase(found), found.done) == ([], "unknown", False)


@pytest.mark.parametrize("end", [{"teardown": ["big"]}, {"scope": "expiry"}])
def test_what_cannot_be_seen_is_not_called_gone(end: dict[str, Any]) -> None:
    wanted = fleet({"on_grant_end": "delete"}, allocations=ENDED, **end)
    silent = plan(wanted, unreachable=(B,))
    assert (phase(silent), silent.done) == ("unknown", False)
    asked = plan(wanted, tries={("big", Place(A, "v6e-8", "tpu")): Try(asked_at=NOW)})
    assert (phase(asked), asked.done) == ("clearing", False)
    assert phase(plan(wanted)) == "ended"
    assert phase(plan(fleet(allocations=ENDED, scope="expiry"), unreachable=(B,))) == "ended"


def test_a_preempted_slice_is_not_called_ready_where_only_is_deleted() -> None:
    expiry = fleet({"on_grant_end": "delete"}, scope="expiry")
    found = plan(expiry, node("PREEMPTED"))
    assert (kinds(found), phase(found)) == ([], "ended")
    assert "PREEMPTED" in text(found)
    assert phase(plan(expiry, node())) == "ready"


def test_a_slice_that_is_seen_needs_no_other_zone() -> None:
    assert phase(plan(fleet(), node(), unreachable=(B,))) == "ready"


def test_what_was_asked_for_and_is_not_seen_is_not_asked_for_elsewhere() -> None:
    tries = {("big", Place("us-east1-d", "v6e-8", "tpu")): Try(asked_at=NOW)}
    found = plan(fleet(), tries=tries)
    assert (kinds(found), phase(found)) == ([], "coming")


# Where to ask ------------------------------------------------------------------------------------


def test_without_capacity_the_next_zone_is_asked() -> None:
    out = Try(attempts=1, since=NOW, short="no capacity", next_at=NOW + timedelta(minutes=1))
    tries = {("big", Place(A, "v6e-8", "tpu")): out}
    assert kinds(plan(fleet(), tries=tries)) == [("create_node", B)]
    tries[("big", Place(B, "v6e-8", "tpu"))] = out
    found = plan(fleet(), tries=tries)
    assert (kinds(found), phase(found)) == ([], "waiting")
    assert f"no capacity for v6e-8 in {A} since 12:00:00, attempt 1, next at 12:01:00" in text(
        found
    )
    assert found.next_at == NOW + timedelta(minutes=1)
    later = plan(fleet(), tries=tries, now=NOW + timedelta(minutes=2))
    assert kinds(later) == [("create_node", A)]


def test_too_many_requests_are_no_reason_to_go_elsewhere() -> None:
    early = Try(attempts=1, since=NOW, stay=True, next_at=NOW + timedelta(minutes=1))
    tries = {("big", Place(A, "v6e-8", "tpu")): early}
    found = plan(fleet(), tries=tries)
    assert (kinds(found), phase(found), found.next_at) == ([], "waiting", early.next_at)
    assert kinds(plan(fleet(), tries=tries, now=NOW + timedelta(minutes=2))) == [("create_node", A)]


def test_no_place_is_asked_twice_before_each_was_asked_once() -> None:
    tries = {("big", Place(A, "v6e-8", "tpu")): Try(attempts=1, since=NOW, next_at=NOW)}
    assert kinds(plan(fleet(), tries=tries)) == [("create_node", B)]
    tries[("big", Place(B, "v6e-8", "tpu"))] = Try(attempts=1, since=NOW, next_at=NOW)
    assert kinds(plan(fleet(), tries=tries)) == [("create_node", A)]


def test_the_room_of_what_is_made_again_is_not_given_away() -> None:
    grant = [{"zone": A, "generation": "v6e", "tier": "spot", "chips": 8}]
    wanted = fleet({"zone": A}, {"name": "later", "zone": A, "on_preempt": "keep"})
    tight = replace(wanted, grant=fleet({"zone": A}, allocations=grant).grant)
    for state in ("PREEMPTED", "DELETING"):
        found = plan(tight, node(state))
        assert phase(found) == "clearing"
        assert phase(found, "later") == "refused"


def test_types_are_tried_before_zones() -> None:
    wanted = fleet({"accelerator_types": ["v6e-16", "v6e-8"]})
    out = Try(attempts=1, next_at=NOW + timedelta(minutes=1))
    tries = {("big", Place(A, "v6e-16", "tpu")): out}
    first = plan(wanted, tries=tries).actions[0]
    assert (first.zone, first.body["acceleratorType"]) == (B, "v6e-16")


def test_a_place_that_will_never_do_is_not_asked_again() -> None:
    never = Try(attempts=1, never=True, message="Limit: 0")
    tries = {("big", Place(zone, "v6e-8", "tpu")): never for zone in (A, B)}
    found = plan(fleet(), tries=tries)
    assert (kinds(found), phase(found), found.done) == ([], "refused", True)
    assert "Limit: 0" in text(found)


def test_of_two_live_slices_of_one_name_the_better_stays() -> None:
    found = plan(fleet(), node(zone=B), node("CREATING", zone=A))
    assert kinds(found) == [("delete_node", A)]
    assert phase(found) == "ready"


# Queued resources --------------------------------------------------------------------------------


def test_a_queued_slice_is_asked_for_by_a_queued_resource_that_ends_with_the_grant() -> None:
    grant = [
        {"zone": A, "generation": "v6e", "tier": "spot", "chips": 8, "ends": "2026-12-31"},
        {"zone": B, "generation": "v6e", "tier": "spot", "chips": 8},
    ]
    found = plan(fleet({"queued": True}, allocations=grant))
    assert kinds(found) == [("create_queued", A)]
    policy = found.actions[0].body["queueingPolicy"]
    assert policy["validUntilTime"].startswith("2027-01-01T00:00:00")
    short = plan(fleet({"queued": True, "valid_for": "6h"}, allocations=grant))
    policy = short.actions[0].body["queueingPolicy"]
    assert policy["validUntilTime"].startswith("2026-11-21T18:00:00")


def test_a_waiting_request_is_left_alone() -> None:
    found = plan(fleet({"queued": True}), queue=(queued("WAITING_FOR_RESOURCES"),))
    assert (kinds(found), phase(found)) == ([], "queued")


@pytest.mark.parametrize("state", ["SUSPENDED", "FAILED"])
def test_a_dead_request_is_cleared_away(state: str) -> None:
    found = plan(fleet({"queued": True}), queue=(queued(state),))
    assert (kinds(found), phase(found)) == ([("delete_queued", A)], "clearing")


def test_what_a_request_failed_with_is_kept_for_the_next_choice() -> None:
    error = {"code": 13, "message": "an internal error has occurred"}
    dead = queued("FAILED", failedData={"error": error})
    assert plan(fleet({"queued": True}), queue=(dead,)).actions[0].failure == error


def test_a_preempted_node_goes_with_its_queued_resource() -> None:
    request = queued("SUSPENDING")
    lost = node("PREEMPTED", queuedResource=f"projects/p/locations/{A}/queuedResources/big")
    assert kinds(plan(fleet({"queued": True}), lost, queue=(request,))) == [("delete_queued", A)]


def test_a_race_asks_everywhere_and_keeps_the_first() -> None:
    wanted = fleet({"strategy": "race"})
    assert kinds(plan(wanted)) == [("create_queued", A), ("create_queued", B)]
    waiting = (queued("WAITING_FOR_RESOURCES"), queued("WAITING_FOR_RESOURCES", zone=B))
    assert kinds(plan(wanted, queue=waiting)) == []
    won = node(zone=B, queuedResource=f"projects/p/locations/{B}/queuedResources/big")
    found = plan(wanted, won, queue=(waiting[0], queued("ACTIVE", zone=B)))
    assert (kinds(found), phase(found)) == ([("delete_queued", A)], "clearing")
    going = (queued("DELETING"), queued("ACTIVE", zone=B))
    found = plan(wanted, won, queue=going)
    assert (kinds(found), phase(found), found.done) == ([], "clearing", False)
    assert phase(plan(wanted, won, queue=going[1:])) == "ready"


@pytest.mark.parametrize("state", ["REPAIRING", "RESTARTING", "STOPPING"])
def test_a_race_that_was_won_does_not_begin_anew(state: str) -> None:
    won = node(state, queuedResource=f"projects/p/locations/{A}/queuedResources/big")
    found = plan(fleet({"strategy": "race"}), won, queue=(queued("ACTIVE"),))
    assert (kinds(found), phase(found)) == ([], "coming")


@pytest.mark.parametrize("state", ["SUSPENDING", "DELETING"])
def test_a_slice_whose_request_goes_is_not_ready(state: str) -> None:
    last = node(queuedResource=f"projects/p/locations/{A}/queuedResources/big")
    found = plan(fleet({"queued": True}), last, queue=(queued(state),))
    assert (kinds(found), phase(found)) == ([], "clearing")


# The grant ---------------------------------------------------------------------------------------


def test_the_grant_is_shared_by_the_slices_in_order() -> None:
    grant = [{"zone": A, "generation": "v6e", "tier": "spot", "chips": 8}]
    wanted = fleet(
        {"name": "one", "zone": A}, {"name": "two", "zone": A}, allocations="unrestricted"
    )
    tight = replace(wanted, grant=fleet({"zone": A}, allocations=grant).grant)
    found = plan(tight)
    assert [action.name for action in found.actions] == ["one"]
    assert phase(found, "two") == "refused"
    assert "holds 8 v6e chips" in text(found, "two")


def test_others_use_the_grant_up_too() -> None:
    grant = [{"zone": A, "generation": "v6e", "tier": "spot", "chips": 8}]
    found = plan(fleet({"zone": A}, allocations=grant), node(name="theirs", labels={"a": "b"}))
    assert (kinds(found), phase(found)) == ([], "refused")
    going = node("DELETING", name="theirs", labels={"a": "b"})
    assert phase(plan(fleet({"zone": A}, allocations=grant), going)) == "waiting"


def test_nothing_is_created_without_a_grant() -> None:
    found = plan(fleet(allocations=None))
    assert (kinds(found), phase(found)) == ([], "refused")
    assert "no grant is declared" in found.statuses[0].text


ENDED = [
    {"zone": zone, "generation": "v6e", "tier": "spot", "chips": 8, "ends": "2026-11-20T00:00:00Z"}
    for zone in (A, B)
]


def test_a_slice_outlives_its_grant_only_with_a_warning() -> None:
    found = plan(fleet(allocations=ENDED), node())
    assert (kinds(found), phase(found)) == ([], "ready")
    assert any("has ended" in line for line in found.warnings)


@pytest.mark.parametrize(("on_end", "expected"), [("delete", [("delete_node", A)]), ("keep", [])])
def test_expiry_deletes_what_may_be_deleted_and_nothing_else(
    on_end: str, expected: list[tuple[str, str]]
) -> None:
    wanted = fleet({"on_grant_end": on_end}, allocations=ENDED, scope="expiry")
    assert kinds(plan(wanted, node(), node("PREEMPTED", name="other"))) == expected


def test_a_slice_goes_with_the_grant_that_holds_it_and_not_with_another() -> None:
    still = [{"zone": A, "generation": "v6e", "tier": "on_demand", "chips": 8}]
    wanted = fleet({"on_grant_end": "delete"}, allocations=[*ENDED, *still], scope="expiry")
    assert kinds(plan(wanted, node(schedulingConfig={}))) == []
    assert kinds(plan(wanted, node())) == [("delete_node", A)]


def test_after_its_end_the_slice_is_over_and_not_missing() -> None:
    assert phase(plan(fleet({"on_grant_end": "delete"}, allocations=ENDED))) == "ended"
    assert phase(plan(fleet(allocations=ENDED))) == "refused"


def test_teardown_takes_what_is_named_with_its_queued_resource() -> None:
    other = node(name="other")
    wanted = fleet({}, {"name": "other"}, teardown=["big"])
    made = node(queuedResource=f"projects/p/locations/{A}/queuedResources/big")
    found = plan(wanted, made, other, queue=(queued("ACTIVE"),))
    assert [(a.kind, a.name) for a in found.actions] == [("delete_queued", "big")]
    with pytest.raises(BadRequest, match="nobody"):
        fleet(teardown=["nobody"])


def test_what_a_slice_is_at_a_place_is_worked_out_once() -> None:
    wanted = fleet()
    want, place = wanted.slices[0], wanted.slices[0].candidates[0]
    assert wanted.node_spec(want, place) is wanted.node_spec(want, place)
    other = replace(wanted, owner="else")
    assert other.node_spec(want, place).owner == "else"


def test_a_disk_of_some_workers_is_asked_of_the_version_that_knows_them() -> None:
    disks = [{"name": "d", "slices": ["big"], "read_only": True, "workers": [1]}]
    wanted = fleet({"accelerator_type": "v6e-16", "zone": A, "tier": "spot"}, disks=disks)
    [action] = plan(wanted).actions
    [disk] = action.body["dataDisks"]
    assert disk["workerIds"] == ["1"]
    assert api_version_of(action.body) == "v2alpha1"
    # What v2 shows of it does not say for whom it is, so it does not differ.
    there = node(
        acceleratorType="v6e-16",
        dataDisks=[{"sourceDisk": disk["sourceDisk"], "mode": "READ_ONLY"}],
    )
    assert plan(wanted, there).done


# The grant is asked before anything that costs money --------------------------------------------

ON_DEMAND = {"zones": [A], "tier": "on_demand"}
EIGHT = {"zone": A, "generation": "v6e", "tier": "on_demand", "chips": 8}


def stopped(**raw: Any) -> Node:
    return node("STOPPED", schedulingConfig={}, **raw)


@pytest.mark.parametrize(
    ("allocations", "says"),
    [
        ([{**EIGHT, "ends": "2026-11-20"}], "fleet_allocations[0], 8 v6e chips on demand"),
        ([{**EIGHT, "zone": B}], f"the grant does not hold v6e-8 on demand in {A}"),
        ([{**EIGHT, "chips": 4}], "the grant holds 4 v6e chips on demand"),
    ],
    ids=["over", "elsewhere", "too small"],
)
def test_a_stopped_slice_is_not_started_outside_of_the_grant(
    allocations: list[dict[str, Any]], says: str
) -> None:
    # As a fleet file whose grant has changed since; the check of the file is another's business.
    wanted = replace(fleet(ON_DEMAND), grant=parse_allocations(allocations))
    found = plan(wanted, stopped())
    assert (kinds(found), phase(found)) == ([], "refused")
    assert says in text(found)
    assert "correct fleet_allocations, or take the slice out of fleet_slices" in text(found)


def test_a_stopped_slice_is_not_started_where_no_grant_is_declared() -> None:
    found = plan(replace(fleet(ON_DEMAND), grant=Grant(declared=False)), stopped())
    assert (kinds(found), phase(found)) == ([], "refused")


def test_a_stopped_slice_that_is_to_go_with_its_grant_is_left_for_the_expiry() -> None:
    over = [{**EIGHT, "ends": "2026-11-20"}]
    wanted = {**ON_DEMAND, "on_grant_end": "delete"}
    found = plan(fleet(wanted, allocations=over), stopped())
    assert (kinds(found), phase(found)) == ([], "ended")
    assert "tpu-fleet grant expire deletes it" in text(found)
    assert "it is stopped, and not started again" in found.warnings[0]
    assert kinds(plan(fleet(wanted, allocations=over, expire=True), stopped())) == [
        ("delete_node", A)
    ]


def test_a_stopped_slice_is_started_only_beside_what_the_grant_holds_as_well() -> None:
    wanted = fleet(ON_DEMAND, allocations=[EIGHT])
    assert kinds(plan(wanted, stopped())) == [("start_node", A)]
    other = node(name="theirs", labels={"tpu-fleet": "bob"}, schedulingConfig={})
    assert phase(plan(wanted, stopped(), other)) == "refused"
    going = replace(other, state="DELETING")
    found = plan(wanted, stopped(), going)
    assert (kinds(found), phase(found)) == ([], "waiting")


@pytest.mark.parametrize(
    ("state", "ends", "actions"),
    [
        ("WAITING_FOR_RESOURCES", "2026-11-20", [("delete_queued", A)]),
        ("ACCEPTED", "2026-11-20", [("delete_queued", A)]),
        ("WAITING_FOR_RESOURCES", "2026-11-21", []),
        # Something of it may run by now.
        ("PROVISIONING", "2026-11-20", []),
        ("ACTIVE", "2026-11-20", []),
    ],
)
def test_no_request_is_kept_waiting_after_the_end_of_the_grant(
    state: str, ends: str, actions: list[tuple[str, str]]
) -> None:
    entry = {"zone": A, "generation": "v6e", "tier": "spot", "chips": 8, "ends": ends}
    wanted = fleet({"zones": [A], "queued": True}, allocations=[entry])
    found = plan(wanted, queue=(queued(state),))
    assert kinds(found) == actions
    # What was withdrawn is not asked for again.
    assert not actions or kinds(plan(wanted)) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "made", "goes"),
    [
        ("2026-11-21T11:00:02Z", "2026-11-21T11:00:01Z", True, True),
        ("2026-11-21T11:00:01Z", "2026-11-21T11:00:02Z", True, False),
        # Of one moment: the name decides, for both in the same way.
        ("2026-11-21T11:00:01Z", "2026-11-21T11:00:01Z", True, False),
        # What an earlier apply made is left as it is.
        ("2026-11-21T11:00:02Z", "2026-11-21T11:00:01Z", False, False),
    ],
)
@pytest.mark.parametrize("how", ["node", "queued"])
def test_of_two_fleets_that_took_the_same_room_the_younger_goes(
    ours: str, theirs: str, made: bool, goes: bool, how: str
) -> None:
    entry = {"zone": A, "generation": "v6e", "tier": "spot", "chips": 8}
    wanted = fleet({"zones": [A], "queued": how == "queued"}, allocations=[entry])
    other = node(name="theirs", labels={"tpu-fleet": "bob"}, createTime=theirs)
    keys = frozenset({(how, "tpu", A, "big")} if made else ())
    mine = node("CREATING", createTime=ours)
    waiting = replace(queued("WAITING_FOR_RESOURCES"), create_time=ours)
    # A request is younger than a node of the same moment.
    goes = goes or (how == "queued" and made and ours == theirs)
    nodes, queue = ((mine, other), ()) if how == "node" else ((other,), (waiting,))
    found = plan_fleet(wanted, World(nodes, queue, frozenset(), NOW, made=keys), {})
    assert kinds(found) == ([(f"delete_{how}", A)] if goes else [])
    if goes:
        assert "another was made first: the grant holds 8 v6e chips as spot" in str(
            found.actions[0]
        )
        assert "node theirs (READY): 8" in str(found.actions[0])


def test_a_node_is_as_old_as_the_request_that_it_came_of() -> None:
    entry = {"zone": A, "generation": "v6e", "tier": "spot", "chips": 8}
    wanted = fleet({"zones": [A]}, allocations=[entry])
    mine = node("CREATING", createTime="2026-11-21T11:00:02Z")
    request = replace(
        queued("ACTIVE", name="theirs"),
        create_time="2026-11-21T11:00:01Z",
        nodes=tuple(
            replace(one, labels={"tpu-fleet": "bob"})
            for one in queued("ACTIVE", name="theirs").nodes
        ),
    )
    other = node(
        name="theirs",
        labels={"tpu-fleet": "bob"},
        createTime="2026-11-21T11:00:03Z",
        queuedResource=f"projects/p/locations/{A}/queuedResources/theirs",
    )
    made = frozenset({("node", "tpu", A, "big")})
    seen = World((mine, other), (request,), frozenset(), NOW, made=made)
    assert kinds(plan_fleet(wanted, seen, {})) == [("delete_node", A)]


# Compute Engine ----------------------------------------------------------------------------------


def machines(**raw: Any) -> Node:
    """Return a v6e-8 of two machines."""
    return node(
        api="compute",
        machineType="ct6e-standard-4t",
        acceleratorConfig={"topology": "2x4"},
        runtimeVersion="",
        networkEndpoints=[{}, {}],
        **raw,
    )


ONE, TWO = {"api": "compute"}, {"machine_type": "ct6e-standard-4t", "topology": "2x4"}


def test_a_v6e_8_of_two_machines_is_not_one_of_one() -> None:
    """The accelerator type alone means one machine; the difference is fixed, and said."""
    assert phase(plan(fleet({**TWO, "accelerator_type": None}), machines())) == "ready"
    found = plan(fleet(ONE), machines())
    assert (kinds(found), phase(found)) == ([], "differs")
    assert "machine_type is 'ct6e-standard-4t', wanted 'ct6e-standard-8t'" in text(found)
    again = plan(fleet({**ONE, "recreate": True}), machines())
    assert kinds(again) == [("delete_node", A)]


def test_a_description_on_compute_engine_is_fixed() -> None:
    wanted = {**TWO, "accelerator_type": None, "description": "second", "labels": {"a": "b"}}
    found = plan(fleet(wanted), machines(description="first"))
    assert (kinds(found), phase(found)) == ([("patch_node", A)], "differs")
    assert [one.field for one in found.actions[0].differences] == ["labels"]
    assert "description is 'first', wanted 'second'" in text(found)
    assert "recreate: true" in text(found)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({}, "(Compute Engine does not show whether capacity or quota is missing)"),
        ({"code": 8, "message": "There is no more capacity in the zone"}, "(no capacity)"),
    ],
)
def test_a_request_says_what_is_not_known(error: dict[str, Any], said: str) -> None:
    flex = {"tier": "flex_start", "max_run_duration": "1h", "valid_for": "2h"}
    one = machines(state="CREATING", schedulingConfig={"provisioningModel": "FLEX_START"})
    waiting = replace(
        queued("WAITING_FOR_RESOURCES"), nodes=[one], error=error, tier="flex_start", api="compute"
    )
    found = plan(fleet({**TWO, **flex, "accelerator_type": None}), queue=(waiting,))
    assert (kinds(found), phase(found)) == ([], "queued")
    assert text(found).endswith(said)
    usual = plan(fleet({"queued": True}), queue=(queued("WAITING_FOR_RESOURCES"),))
    assert "does not show whether" not in text(usual)


def left_over(zone: str = A, owner: str = "managed") -> Node:
    """Return what a template or a policy shows as: a dead node without chips."""
    labels = {"tpu-fleet": owner}
    return node("TERMINATED", zone, labels=labels, id="", acceleratorType="", api="compute")


def test_what_is_left_of_a_slice_keeps_nothing_from_being_made() -> None:
    wanted = fleet({"on_preempt": "keep", "api": "tpu"})
    assert kinds(plan(wanted, left_over())) == [("delete_node", A)]
    assert kinds(plan(wanted)) == [("create_node", A)]


def test_what_is_left_of_the_slices_of_others_is_neither_adopted_nor_in_the_way() -> None:
    wanted = fleet({"adopt": True, "api": "compute"})
    assert kinds(plan(wanted, left_over(owner="others"))) == [("create_node", A)]


def test_a_deletion_is_about_what_was_seen() -> None:
    lost = node("TERMINATED", id="9", api="compute")
    (action,) = plan(fleet({"api": "compute"}), lost).actions
    assert (action.api, action.uid) == ("compute", "9")


def test_what_may_be_on_its_way_out_is_not_deleted_again() -> None:
    """An instance that is being deleted shows that it is being stopped."""
    going = node("STOPPING", name="old", api="compute")
    found = plan(fleet({"api": "tpu"}, prune=True), node(), going)
    assert found.actions == ()
    assert not found.done
    second = node("STOPPING", B, api="compute")
    assert plan(fleet({"api": "compute"}), node(api="compute"), second).actions == ()


def test_what_comes_is_kept_before_what_may_be_on_its_way_out() -> None:
    """An instance that is being created is not deleted in favour of one that is being deleted."""
    going = node("STOPPING", A, api="compute")
    found = plan(fleet({"api": "compute"}), going, node("CREATING", B, api="compute"))
    assert found.actions == ()
    assert phase(found) == "coming"
