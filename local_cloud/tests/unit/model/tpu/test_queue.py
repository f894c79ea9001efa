"""What happens to queued resources as time passes, under a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from clouds import a_cloud

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.model.cloud import DELAYS, QUEUE_DELAYS, Cloud
from tpu_local_cloud.model.shared.faults import Fault
from tpu_local_cloud.model.shared.queue_records import QueueRecord
from tpu_local_cloud.model.shared.records import OperationRecord
from tpu_local_cloud.model.tpu import reservations
from tpu_local_cloud.serve.metadata import tpu_env

ZONE = "us-central2-b"
PARENT = f"projects/local-project/locations/{ZONE}"
NODE: dict[str, Any] = {
    "acceleratorType": "v4-8",
    "runtimeVersion": "tpu-ubuntu2204-base",
    "networkConfig": {"enableExternalIps": True},
}
SECONDS = dict.fromkeys((*DELAYS, *QUEUE_DELAYS), 10.0)


def make(path: Path | None = None) -> Cloud:
    return a_cloud("manual", path=path, delays=SECONDS)


@pytest.fixture
def cloud() -> Cloud:
    return make()


def later(cloud: Cloud, seconds: float = 10.0) -> None:
    cloud.clock.advance(seconds)
    cloud.advance()


def body(count: int = 1, **more: Any) -> dict[str, Any]:
    name: dict[str, Any] = {"nodeId": "n1"}
    if count > 1:
        name = {"multisliceParams": {"nodeCount": count, "nodeIdPrefix": "n"}}
    return {"tpu": {"nodeSpec": [{"parent": PARENT, "node": NODE, **name}]}, **more}


def create(cloud: Cloud, count: int = 1, version: str = "v2", **more: Any) -> OperationRecord:
    return cloud.queue.create(ZONE, "q", body(count, **more), version)


def active(cloud: Cloud, count: int = 1, version: str = "v2", **more: Any) -> QueueRecord:
    create(cloud, count, version, **more)
    later(cloud, 40)
    assert seen(cloud)[0] == "ACTIVE"
    return cloud.queue.get(ZONE, "q")


def seen(cloud: Cloud) -> tuple[str, list[str]]:
    """Return the state of the queued resource, and those of all nodes that exist."""
    return cloud.queue.get(ZONE, "q").state, [node.state for node in cloud.nodes_in("-")]


def shown_state(cloud: Cloud) -> dict[str, Any]:
    found: dict[str, Any] = cloud.queue.get(ZONE, "q").render("p")["state"]
    return found


def refusal(call: Callable[[], object]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value


def is_gone(cloud: Cloud) -> bool:
    return refusal(lambda: cloud.queue.get(ZONE, "q")).status == "NOT_FOUND"


# Up --------------------------------------------------------------------------------------------


def test_the_way_up(cloud: Cloud) -> None:
    operation = create(cloud)
    assert seen(cloud) == ("CREATING", [])
    assert not operation.done
    later(cloud)
    assert seen(cloud) == ("WAITING_FOR_RESOURCES", [])
    assert operation.response is not None
    assert operation.response["state"] == {"state": "WAITING_FOR_RESOURCES"}
    later(cloud)
    assert seen(cloud) == ("PROVISIONING", [])
    later(cloud)
    assert seen(cloud) == ("PROVISIONING", ["CREATING"])
    later(cloud)
    assert seen(cloud) == ("ACTIVE", ["READY"])
    assert shown_state(cloud) == {"state": "ACTIVE", "activeData": {}}
    node = cloud.node(ZONE, "n1").render("p")
    assert node["queuedResource"] == f"projects/p/locations/{ZONE}/queuedResources/q"
    assert "multisliceNode" not in node


def test_it_is_active_when_the_last_node_is_ready(cloud: Cloud) -> None:
    create(cloud, 3)
    later(cloud, 39)
    cloud.tasks[next(iter(cloud.tasks))].due += 5
    later(cloud, 1)
    assert seen(cloud) == ("PROVISIONING", ["CREATING", "READY", "READY"])
    later(cloud, 5)
    assert seen(cloud) == ("ACTIVE", ["READY"] * 3)
    assert [node.name for node in cloud.nodes_in(ZONE)] == ["n-0", "n-1", "n-2"]
    assert all(node.render("p")["multisliceNode"] for node in cloud.nodes_in(ZONE))


@pytest.mark.parametrize(
    ("more", "scheduling", "tier"),
    [
        ({}, {}, "on_demand"),
        ({"spot": {}}, {"spot": True}, "spot"),
        ({"guaranteed": {}}, {}, "guaranteed"),
        ({"guaranteed": {"reserved": True}}, {"reserved": True}, "reserved"),
        ({"bestEffort": {}}, {"preemptible": True}, "best_effort"),
        (
            {"bestEffort": {}, "provisioningModel": "SPOT"},
            {"spot": True, "provisioningModel": "SPOT"},
            "spot",
        ),
        (
            {"provisioningModel": "SPOT"},
            {"spot": True, "provisioningModel": "SPOT"},
            "spot",
        ),
        ({"provisioningModel": "STANDARD"}, {"provisioningModel": "STANDARD"}, "on_demand"),
    ],
)
def test_tiers(cloud: Cloud, more: dict[str, Any], scheduling: dict[str, Any], tier: str) -> None:
    reservations.declare(cloud, {"zone": ZONE, "name": "r", "chips": 4})
    record = active(cloud, version="v2alpha1", **more)
    assert record.tier == tier
    assert cloud.node(ZONE, "n1").render("p", "v2alpha1")["schedulingConfig"] == scheduling


def test_without_capacity_it_waits(cloud: Cloud) -> None:
    cloud.faults.add(Fault("stock_out", {"zone": ZONE}, until=cloud.clock.now() + 600))
    create(cloud)
    later(cloud, 599)
    assert seen(cloud) == ("WAITING_FOR_RESOURCES", [])
    later(cloud, 40)
    assert seen(cloud) == ("ACTIVE", ["READY"])


def test_who_waits_for_a_month_is_not_looked_after_a_million_times(cloud: Cloud) -> None:
    fault = Fault("stock_out")
    cloud.faults.add(fault)
    create(cloud)
    later(cloud, 30 * 86400)
    assert seen(cloud) == ("WAITING_FOR_RESOURCES", [])
    assert 100 < fault.hits < 3000


def test_a_stock_out_that_comes_while_nodes_are_made_leads_back_to_the_queue(cloud: Cloud) -> None:
    create(cloud, 2)
    later(cloud, 20)
    cloud.faults.add(Fault("stock_out", count=1))
    later(cloud, 20)
    assert seen(cloud)[0] == "PROVISIONING"
    later(cloud, 10)
    assert seen(cloud) == ("WAITING_FOR_RESOURCES", [])
    later(cloud, 30)
    assert seen(cloud) == ("ACTIVE", ["READY", "READY"])


def test_hold_and_grant(cloud: Cloud) -> None:
    create(cloud)
    cloud.queue.hold(ZONE, "q")
    later(cloud, 1000)
    assert seen(cloud) == ("WAITING_FOR_RESOURCES", [])
    cloud.faults.add(Fault("stock_out"))
    cloud.queue.grant(ZONE, "q")
    assert seen(cloud)[0] == "PROVISIONING"


def test_a_name_that_was_taken_meanwhile(cloud: Cloud) -> None:
    create(cloud)
    cloud.create(ZONE, "n1", NODE, "v2")
    later(cloud, 30)
    assert shown_state(cloud)["failedData"]["error"]["code"] == 6
    assert cloud.node(ZONE, "n1").queued_resource == ""


# When ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "begins"),
    [
        (lambda now: {"validAfterDuration": "100s"}, 100),
        (lambda now: {"validAfterTime": now(200)}, 200),
        (lambda now: {"validInterval": {"startTime": now(300), "endTime": now(400)}}, 300),
    ],
)
def test_not_before_its_time(cloud: Cloud, policy: Callable[[Any], Any], begins: float) -> None:
    create(cloud, queueingPolicy=policy(cloud.clock.timestamp))
    later(cloud, begins - 1)
    assert seen(cloud) == ("WAITING_FOR_RESOURCES", [])
    later(cloud, 1)
    assert seen(cloud) == ("PROVISIONING", [])


@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        (lambda now: {"validUntilDuration": "100s"}, 100),
        (lambda now: {"validUntilTime": now(200)}, 200),
        (lambda now: {"validInterval": {"endTime": now(300)}}, 300),
    ],
)
def test_not_after_its_time(cloud: Cloud, policy: Callable[[Any], Any], ends: float) -> None:
    cloud.faults.add(Fault("stock_out"))
    create(cloud, queueingPolicy=policy(cloud.clock.timestamp))
    later(cloud, ends - 1)
    assert seen(cloud) == ("WAITING_FOR_RESOURCES", [])
    later(cloud, 1)
    assert seen(cloud) == ("FAILED", [])
    assert shown_state(cloud)["failedData"]["error"]["code"] == 4
    assert cloud.tasks == {}


def test_what_was_granted_in_time_stays(cloud: Cloud) -> None:
    active(cloud, queueingPolicy={"validUntilDuration": "100s"})
    later(cloud, 1000)
    assert seen(cloud) == ("ACTIVE", ["READY"])


def test_the_longest_run(cloud: Cloud) -> None:
    active(cloud, version="v2alpha1", runDuration={"maxRunDuration": "3600s"})
    ends = cloud.clock.timestamp(3600)
    shown = cloud.node(ZONE, "n1").render("p", "v2alpha1")
    assert shown["schedulingConfig"]["terminationTimestamp"] == ends
    assert "terminationTimestamp" not in cloud.node(ZONE, "n1").render("p")["schedulingConfig"]
    later(cloud, 3599)
    assert seen(cloud) == ("ACTIVE", ["READY"])
    later(cloud, 30)
    assert seen(cloud) == ("SUSPENDED", [])


# Refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "code"), [("queue_denied", 7), ("operation_internal", 13)])
def test_an_operation_that_fails_leaves_nothing(cloud: Cloud, fault: str, code: int) -> None:
    cloud.faults.add(Fault(fault, count=1))
    operation = create(cloud)
    later(cloud)
    assert operation.error is not None
    assert operation.error["code"] == code
    assert is_gone(cloud)
    create(cloud)


def test_flex_start_is_not_for_all_types(cloud: Cloud) -> None:
    operation = create(cloud, version="v2alpha1", provisioningModel="FLEX_START")
    later(cloud)
    assert operation.error == {
        "code": 3,
        "message": "FLEX_START provisioning model is not supported for accelerator type "
        f'"v4-8" in location "{ZONE}"',
    }


def test_the_quota_counts_all_nodes_of_a_request(cloud: Cloud) -> None:
    cloud.faults.add(Fault("quota", options={"limit": 16}))
    assert refusal(lambda: create(cloud, 3)).status == "RESOURCE_EXHAUSTED"
    assert cloud.queued == {}
    create(cloud, 2)


def test_a_failed_one_still_takes_its_quota(cloud: Cloud) -> None:
    cloud.faults.add(Fault("quota", options={"limit": 16}))
    create(cloud, 2)
    cloud.queue.fail(ZONE, "q")
    later(cloud)
    again = {**body(), "tpu": {"nodeSpec": [{"parent": PARENT, "node": NODE, "nodeId": "x"}]}}
    call = refusal(lambda: cloud.queue.create(ZONE, "q2", again, "v2"))
    assert call.status == "RESOURCE_EXHAUSTED"
    cloud.queue.delete(ZONE, "q", "v2")
    later(cloud)
    cloud.queue.create(ZONE, "q2", again, "v2")


def test_names_that_are_taken(cloud: Cloud) -> None:
    create(cloud)
    assert refusal(lambda: create(cloud)).status == "ALREADY_EXISTS"
    cloud.create(ZONE, "x", NODE, "v2")
    other = {"tpu": {"nodeSpec": [{"parent": PARENT, "node": NODE, "nodeId": "x"}]}}
    error = refusal(lambda: cloud.queue.create(ZONE, "q2", other, "v2"))
    assert (error.status, "/nodes/x" in error.message) == ("ALREADY_EXISTS", True)


# The same request again ------------------------------------------------------------------------


def test_a_request_that_is_sent_again_begins_nothing_new(cloud: Cloud) -> None:
    one, two = str(uuid4()), str(uuid4())
    first = cloud.queue.create(ZONE, "q", body(), "v2", one)
    assert cloud.queue.create(ZONE, "q", body(), "v2", one) is first
    later(cloud, 100)
    assert cloud.queue.create(ZONE, "q", body(), "v2", one) is first
    other = refusal(lambda: cloud.queue.create(ZONE, "q", body(spot={}), "v2", one))
    assert other.message == (
        "The request was invalid: attempted to reuse 'request_id' for incompatible requests"
    )
    assert refusal(lambda: cloud.queue.delete(ZONE, "q", "v2", True, one)).http == 400
    gone = cloud.queue.delete(ZONE, "q", "v2", True, two)
    assert cloud.queue.delete(ZONE, "q", "v2", True, two) is gone
    later(cloud, 100)
    assert is_gone(cloud)
    assert cloud.queue.delete(ZONE, "q", "v2", True, two) is gone


def test_a_generated_name_is_generated_once(cloud: Cloud) -> None:
    one = str(uuid4())
    first = cloud.queue.create(ZONE, "", body(), "v2", one)
    assert cloud.queue.create(ZONE, "", body(), "v2", one) is first
    assert len(cloud.queued) == 1


def test_a_request_id_is_a_uuid(cloud: Cloud) -> None:
    error = refusal(lambda: cloud.queue.create(ZONE, "q", body(), "v2", "abc"))
    assert error.message == "The request was invalid: Must be a valid UUID"
    assert cloud.queued == {}


# Down ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, 10])
def test_what_has_no_nodes_is_deleted_without_force(cloud: Cloud, seconds: float) -> None:
    making = create(cloud)
    later(cloud, seconds)
    operation = cloud.queue.delete(ZONE, "q", "v2")
    assert seen(cloud) == ("DELETING", [])
    assert refusal(lambda: cloud.queue.delete(ZONE, "q", "v2")).status == "ABORTED"
    assert refusal(lambda: create(cloud)).status == "ALREADY_EXISTS"
    assert making.done
    later(cloud)
    assert is_gone(cloud)
    assert operation.response == {"@type": "type.googleapis.com/google.protobuf.Empty"}
    assert cloud.tasks == {}
    assert cloud.addresses.is_empty()


@pytest.mark.parametrize("seconds", [20, 30, 40])
def test_what_has_nodes_needs_force(cloud: Cloud, seconds: float) -> None:
    create(cloud, 2)
    later(cloud, seconds)
    error = refusal(lambda: cloud.queue.delete(ZONE, "q", "v2"))
    assert (error.http, error.status) == (400, "FAILED_PRECONDITION")
    operation = cloud.queue.delete(ZONE, "q", "v2", force=True)
    nodes = [] if seconds == 20 else ["DELETING"] * 2
    assert seen(cloud) == ("DELETING", nodes)
    later(cloud)
    if nodes:
        assert seen(cloud) == ("DELETING", [])
        assert not operation.done
        later(cloud)
    assert is_gone(cloud)
    assert operation.done
    assert cloud.tasks == {}
    assert cloud.addresses.is_empty()


def test_deleting_the_last_node_suspends(cloud: Cloud) -> None:
    active(cloud, 2)
    cloud.delete(ZONE, "n-0", "v2")
    later(cloud)
    assert seen(cloud) == ("ACTIVE", ["READY"])
    cloud.delete(ZONE, "n-1", "v2")
    assert seen(cloud) == ("SUSPENDING", ["DELETING"])
    assert shown_state(cloud)["stateInitiator"] == "USER"
    later(cloud)
    assert seen(cloud) == ("SUSPENDED", [])
    assert shown_state(cloud) == {
        "state": "SUSPENDED",
        "stateInitiator": "USER",
        "suspendedData": {},
    }
    assert refusal(lambda: cloud.queue.reset(ZONE, "q", "v2")).http == 400
    cloud.queue.delete(ZONE, "q", "v2")
    later(cloud)
    assert is_gone(cloud)


def test_preempting_a_node_takes_all(cloud: Cloud) -> None:
    active(cloud, 2, spot={})
    cloud.preempt(ZONE, "n-0")
    assert seen(cloud) == ("SUSPENDING", ["PREEMPTED", "READY"])
    assert shown_state(cloud)["stateInitiator"] == "SERVICE"
    later(cloud)
    assert seen(cloud) == ("SUSPENDING", ["DELETING", "DELETING"])
    later(cloud)
    assert seen(cloud) == ("SUSPENDED", [])
    assert shown_state(cloud)["stateInitiator"] == "SERVICE"
    assert cloud.tasks == {}
    assert cloud.addresses.is_empty()


def test_preempting_while_nodes_are_made(cloud: Cloud) -> None:
    create(cloud, 2, spot={})
    later(cloud, 30)
    cloud.preempt(ZONE, "n-1")
    assert seen(cloud)[0] == "SUSPENDING"
    later(cloud, 30)
    assert seen(cloud) == ("SUSPENDED", [])


def test_the_user_may_take_a_preempted_node_away_first(cloud: Cloud) -> None:
    active(cloud, spot={})
    cloud.preempt(ZONE, "n1")
    cloud.delete(ZONE, "n1", "v2")
    later(cloud, 20)
    assert seen(cloud) == ("SUSPENDED", [])
    assert shown_state(cloud)["stateInitiator"] == "SERVICE"


def test_force_while_it_is_suspended(cloud: Cloud) -> None:
    active(cloud, spot={})
    cloud.preempt(ZONE, "n1")
    assert refusal(lambda: cloud.queue.delete(ZONE, "q", "v2")).status == "FAILED_PRECONDITION"
    cloud.queue.delete(ZONE, "q", "v2", force=True)
    later(cloud, 20)
    assert is_gone(cloud)
    assert cloud.nodes == {}


@pytest.mark.parametrize(("tier", "meanwhile"), [("spot", "PREEMPTED"), ("guaranteed", "READY")])
def test_suspension_by_the_service(cloud: Cloud, tier: str, meanwhile: str) -> None:
    active(cloud, 2, **{tier: {}})
    cloud.queue.suspend(ZONE, "q")
    assert seen(cloud) == ("SUSPENDING", [meanwhile] * 2)
    later(cloud, 20)
    assert seen(cloud) == ("SUSPENDED", [])
    assert refusal(lambda: cloud.queue.suspend(ZONE, "q")).http == 400


def test_failure_takes_the_nodes_along(cloud: Cloud) -> None:
    active(cloud, 2)
    cloud.queue.fail(ZONE, "q", "PERMISSION_DENIED", "no")
    assert seen(cloud)[0] == "SUSPENDING"
    later(cloud, 20)
    assert seen(cloud) == ("FAILED", [])
    assert shown_state(cloud)["failedData"] == {"error": {"code": 7, "message": "no"}}


def test_a_node_that_cannot_be_made(cloud: Cloud) -> None:
    create(cloud, 2)
    later(cloud, 20)
    cloud.faults.add(Fault("operation_internal", {"node": "n-1"}, count=1))
    later(cloud, 20)
    assert seen(cloud)[0] == "SUSPENDING"
    later(cloud, 20)
    assert seen(cloud) == ("FAILED", [])
    assert shown_state(cloud)["failedData"] == {
        "error": {"code": 13, "message": "an internal error has occurred"}
    }
    assert cloud.addresses.is_empty()


def test_reset_makes_the_nodes_again(cloud: Cloud) -> None:
    active(cloud, 2)
    before = {node.name: node.uid for node in cloud.nodes_in(ZONE)}
    operation = cloud.queue.reset(ZONE, "q", "v2")
    assert seen(cloud) == ("PROVISIONING", ["DELETING"] * 2)
    later(cloud, 29)
    assert seen(cloud) == ("PROVISIONING", ["CREATING"] * 2)
    assert not operation.done
    later(cloud, 1)
    assert seen(cloud) == ("ACTIVE", ["READY"] * 2)
    after = {node.name: node.uid for node in cloud.nodes_in(ZONE)}
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())
    assert operation.response is not None
    assert operation.response["state"]["state"] == "ACTIVE"


def test_deletion_ends_a_reset(cloud: Cloud) -> None:
    active(cloud)
    reset = cloud.queue.reset(ZONE, "q", "v2")
    cloud.queue.delete(ZONE, "q", "v2", force=True)
    assert reset.error is not None
    assert reset.error["code"] == 1
    later(cloud, 20)
    assert is_gone(cloud)
    assert cloud.nodes == {}


@pytest.mark.parametrize("seconds", [0, 10, 20, 30])
def test_only_what_is_active_can_be_reset(cloud: Cloud, seconds: float) -> None:
    create(cloud)
    later(cloud, seconds)
    assert refusal(lambda: cloud.queue.reset(ZONE, "q", "v2")).status == "INVALID_ARGUMENT"


@pytest.mark.parametrize("verb", ["stop", "start"])
def test_its_nodes_are_not_stopped_or_started(cloud: Cloud, verb: str) -> None:
    active(cloud)
    assert refusal(lambda: getattr(cloud, verb)(ZONE, "n1", "v2")).http == 400


def test_cancelling_the_request(cloud: Cloud) -> None:
    operation = create(cloud)
    cloud.cancel(ZONE, operation.name)
    assert operation.error is not None
    assert operation.error["code"] == 1
    assert is_gone(cloud)


def test_maintenance_of_some_nodes(cloud: Cloud) -> None:
    active(cloud, 3)
    operation = cloud.queue.maintain(ZONE, "q", ["n-0", "n-2"], "v2alpha1")
    health = [node.health for node in cloud.nodes_in(ZONE)]
    assert health == ["UNHEALTHY_MAINTENANCE", "HEALTHY", "UNHEALTHY_MAINTENANCE"]
    assert not operation.done
    later(cloud)
    assert seen(cloud) == ("ACTIVE", ["READY"] * 3)
    assert operation.done
    unknown = refusal(lambda: cloud.queue.maintain(ZONE, "q", ["n-9"], "v2alpha1"))
    assert unknown.status == "NOT_FOUND"


# Reservations ----------------------------------------------------------------------------------

RESERVATION = f"projects/local-project/locations/{ZONE}/reservations/"


@pytest.mark.parametrize("name", ["big", "-"])
def test_a_reservation_has_to_be_there(cloud: Cloud, name: str) -> None:
    operation = create(cloud, reservationName=RESERVATION + name)
    later(cloud)
    assert operation.error == {"code": 5, "message": "Reservation not found"}
    reservations.declare(cloud, {"zone": ZONE, "name": "big", "chips": 8})
    active(cloud, reservationName=RESERVATION + name)
    assert cloud.node(ZONE, "n1").tier == "reserved"


def test_a_reservation_holds_so_many_chips(cloud: Cloud) -> None:
    big = reservations.declare(cloud, {"zone": ZONE, "name": "big", "chips": 8})
    active(cloud, 2, reservationName=RESERVATION + "big")
    assert reservations.used(cloud, big) == 8
    spec = {"tpu": {"nodeSpec": [{"parent": PARENT, "node": NODE, "nodeId": "x"}]}}
    asked = {**spec, "reservationName": RESERVATION + "big"}
    cloud.queue.create(ZONE, "q2", asked, "v2")
    later(cloud, 100)
    assert cloud.queue.get(ZONE, "q2").state == "WAITING_FOR_RESOURCES"
    cloud.queue.delete(ZONE, "q", "v2", force=True)
    later(cloud, 100)
    assert cloud.queue.get(ZONE, "q2").state == "ACTIVE"
    assert reservations.used(cloud, big) == 4


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "EXPIRED"},
        {"accelerator_type": "v4-16"},
        {"accelerator_type": "v5e"},
        {"chips": 3},
        {"end": "2020-01-01T00:00:00Z"},
        {"start": "2100-01-01T00:00:00Z"},
    ],
)
def test_a_reservation_that_does_not_do(cloud: Cloud, fields: dict[str, Any]) -> None:
    declared = {"zone": ZONE, "name": "big", "chips": 8, **fields}
    reservations.declare(cloud, declared)
    create(cloud, reservationName=RESERVATION + "big")
    later(cloud, 100)
    assert seen(cloud) == ("WAITING_FOR_RESOURCES", [])


# What survives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, 10, 20, 30, 35, 40])
def test_a_restart_at_any_time_changes_nothing(tmp_path: Path, seconds: float) -> None:
    cloud = make(tmp_path / "state.db")
    reservations.declare(cloud, {"zone": ZONE, "name": "big", "chips": 8})
    create(cloud, 2, spot={})
    later(cloud, seconds)
    before = (seen(cloud), cloud.queue.get(ZONE, "q"))
    cloud.close()
    again = make(tmp_path / "state.db")
    assert (seen(again), again.queue.get(ZONE, "q")) == before
    assert list(again.reservations) == [f"{ZONE}/big"]
    later(again, 40 - seconds)
    assert seen(again) == ("ACTIVE", ["READY"] * 2)
    again.preempt(ZONE, "n-0")
    again.close()
    once_more = make(tmp_path / "state.db")
    later(once_more, 20)
    assert seen(once_more) == ("SUSPENDED", [])


def test_everything_is_deleted_by_a_reset_of_the_cloud(tmp_path: Path) -> None:
    cloud = make(tmp_path / "state.db")
    active(cloud)
    reservations.declare(cloud, {"zone": ZONE, "name": "big", "chips": 8})
    cloud.reset()
    cloud.close()
    again = make(tmp_path / "state.db")
    assert (again.queued, again.reservations, again.nodes, again.tasks) == ({}, {}, {}, {})


def test_the_history_tells_all_states(cloud: Cloud) -> None:
    active(cloud, spot={})
    cloud.preempt(ZONE, "n1")
    later(cloud, 20)
    cloud.queue.delete(ZONE, "q", "v2")
    later(cloud)
    events = [event for event in cloud.history if event.what == "queued"]
    assert [(event.state, event.by) for event in events] == [
        ("CREATING", "client"),
        ("WAITING_FOR_RESOURCES", "client"),
        ("PROVISIONING", "service"),
        ("ACTIVE", "service"),
        ("SUSPENDING", "service"),
        ("SUSPENDED", "service"),
        ("DELETING", "client"),
        ("DELETING", "client"),
    ]
    assert events[-1].kind == "gone"
    assert {(event.chips, event.tier) for event in events} == {(4, "spot")}


def test_slices_find_each_other(cloud: Cloud) -> None:
    active(cloud, 2)
    first, second = cloud.nodes_in(ZONE)
    told = dict(line.split(": ") for line in tpu_env(cloud, second, 0).splitlines())
    assert told["MEGASCALE_COORDINATOR_ADDRESS"] == f"'{first.machines[0]['internal_ip']}'"
    assert (told["MEGASCALE_NUM_SLICES"], told["MEGASCALE_SLICE_ID"]) == ("'2'", "'1'")


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("stock_out", "WAITING_FOR_RESOURCES"),
        ("reservation_full", "WAITING_FOR_RESOURCES"),
        ("reservation_missing", "NOT_FOUND"),
        ("queue_denied", "NOT_FOUND"),
        ("operation_internal", "NOT_FOUND"),
    ],
)
@pytest.mark.parametrize(
    ("match", "strikes"),
    [
        ({"zone": ZONE}, True),
        ({"node": "n-1"}, True),
        ({"queued": "q"}, True),
        ({"accelerator_type": "v4-8"}, True),
        ({"tier": "spot"}, True),
        ({"node": "n-9"}, False),
        ({"queued": "other"}, False),
        ({"tier": "guaranteed"}, False),
    ],
)
def test_where_faults_strike(
    cloud: Cloud, kind: str, state: str, match: dict[str, str], strikes: bool
) -> None:
    cloud.faults.add(Fault(kind, match))
    create(cloud, 2, spot={})
    later(cloud, 40)
    if strikes and state == "NOT_FOUND":
        assert is_gone(cloud)
    else:
        assert seen(cloud)[0] == (state if strikes else "ACTIVE")


def test_capacity_that_is_granted_does_not_run_out_on_the_way(cloud: Cloud) -> None:
    cloud.faults.add(Fault("stock_out"))
    create(cloud)
    later(cloud)
    cloud.queue.grant(ZONE, "q")
    later(cloud, 30)
    assert seen(cloud) == ("ACTIVE", ["READY"])


def test_what_cannot_be_seen_yet(cloud: Cloud) -> None:
    cloud.faults.add(Fault("invisible", {"queued": "q"}, count=1, options={"seconds": 60}))
    create(cloud)
    assert cloud.queue.get(ZONE, "q").visible_from == cloud.clock.now() + 60
