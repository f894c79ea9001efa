"""Every change of a resource is in the history, with the moment at which it was due."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tpu_local_cloud.machines.none import NoMachines
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.faults import Fault
from tpu_local_cloud.model.shared.history import Event, History
from tpu_local_cloud.model.shared.store import Store

ZONE = "us-central2-b"
BODY: dict[str, Any] = {
    "acceleratorType": "v4-16",
    "runtimeVersion": "tpu-ubuntu2204-base",
    "labels": {"a": "1"},
    "schedulingConfig": {"spot": True},
}
START = 1_900_000_000.0


def make(path: Path | None = None) -> Cloud:
    clock = Clock("manual", start=START)
    return Cloud(NoMachines(), Store(path), clock, delays={"create": 60, "delete": 30, "update": 5})


@pytest.fixture
def cloud() -> Cloud:
    return make()


def told(cloud: Cloud) -> list[tuple[float, str, str, str]]:
    return [(event.at - START, event.kind, event.state, event.by) for event in cloud.history]


def test_a_life_in_one_leap_of_time(cloud: Cloud) -> None:
    cloud.create(ZONE, "n1", BODY, "v2")
    cloud.clock.advance(1000)
    cloud.update(ZONE, "n1", {"labels": {"a": "2"}}, ["labels"], "v2")
    cloud.clock.advance(1000)
    cloud.delete(ZONE, "n1", "v2")
    cloud.clock.advance(30 * 86400)
    cloud.advance()
    assert told(cloud) == [
        (0, "created", "CREATING", "client"),
        (60, "changed", "READY", "client"),
        (1005, "updated", "READY", "client"),
        (2000, "changed", "DELETING", "client"),
        (2030, "gone", "DELETING", "client"),
    ]
    assert [event.labels["a"] for event in cloud.history] == ["1", "1", "2", "2", "2"]
    first = cloud.history[0]
    assert (first.what, first.zone, first.name) == ("node", ZONE, "n1")
    assert (first.chips, first.tier, first.accelerator_type) == (8, "spot", "v4-16")


def test_stamps_are_of_the_moment_at_which_something_was_due(cloud: Cloud) -> None:
    operation = cloud.create(ZONE, "n1", BODY, "v2")
    cloud.clock.advance(3600)
    cloud.advance()
    assert operation.created == cloud.node(ZONE, "n1").created == "2030-03-17T17:46:40.000000000Z"
    assert operation.ended == "2030-03-17T17:47:40.000000000Z"
    assert operation.name.startswith("operation-1900000000000-")


def test_what_the_service_does_by_itself(cloud: Cloud) -> None:
    cloud.create(ZONE, "n1", BODY, "v2")
    cloud.preempt(ZONE, "n1")
    assert told(cloud)[-1] == (0, "changed", "PREEMPTED", "service")


def test_a_creation_that_fails_is_taken_back_by_the_service(cloud: Cloud) -> None:
    cloud.faults.add(Fault("stock_out"))
    cloud.create(ZONE, "n1", BODY, "v2")
    cloud.clock.advance(60)
    cloud.advance()
    assert told(cloud)[-1] == (45, "gone", "CREATING", "service")


def test_a_server_that_starts_says_what_it_found(tmp_path: Path) -> None:
    first = make(tmp_path / "state.db")
    first.create(ZONE, "n1", BODY, "v2")
    first.close()
    second = make(tmp_path / "state.db")
    assert [(event.kind, event.name) for event in second.history] == [("found", "n1")]
    second.close()


def event(name: str) -> Event:
    return Event(0.0, "created", ZONE, name, "node", "CREATING", 4, "spot", "v4-8")


def test_time_does_not_run_backwards_in_it() -> None:
    history = History()
    for at in (5.0, 3.0, 6.0):
        history.append(Event(at, "created", ZONE, "n", "node", "CREATING", 4, "spot", "v4-8"))
    assert [item.at for item in history] == [5.0, 5.0, 6.0]


def test_the_oldest_are_forgotten_and_counted() -> None:
    history = History(limit=3)
    for number in range(5):
        history.append(event(str(number)))
    assert [item.name for item in history] == ["2", "3", "4"]
    assert (len(history), history.dropped) == (3, 2)
    assert [item.name for item in history.since(3)] == ["3", "4"]
    assert history.since(5) == []


def test_events_may_come_while_somebody_reads() -> None:
    history = History()
    history.append(event("0"))
    for item in history:
        history.append(event(item.name + "x"))
    assert len(history) == 2
