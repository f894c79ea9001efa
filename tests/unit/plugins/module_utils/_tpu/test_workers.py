from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import natural_key
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.workers import (
    are_as_listed,
    maintenance_text,
    node_facts,
    workers_of,
)


def make_node(
    name: str = "a",
    workers: int = 1,
    zone: str = "us-central2-b",
    project: str = "p",
    **fields: Any,
) -> Node:
    endpoints = [
        {"ipAddress": f"10.0.0.{k}", "accessConfig": {"externalIp": f"192.0.2.{k}"}}
        for k in range(workers)
    ]
    return Node.from_api(
        {
            "name": f"projects/{project}/locations/{zone}/nodes/{name}",
            "id": "4711",
            "acceleratorType": "v4-8",
            "state": "READY",
            "health": "HEALTHY",
            "networkEndpoints": endpoints,
            **fields,
        }
    )


def names(*nodes: Node) -> list[str]:
    return [worker.host for worker in workers_of(nodes)]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([make_node("a")], ["a"]),
        ([make_node("a", 2)], ["a-w0", "a-w1"]),
        ([make_node("b"), make_node("a")], ["a", "b"]),
        ([make_node("n10"), make_node("n9")], ["n9", "n10"]),
        # The same name in two zones: both get the zone.
        (
            [make_node("a"), make_node("a", zone="us-east1-d")],
            ["a.us-central2-b", "a.us-east1-d"],
        ),
        (
            [make_node("a", 2), make_node("a", zone="us-east1-d"), make_node("b")],
            ["a.us-central2-b-w0", "a.us-central2-b-w1", "a.us-east1-d", "b"],
        ),
        # ... and in two projects.
        (
            [make_node("a"), make_node("a", project="q")],
            ["a.us-central2-b.p", "a.us-central2-b.q"],
        ),
        # A name that looks like another node's worker.
        (
            [make_node("a", 2), make_node("a-w0")],
            ["a-w0.us-central2-b", "a.us-central2-b-w0", "a.us-central2-b-w1"],
        ),
        # Names that Ansible would take for something else.
        ([make_node("tpu")], ["tpu.us-central2-b"]),
        ([make_node("localhost")], ["localhost.us-central2-b"]),
    ],
)
def test_host_names(nodes: list[Node], expected: list[str]) -> None:
    assert sorted(names(*nodes), key=natural_key) == sorted(expected, key=natural_key)
    assert len(set(names(*nodes))) == len(expected)


def test_workers_come_in_natural_order() -> None:
    assert names(make_node("a", 12))[8:11] == ["a-w8", "a-w9", "a-w10"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"health": ""}, None),
        ({"state": "PREEMPTED"}, "preempted"),
        ({"state": "CREATING"}, "being created"),
        ({"state": "STOPPED"}, "stopped"),
        ({"state": "REPAIRING"}, "repaired"),
        ({"state": "MELTED"}, "in state MELTED"),
        ({"health": "UNHEALTHY_MAINTENANCE"}, "maintenance"),
        ({"health": "UNHEALTHY_NEW_KIND"}, "UNHEALTHY_NEW_KIND"),
        ({"health": "TIMEOUT", "healthDescription": "no beat"}, "no beat"),
        ({"networkEndpoints": [{"ipAddress": "10.0.0.1", "accessConfig": {}}]}, "external"),
    ],
)
def test_usable_or_why_not(fields: dict[str, Any], reason: str | None) -> None:
    (worker,) = workers_of([make_node(**fields)])
    if reason is None:
        assert worker.usable
        assert {"tpu", "tpu_leaders"} <= set(worker.groups)
        assert "tpu_vm_unavailable_reason" not in worker.variables
    else:
        assert not worker.usable
        assert "tpu_unavailable" in worker.groups
        assert not {"tpu", "tpu_leaders"} & set(worker.groups)
        assert reason in worker.variables["tpu_vm_unavailable_reason"]


@pytest.mark.parametrize(
    ("connect_with", "address"),
    [("external_ip", "192.0.2.1"), ("internal_ip", "10.0.0.1")],
)
def test_address(connect_with: str, address: str) -> None:
    assert workers_of([make_node("a", 2)], connect_with)[1].address == address


@pytest.mark.parametrize("address", ["-oProxyCommand=reboot", "{{ 1 }}", "a b", ""])
def test_what_is_no_address_never_reaches_ssh(address: str) -> None:
    endpoints = [{"ipAddress": "10.0.0.1", "accessConfig": {"externalIp": address}}]
    (worker,) = workers_of([make_node(networkEndpoints=endpoints)])
    assert worker.address is None
    assert not worker.usable


def test_a_node_without_endpoints_has_the_workers_of_its_type() -> None:
    node = make_node("a", 0, state="CREATING", acceleratorType="v4-32")
    assert names(node) == ["a-w0", "a-w1", "a-w2", "a-w3"]
    assert workers_of([node])[0].variables["tpu_vm_internal_ip"] is None
    assert names(make_node("a", 0, acceleratorType="v99-1", state="CREATING")) == ["a"]


def test_groups() -> None:
    node = make_node("my-pod", 2, schedulingConfig={"spot": True})
    common = {
        "tpu",
        "tpu_slice_my_pod",
        "tpu_zone_us_central2_b",
        "tpu_type_v4_8",
        "tpu_generation_v4",
        "tpu_tier_spot",
        "tpu_state_ready",
    }
    leader, other = workers_of([node])
    assert set(leader.groups) == common | {"tpu_leaders"}
    assert set(other.groups) == common


def test_variables_of_a_worker() -> None:
    node = make_node(
        "a",
        2,
        labels={"team": "x"},
        queuedResource="projects/p/locations/us-central2-b/queuedResources/q",
        acceleratorConfig={"topology": "2x2x2"},
    )
    variables = workers_of([node])[1].variables
    assert all(name.startswith("tpu_vm_") for name in variables)
    assert variables["tpu_vm_worker_index"] == 1
    assert variables["tpu_vm_worker_count"] == 2
    assert variables["tpu_vm_slice_hosts"] == ["10.0.0.0", "10.0.0.1"]
    assert variables["tpu_vm_internal_ip"] == "10.0.0.1"
    assert variables["tpu_vm_external_ip"] == "192.0.2.1"
    assert variables["tpu_vm_uid"] == "4711"
    assert variables["tpu_vm_labels"] == {"team": "x"}
    assert variables["tpu_vm_queued_resource"] == "q"
    assert variables["tpu_vm_topology"] == "2x2x2"
    assert variables["tpu_vm_tier"] == "on_demand"


def test_facts_of_a_node_for_modules() -> None:
    facts = node_facts(make_node("a", 2))
    assert [worker["host"] for worker in facts["workers"]] == ["a-w0", "a-w1"]
    assert facts["workers"][1] == {
        "index": 1,
        "host": "a-w1",
        "internal_ip": "10.0.0.1",
        "external_ip": "192.0.2.1",
    }
    prefixed = {f"tpu_vm_{name}" for name in facts} - {"tpu_vm_workers"}
    assert prefixed <= set(workers_of([make_node("a", 2)])[0].variables)


def test_what_is_the_same_for_all_workers_of_a_node_is_held_once() -> None:
    first, *_others, last = workers_of([make_node("a", 256)])
    for name in ("tpu_vm_slice_hosts", "tpu_vm_labels"):
        assert first.variables[name] is last.variables[name]
    assert first.without("is away").node_groups is last.node_groups


@pytest.mark.parametrize(
    ("coming", "text"),
    [
        ({}, ""),
        (None, ""),
        (
            {"type": "SCHEDULED", "windowStartTime": "2026-11-28T01:31:20.171036000Z"},
            "SCHEDULED at 2026-11-28 01:31 UTC",
        ),
        ({"latestWindowStartTime": "2026-11-28T01:31:20Z"}, "maintenance at 2026-11-28 01:31 UTC"),
        ({"type": "SCHEDULED"}, "SCHEDULED soon"),
    ],
)
def test_an_announced_maintenance_is_shown_with_its_minute(coming: Any, text: str) -> None:
    assert maintenance_text(coming) == text


def listing(*nodes: Node) -> dict[str, dict[str, Any]]:
    """Return the variables of usable hosts, as the inventory has them."""
    return {worker.host: worker.variables for worker in workers_of(nodes) if worker.usable}


@pytest.mark.parametrize(
    ("now", "same"),
    [
        ([make_node("a", 2)], True),
        ([make_node("a", 2, id="4712")], False),
        ([make_node("a", 2, labels={"team": "vision"})], False),
        ([make_node("a", 2, networkEndpoints=[{"ipAddress": "10.0.0.9"}] * 2)], False),
        ([make_node("a", 1)], False),
        ([make_node("a", 2), make_node("b")], False),
        ([], False),
    ],
)
def test_workers_are_as_listed_only_without_any_difference(now: list[Node], same: bool) -> None:
    listed = listing(make_node("a", 2))
    assert are_as_listed(map(node_facts, now), listed) is same


def test_a_worker_that_cannot_be_used_is_not_as_listed() -> None:
    node = make_node("a", 2, health="UNHEALTHY_TENSORFLOW")
    assert not are_as_listed([node_facts(node)], listing(node))
