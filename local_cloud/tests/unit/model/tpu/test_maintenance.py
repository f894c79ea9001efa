"""Maintenance and the taking back of nodes, as time passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.machines import SHUTDOWN_LIMIT
from tpu_local_cloud.machines.none import NoMachines
from tpu_local_cloud.machines.patience import wait_for
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.records import NodeRecord
from tpu_local_cloud.model.shared.store import Store
from tpu_local_cloud.serve import metadata

ZONE = "us-central2-b"
BODY: dict[str, Any] = {
    "acceleratorType": "v4-16",
    "runtimeVersion": "tpu-ubuntu2204-base",
    "networkConfig": {"enableExternalIps": True},
}
DELAYS = {
    "create": 60.0,
    "delete": 0.5,
    "maintain": 600.0,
    "maintain:v4-16": 1200.0,
    "stop": 30.0,
    "update": 9.0,
}
START = 1_900_000_000.0


def make(path: Path | None = None) -> Cloud:
    return Cloud(NoMachines(), Store(path), Clock("manual", start=START), delays=DELAYS)


@pytest.fixture
def cloud() -> Cloud:
    return make()


def later(cloud: Cloud, seconds: float) -> None:
    cloud.clock.advance(seconds)
    cloud.advance()


def ready(cloud: Cloud, zone: str = ZONE, **more: Any) -> NodeRecord:
    cloud.create(zone, "n1", {**BODY, **more}, "v2")
    later(cloud, 60)
    return cloud.node(zone, "n1")


def upcoming(cloud: Cloud, node: NodeRecord, version: str = "v2") -> Any:
    return cloud.render(node, version).get("upcomingMaintenance")


def refusal(call: Callable[[], object]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_it_is_announced(cloud: Cloud, version: str) -> None:
    node = ready(cloud)
    assert upcoming(cloud, node, version) is None
    cloud.announce_maintenance(ZONE, "n1", 3600, length=7200, latest=86400)
    assert upcoming(cloud, node, version) == {
        "type": "SCHEDULED",
        "canReschedule": True,
        "windowStartTime": "2030-03-17T18:47:40.000000000Z",
        "windowEndTime": "2030-03-17T20:47:40.000000000Z",
        "latestWindowStartTime": "2030-03-18T17:47:40.000000000Z",
        "maintenanceStatus": "PENDING",
    }


def test_it_begins_and_ends_by_itself(cloud: Cloud) -> None:
    node = ready(cloud)
    addresses = [machine["external_ip"] for machine in node.machines]
    cloud.announce_maintenance(ZONE, "n1", 3600)
    later(cloud, 3599)
    assert (node.state, node.health) == ("READY", "HEALTHY")
    later(cloud, 1)
    assert (node.state, node.health) == ("READY", "UNHEALTHY_MAINTENANCE")
    assert upcoming(cloud, node)["maintenanceStatus"] == "ONGOING"
    later(cloud, 1199)
    assert node.health == "UNHEALTHY_MAINTENANCE"  # a large slice is away for longer
    later(cloud, 1)
    assert (node.state, node.health) == ("READY", "HEALTHY")
    assert upcoming(cloud, node) is None
    assert all(m["external_ip"] not in addresses for m in node.machines)
    told = [(event.at - START, event.state, event.by) for event in cloud.history]
    assert told[-2:] == [(4860, "RESTARTING", "service"), (4860, "READY", "service")]


def test_it_keeps_nobody_from_working_before(cloud: Cloud) -> None:
    node = ready(cloud)
    cloud.announce_maintenance(ZONE, "n1", 20)
    later(cloud, 15)
    operation = cloud.update(ZONE, "n1", {"tags": ["t"]}, ["tags"], "v2")
    later(cloud, 10)
    # It was due in the middle of the update, and tries again soon.
    assert operation.done
    assert operation.error is None
    assert node.health == "UNHEALTHY_MAINTENANCE"


def test_what_is_stopped_needs_none(cloud: Cloud) -> None:
    node = ready(cloud, acceleratorType="v4-8")
    cloud.announce_maintenance(ZONE, "n1", 3600)
    cloud.stop(ZONE, "n1", "v2")
    later(cloud, 3600)
    assert (node.state, node.maintenance) == ("STOPPED", {})


def test_a_later_announcement_takes_the_place_of_an_earlier(cloud: Cloud) -> None:
    node = ready(cloud)
    cloud.announce_maintenance(ZONE, "n1", 100)
    cloud.announce_maintenance(ZONE, "n1", 10_000)
    later(cloud, 5000)
    assert (node.health, len(cloud.tasks)) == ("HEALTHY", 1)


def test_it_is_performed_early(cloud: Cloud) -> None:
    node = ready(cloud)
    cloud.announce_maintenance(ZONE, "n1", 7 * 86400)
    operation = cloud.maintain(ZONE, "n1", [0, 1], "v2alpha1", verb="performMaintenance")
    assert upcoming(cloud, node)["maintenanceStatus"] == "ONGOING"
    later(cloud, 1200)
    assert operation.done
    assert (node.health, upcoming(cloud, node)) == ("HEALTHY", None)
    before = len(cloud.history)
    later(cloud, 8 * 86400)
    assert len(cloud.history) == before  # it does not come again


PERFORMABLE = [
    ("us-central2-b", "v4-8", True),
    ("us-east5-a", "v5p-8", True),
    ("us-east5-a", "v5litepod-4", False),
    ("us-east5-a", "v5litepod-8", True),
    ("us-east5-a", "v6e-1", False),
    ("us-east5-a", "v6e-8", True),
    ("us-central1-f", "v2-8", False),
]


@pytest.mark.parametrize(("zone", "kind", "may"), PERFORMABLE)
def test_which_types_can_be_told_when(cloud: Cloud, zone: str, kind: str, may: bool) -> None:
    ready(cloud, zone, acceleratorType=kind)

    def perform() -> object:
        return cloud.maintain(zone, "n1", [0], "v2alpha1", verb="performMaintenance")

    if may:
        perform()
    else:
        assert f"is not supported for accelerator type {kind}." in refusal(perform).message
    # A simulation can be had of each.
    if not may:
        cloud.maintain(zone, "n1", [0], "v2alpha1")


def test_what_cannot_be_rescheduled(cloud: Cloud) -> None:
    ready(cloud)
    cloud.announce_maintenance(ZONE, "n1", 3600, can_reschedule=False)
    error = refusal(lambda: cloud.maintain(ZONE, "n1", [0], "v2alpha1", verb="performMaintenance"))
    assert (error.http, "cannot be rescheduled" in error.message) == (400, True)


def test_it_is_not_forgotten_by_a_restart(tmp_path: Path) -> None:
    first = make(tmp_path / "state.db")
    ready(first)
    first.announce_maintenance(ZONE, "n1", 3600)
    first.close()
    second = make(tmp_path / "state.db")
    node = second.node(ZONE, "n1")
    assert upcoming(second, node)["maintenanceStatus"] == "PENDING"
    later(second, 3600)
    assert node.health == "UNHEALTHY_MAINTENANCE"
    second.close()


def read(cloud: Cloud, node: NodeRecord, path: str) -> Any:
    return metadata.find(metadata.tree(cloud, node, 0), path.split("/"))


def test_what_the_machines_read_of_it(cloud: Cloud) -> None:
    node = ready(cloud)
    with pytest.raises(KeyError):
        read(cloud, node, "instance/upcoming-maintenance")
    cloud.announce_maintenance(ZONE, "n1", 3600, kind="UNSCHEDULED")
    seen = read(cloud, node, "instance/upcoming-maintenance")
    assert (seen["type"], seen["can_reschedule"]) == ("UNSCHEDULED", "true")
    assert seen["window_start_time"] == upcoming(cloud, node)["windowStartTime"]
    assert read(cloud, node, "instance/maintenance-event") == "NONE"
    later(cloud, 3600)
    assert read(cloud, node, "instance/maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE"
    assert read(cloud, node, "instance/upcoming-maintenance")["maintenance_status"] == "ONGOING"


# Taking back ----------------------------------------------------------------------------------


def at_creating(cloud: Cloud) -> NodeRecord:
    cloud.create(ZONE, "n1", {**BODY, "acceleratorType": "v4-8"}, "v2")
    return cloud.node(ZONE, "n1")


def at_ready(cloud: Cloud) -> NodeRecord:
    return ready(cloud, acceleratorType="v4-8")


def at_stopped(cloud: Cloud) -> NodeRecord:
    node = at_ready(cloud)
    cloud.stop(ZONE, "n1", "v2")
    later(cloud, 30)
    return node


def at_stopping(cloud: Cloud) -> NodeRecord:
    node = at_ready(cloud)
    cloud.stop(ZONE, "n1", "v2")
    return node


def at_maintenance(cloud: Cloud) -> NodeRecord:
    node = at_ready(cloud)
    cloud.maintain(ZONE, "n1", [0], "v2alpha1")
    return node


@pytest.mark.parametrize("state", ["PREEMPTED", "TERMINATED"])
@pytest.mark.parametrize("reach", [at_creating, at_ready, at_stopping, at_stopped, at_maintenance])
def test_at_any_state(cloud: Cloud, reach: Callable[[Cloud], NodeRecord], state: str) -> None:
    node = reach(cloud)
    cloud.preempt(ZONE, "n1", state)
    later(cloud, 10_000)
    assert (node.state, node.health) == (state, "")
    assert cloud.backend.status(node.machines[0]["machine_id"]) == "gone"
    assert all(operation.done for operation in cloud.operations.values())
    # It stays, and keeps its name, until somebody deletes it.
    taken = refusal(lambda: cloud.create(ZONE, "n1", BODY, "v2"))
    assert taken.status == "ALREADY_EXISTS"
    cloud.delete(ZONE, "n1", "v2")
    later(cloud, 10)
    assert cloud.nodes == {}


def test_what_a_creation_fails_with_when_its_node_is_taken(cloud: Cloud) -> None:
    operation = cloud.create(ZONE, "n1", BODY, "v2")
    cloud.preempt(ZONE, "n1")
    assert operation.error is not None
    assert operation.error["code"] == 3
    assert "update is not supported while in state PREEMPTED" in operation.error["message"]


def test_notice_is_given(cloud: Cloud) -> None:
    node = ready(cloud)
    assert read(cloud, node, "instance/preempted") == "FALSE"
    cloud.preempt(ZONE, "n1", notice=30)
    assert (read(cloud, node, "instance/preempted"), node.state) == ("TRUE", "READY")
    later(cloud, 29)
    assert cloud.backend.status(node.machines[0]["machine_id"]) == "running"
    later(cloud, 1)
    assert node.state == "PREEMPTED"
    assert cloud.history[-1].at == START + 90
    assert cloud.history[-1].by == "service"


class Machines(NoMachines):
    """Machines with an operating system, which shuts down when it is asked to."""

    name = "machines"

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, float] = {}

    def power_off(self, machine_id: str, seconds: float = SHUTDOWN_LIMIT) -> None:
        super().power_off(machine_id)
        self.asked[machine_id] = seconds


@pytest.mark.parametrize(("notice", "given"), [(20.0, 20.0), (900.0, SHUTDOWN_LIMIT)])
def test_machines_shut_down_during_a_notice_and_end_it(notice: float, given: float) -> None:
    backend = Machines()
    cloud = Cloud(backend, Store(None), Clock("manual", start=START), delays=DELAYS)
    cloud.create(ZONE, "n1", BODY, "v2")
    later(cloud, 60)
    node = cloud.node(ZONE, "n1")
    assert wait_for(lambda: node.state == "READY", 10)
    ids = [machine["machine_id"] for machine in node.machines]
    cloud.preempt(ZONE, "n1", notice=notice)
    later(cloud, 0)
    assert wait_for(lambda: node.state == "PREEMPTED", 10)
    assert backend.asked == dict.fromkeys(ids, given)
    assert wait_for(lambda: {backend.status(one) for one in ids} == {"gone"}, 10)


def test_only_states_that_mean_it(cloud: Cloud) -> None:
    ready(cloud)
    with pytest.raises(ValueError, match="state 'READY' is none of PREEMPTED, TERMINATED"):
        cloud.preempt(ZONE, "n1", "READY")


def test_health_is_told_with_its_reason(cloud: Cloud) -> None:
    node = ready(cloud)
    symptom = {"symptomType": "OUT_OF_MEMORY", "workerId": "1"}
    fields = {"health": "TIMEOUT", "health_description": "no answer", "symptoms": [symptom]}
    cloud.set_fields(ZONE, "n1", fields)
    shown = cloud.render(node)
    assert (shown["health"], shown["healthDescription"]) == ("TIMEOUT", "no answer")
    assert shown["symptoms"] == [symptom]
