"""What the API may answer, and what we make of it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import (
    Endpoint,
    Node,
    Operation,
    parse_time,
)

FULL: dict[str, Any] = {
    "name": "projects/123456789012/locations/us-central2-b/nodes/pair",
    "id": "6502082742571311568",
    "acceleratorType": "projects/p/locations/us-central2-b/acceleratorTypes/v4-16",
    "acceleratorConfig": {"type": "V4", "topology": "2x2x2"},
    "runtimeVersion": "tpu-ubuntu2204-base",
    "state": "READY",
    "health": "HEALTHY",
    "networkConfig": {
        "network": "projects/p/global/networks/default",
        "subnetwork": "projects/p/regions/us-central2/subnetworks/default",
        "enableExternalIps": True,
    },
    "networkEndpoints": [
        {"ipAddress": "10.0.0.1", "port": 8470, "accessConfig": {"externalIp": "203.0.113.1"}},
        {"ipAddress": "10.0.0.2", "accessConfig": {}},
    ],
    "schedulingConfig": {"spot": True},
    "serviceAccount": {"email": "a@b", "scope": ["x"]},
    "queuedResource": "projects/p/locations/z/queuedResources/q1",
    "labels": {"a": "b"},
    "createTime": "2019-11-05T09:33:57.691822828Z",
    "useTpuVm": True,
}


def test_full_node() -> None:
    node = Node.from_api(FULL)
    assert (node.name, node.zone, node.project) == ("pair", "us-central2-b", "123456789012")
    assert node.uid == "6502082742571311568"
    assert node.accelerator_type == "v4-16"
    assert node.topology == "2x2x2"
    assert node.tier == "spot"
    assert node.endpoints == [Endpoint("10.0.0.1", "203.0.113.1"), Endpoint("10.0.0.2", None)]
    assert (node.network, node.subnetwork, node.external_ips) == ("default", "default", True)
    assert node.queued_resource == "q1"
    assert node.created == datetime(2019, 11, 5, 9, 33, 57, 691822, timezone.utc)
    assert node.raw["useTpuVm"] is True


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"schedulingConfig": {}, "serviceAccount": {}, "bootDisk": {}},
        {"labels": None, "networkEndpoints": None, "networkConfigs": [], "tags": None},
        {"networkEndpoints": [None, "x"], "dataDisks": [None], "symptoms": ["x"]},
    ],
)
def test_every_field_may_be_absent(raw: dict[str, Any]) -> None:
    node = Node.from_api(raw)
    assert node.state == "STATE_UNSPECIFIED"
    assert node.tier == "on_demand"
    assert node.endpoints == []
    assert not node.is_ready


def test_enums_are_open() -> None:
    node = Node.from_api({"state": "SLEEPWALKING", "health": "FEVERISH"})
    assert (node.state, node.health) == ("SLEEPWALKING", "FEVERISH")


@pytest.mark.parametrize(
    ("nics", "expected"),
    [(0, ["1", "2", "3", "4"]), (1, ["1", "2", "3", "4"]), (2, ["1", "3"]), (4, ["1"])],
)
def test_worker_is_every_kth_endpoint_with_k_nics(nics: int, expected: list[str]) -> None:
    raw = {
        "networkConfigs": [{"network": f"n{index}"} for index in range(nics)],
        "networkEndpoints": [{"ipAddress": ip} for ip in ("1", "2", "3", "4")],
    }
    assert [endpoint.internal_ip for endpoint in Node.from_api(raw).endpoints] == expected


@pytest.mark.parametrize(
    ("scheduling", "tier"),
    [
        ({}, "on_demand"),
        ({"preemptible": True}, "preemptible"),
        ({"spot": True, "preemptible": True}, "spot"),
        ({"reserved": True}, "reserved"),
        ({"provisioningModel": "SPOT"}, "spot"),
        ({"provisioningModel": "RESERVATION_BOUND"}, "reserved"),
        ({"spot": False, "preemptible": False, "reserved": False}, "on_demand"),
    ],
)
def test_tier(scheduling: dict[str, Any], tier: str) -> None:
    assert Node.from_api({"schedulingConfig": scheduling}).tier == tier


@pytest.mark.parametrize(
    ("state", "health", "ready", "lost", "pending"),
    [
        ("READY", "HEALTHY", True, False, False),
        ("READY", "", True, False, False),
        ("READY", "UNHEALTHY_MAINTENANCE", False, False, False),
        ("READY", "UNHEALTHY_OF_THE_FUTURE", False, False, False),
        ("READY", "TIMEOUT", False, False, False),
        ("CREATING", "", False, False, True),
        ("PREEMPTED", "HEALTHY", False, True, False),
        ("TERMINATED", "", False, True, False),
        ("STOPPED", "", False, False, False),
    ],
)
def test_states(state: str, health: str, ready: bool, lost: bool, pending: bool) -> None:
    node = Node.from_api({"state": state, "health": health})
    assert (node.is_ready, node.is_lost, node.is_pending) == (ready, lost, pending)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", None),
        ("nonsense", None),
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, 0, timezone.utc)),
        ("2026-01-02T03:04:05.1Z", datetime(2026, 1, 2, 3, 4, 5, 100000, timezone.utc)),
        ("2026-01-02T03:04:05.123456789Z", datetime(2026, 1, 2, 3, 4, 5, 123456, timezone.utc)),
        ("2026-01-02T05:04:05+02:00", datetime(2026, 1, 2, 3, 4, 5, 0, timezone.utc)),
    ],
)
def test_times(text: str | None, expected: datetime | None) -> None:
    assert parse_time(text) == expected


def test_operation() -> None:
    operation = Operation.from_api(
        {"name": "projects/p/…/o", "metadata": {"target": "t", "verb": "create"}, "done": False}
    )
    assert (operation.verb, operation.target, operation.done) == ("create", "t", False)
