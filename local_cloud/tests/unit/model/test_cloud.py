"""What happens to nodes as time passes: the state machine under a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clouds import a_cloud

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.faults import Fault
from tpu_local_cloud.model.shared.records import OperationRecord

ZONE = "us-central2-b"
BODY: dict[str, Any] = {
    "acceleratorType": "v4-8",
    "runtimeVersion": "tpu-ubuntu2204-base",
    "networkConfig": {"enableExternalIps": True},
}
DELAYS = dict.fromkeys(("create", "delete", "start", "stop", "update", "maintain"), 10.0)
LATER = 10.0


def make(path: Path | None = None) -> Cloud:
    return a_cloud("manual", path=path, delays=DELAYS)


@pytest.fixture
def cloud() -> Cloud:
    return make()


def later(cloud: Cloud, seconds: float = LATER) -> None:
    cloud.clock.advance(seconds)
    cloud.advance()


def create(cloud: Cloud, **more: Any) -> OperationRecord:
    return cloud.create(ZONE, "n1", {**BODY, **more}, "v2")


def ready(cloud: Cloud, **more: Any) -> None:
    create(cloud, **more)
    later(cloud)


def refusal(call: Callable[[], object]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value


def state(cloud: Cloud) -> str:
    return cloud.node(ZONE, "n1").state


def test_a_node_is_ready_when_its_time_has_come(cloud: Cloud) -> None:
    operation = create(cloud)
    later(cloud, 9.9)
    assert (state(cloud), operation.done) == ("CREATING", False)
    later(cloud, 0.1)
    node = cloud.node(ZONE, "n1")
    assert (node.state, node.health, operation.done) == ("READY", "HEALTHY", True)
    assert operation.response is not None
    assert operation.response["name"] == f"projects/local-project/locations/{ZONE}/nodes/n1"


def test_it_is_due_while_there_is_something_to_do(cloud: Cloud) -> None:
    create(cloud)
    assert not cloud.is_due()
    cloud.clock.advance(LATER)
    assert cloud.is_due()
    cloud.advance()
    assert not cloud.is_due()
    cloud.publish(cloud.node(ZONE, "n1"), 0, "guest", "key", "value")
    assert cloud.is_due()
    cloud.advance()
    cloud.faults.add(Fault(kind="stock_out", until=cloud.clock.now() + 1))
    assert not cloud.is_due()
    cloud.clock.advance(1)
    assert cloud.is_due()
    cloud.advance()
    assert not cloud.is_due()


@pytest.mark.parametrize(
    ("call", "between", "after"),
    [
        (lambda c: c.stop(ZONE, "n1", "v2"), "STOPPING", "STOPPED"),
        (lambda c: c.maintain(ZONE, "n1", [0], "v2alpha1"), "READY", "READY"),
        (lambda c: c.update(ZONE, "n1", {"tags": ["t"]}, ["tags"], "v2"), "READY", "READY"),
    ],
)
def test_transitions(
    cloud: Cloud, call: Callable[[Cloud], OperationRecord], between: str, after: str
) -> None:
    ready(cloud)
    operation = call(cloud)
    assert (state(cloud), operation.done) == (between, False)
    later(cloud)
    assert (state(cloud), operation.done, operation.error) == (after, True, None)


def test_start_follows_stop(cloud: Cloud) -> None:
    ready(cloud)
    cloud.stop(ZONE, "n1", "v2")
    later(cloud)
    assert cloud.node(ZONE, "n1").machines[0]["external_ip"] is None
    cloud.start(ZONE, "n1", "v2")
    assert state(cloud) == "STARTING"
    later(cloud)
    assert state(cloud) == "READY"
    assert cloud.node(ZONE, "n1").machines[0]["external_ip"]


def test_while_it_is_deleted_the_name_is_taken(cloud: Cloud) -> None:
    ready(cloud)
    cloud.delete(ZONE, "n1", "v2")
    assert state(cloud) == "DELETING"
    assert refusal(lambda: create(cloud)).status == "ALREADY_EXISTS"
    assert refusal(lambda: cloud.delete(ZONE, "n1", "v2")).status == "ABORTED"
    later(cloud)
    assert refusal(lambda: cloud.node(ZONE, "n1")).status == "NOT_FOUND"
    create(cloud)


def test_deletion_ends_a_creation_that_runs(cloud: Cloud) -> None:
    making = create(cloud)
    cloud.delete(ZONE, "n1", "v2")
    assert making.error is not None
    assert making.error["code"] == 1
    later(cloud)
    assert cloud.nodes == {}


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.stop(ZONE, "n1", "v2"),
        lambda c: c.start(ZONE, "n1", "v2"),
        lambda c: c.update(ZONE, "n1", {}, ["labels"], "v2"),
        lambda c: c.maintain(ZONE, "n1", [0], "v2alpha1"),
    ],
)
def test_one_operation_at_a_time(cloud: Cloud, call: Callable[[Cloud], object]) -> None:
    create(cloud)
    error = refusal(lambda: call(cloud))
    assert (error.http, error.status) == (409, "ABORTED")
    assert error.message == "unable to queue the operation"


@pytest.mark.parametrize(
    ("body", "call", "text"),
    [
        ({}, lambda c: c.start(ZONE, "n1", "v2"), "start is not supported while in state READY"),
        (
            {"acceleratorType": "v4-16"},
            lambda c: c.stop(ZONE, "n1", "v2"),
            "This operation is only available with single TPU nodes.",
        ),
        (
            {"schedulingConfig": {"spot": True}},
            lambda c: c.start(ZONE, "n1", "v2"),
            "Spot VM TPUs cannot be restarted, and must be recreated again",
        ),
        (
            {"schedulingConfig": {"preemptible": True}},
            lambda c: c.start(ZONE, "n1", "v2"),
            "Preemptible TPUs cannot be restarted",
        ),
        ({}, lambda c: c.update(ZONE, "n1", {}, [], "v2"), "invalid update mask"),
        ({}, lambda c: c.update(ZONE, "n1", {}, ["state"], "v2"), "invalid update mask"),
    ],
)
def test_refusals(
    cloud: Cloud, body: dict[str, Any], call: Callable[[Cloud], object], text: str
) -> None:
    ready(cloud, **body)
    error = refusal(lambda: call(cloud))
    assert error.http == 400
    assert text in error.message


@pytest.mark.parametrize(
    ("name", "taken"),
    [("n1", True), ("a" * 63, True), ("a" * 64, False), ("1n", False), ("n-", False), ("N", False)],
)
def test_names(cloud: Cloud, name: str, taken: bool) -> None:
    if taken:
        cloud.create(ZONE, name, BODY, "v2")
    else:
        error = refusal(lambda: cloud.create(ZONE, name, BODY, "v2"))
        assert error.message.startswith("Malformed name: ")


def test_stock_out_leaves_no_node(cloud: Cloud) -> None:
    cloud.faults.add(Fault("stock_out", count=1))
    operation = create(cloud)
    assert state(cloud) == "CREATING"
    later(cloud)
    assert operation.error is not None
    assert operation.error["code"] == 8
    assert operation.error["message"].startswith(f'There is no more capacity in the zone "{ZONE}";')
    assert cloud.nodes == {}
    ready(cloud)
    assert state(cloud) == "READY"


def test_an_operation_may_never_end_while_its_node_is_ready(cloud: Cloud) -> None:
    cloud.faults.add(Fault("stuck_operation", count=1))
    operation = create(cloud)
    later(cloud, 1000)
    assert state(cloud) == "READY"
    assert operation.render("p")["done"] is False


def test_preemption_takes_the_machines_and_leaves_the_node(cloud: Cloud) -> None:
    ready(cloud, schedulingConfig={"spot": True})
    machine = cloud.node(ZONE, "n1").machines[0]["machine_id"]
    assert cloud.backend.status(machine) == "running"
    cloud.preempt(ZONE, "n1")
    assert (state(cloud), cloud.backend.status(machine)) == ("PREEMPTED", "gone")
    error = refusal(lambda: cloud.update(ZONE, "n1", {}, ["labels"], "v2"))
    assert "update is not supported while in state PREEMPTED" in error.message
    cloud.delete(ZONE, "n1", "v2")
    later(cloud)
    assert cloud.nodes == {}


def test_maintenance_of_one_worker(cloud: Cloud) -> None:
    ready(cloud, acceleratorType="v4-16")
    node = cloud.node(ZONE, "n1")
    before = [dict(machine) for machine in node.machines]
    uid = node.uid
    cloud.maintain(ZONE, "n1", [1], "v2alpha1")
    assert (node.health, node.maintenance_event) == (
        "UNHEALTHY_MAINTENANCE",
        "TERMINATE_ON_HOST_MAINTENANCE",
    )
    later(cloud)
    assert (node.state, node.health, node.maintenance_event) == ("READY", "HEALTHY", "NONE")
    assert node.uid == uid
    assert node.machines[0] == before[0]
    assert node.machines[1]["internal_ip"] == before[1]["internal_ip"]
    assert node.machines[1]["external_ip"] != before[1]["external_ip"]


def test_a_machine_gets_the_address_that_another_had(cloud: Cloud) -> None:
    ready(cloud)
    cloud.create(ZONE, "n2", BODY, "v2")
    later(cloud)
    wanted = cloud.node(ZONE, "n2").machines[0]["external_ip"]
    error = refusal(lambda: cloud.maintain(ZONE, "n1", [0], "v2alpha1", wanted))
    assert "is in use" in error.message
    cloud.delete(ZONE, "n2", "v2")
    later(cloud)
    cloud.maintain(ZONE, "n1", [0], "v2alpha1", wanted)
    later(cloud)
    assert cloud.node(ZONE, "n1").machines[0]["external_ip"] == wanted


def test_cancelling_a_creation_takes_it_back(cloud: Cloud) -> None:
    operation = create(cloud)
    cloud.cancel(ZONE, operation.name)
    assert operation.error is not None
    assert operation.error["code"] == 1
    assert cloud.nodes == {}


def test_addresses_are_given_back(cloud: Cloud) -> None:
    ready(cloud, networkConfigs=[{"enableExternalIps": True}, {}], networkConfig=None)
    cloud.delete(ZONE, "n1", "v2")
    later(cloud)
    assert cloud.addresses.is_empty()


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    first = make(tmp_path / "state.db")
    ready(first)
    begun = first.stop(ZONE, "n1", "v2")
    first.set_project_metadata({"ssh-keys": "me:ssh-ed25519 AAAA"})
    uid, address = first.node(ZONE, "n1").uid, first.node(ZONE, "n1").machines[0]["internal_ip"]
    first.close()
    second = make(tmp_path / "state.db")
    # Time stood still, and what was under way goes on.
    assert second.node(ZONE, "n1").state == "STOPPING"
    later(second)
    node = second.node(ZONE, "n1")
    assert (node.uid, node.state) == (uid, "STOPPED")
    assert second.operation(ZONE, begun.name).done
    assert second.project_metadata == {"ssh-keys": "me:ssh-ed25519 AAAA"}
    assert second.worker_at(address) == (node, 0)
    other = second.create(ZONE, "n2", BODY, "v2")
    assert not other.done
    assert second.node(ZONE, "n2").machines[0]["internal_ip"] != address
    second.close()


def test_a_request_that_is_sent_again_is_answered_as_before(tmp_path: Path) -> None:
    cloud = make(tmp_path / "state.db")
    made = cloud.create(ZONE, "n1", BODY, "v2alpha1", "id-1")
    assert cloud.create(ZONE, "n1", BODY, "v2alpha1", "id-1") is made
    error = refusal(lambda: cloud.create(ZONE, "n1", BODY, "v2alpha1", "id-2"))
    assert error.status == "ALREADY_EXISTS"
    cloud.close()
    cloud = make(tmp_path / "state.db")
    assert cloud.create(ZONE, "n1", BODY, "v2alpha1", "id-1").name == made.name
    gone = cloud.delete(ZONE, "n1", "v2alpha1", "id-1")
    assert gone.name != made.name
    later(cloud)
    assert cloud.delete(ZONE, "n1", "v2alpha1", "id-1") is gone
    assert refusal(lambda: cloud.delete(ZONE, "n1", "v2alpha1", "id-3")).status == "NOT_FOUND"
    cloud.close()


def test_one_request_id_for_two_nodes_makes_two_nodes(cloud: Cloud) -> None:
    first = cloud.create(ZONE, "n1", BODY, "v2alpha1", "id-1")
    assert cloud.create(ZONE, "n2", BODY, "v2alpha1", "id-1") is not first
    assert len(cloud.nodes) == 2
