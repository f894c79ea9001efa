"""(wanted, seen) -> differences and steps, for queued resources."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("requests")

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import (
    BadRequest,
    NodeLost,
    Refused,
    StockOut,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_facts import queued_facts
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_plan import (
    QueuedWant,
    decide,
    differences_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import QueuedResource

ZONE = "us-central2-b"
HOME = f"projects/123/locations/{ZONE}"
NO_CAPACITY = {"code": 8, "message": "There is no more capacity in the zone"}


def want(**params: Any) -> QueuedWant:
    base = {"name": "q", "zone": ZONE, "accelerator_type": "v4-8"}
    return QueuedWant.from_params({**base, **params}, "p")


def seen(state: str = "ACTIVE", asked: QueuedWant | None = None, **rest: Any) -> QueuedResource:
    """Return what the API shows of a request, the project by its number."""
    body = (asked or want()).body()
    for spec in body["tpu"]["nodeSpec"]:
        spec["parent"] = HOME
    status = {"state": state, **rest.pop("status", {})}
    raw = {**body, "name": f"{HOME}/queuedResources/q", "state": status, **rest}
    return QueuedResource.from_api(raw)


def node(name: str = "q", state: str = "READY", of: str = "q", **rest: Any) -> Node:
    path = f"{HOME}/queuedResources/{of}" if of else ""
    raw = {"name": f"{HOME}/nodes/{name}", "state": state, "queuedResource": path}
    return Node.from_api({**raw, "labels": {"tpu-fleet": "managed"}, **rest})


def steps(state: str, *args: Any, **options: Any) -> list[str]:
    found = decide(state, *args, **options).steps
    return [f"{step.kind} {step.name}".strip() for step in found]


# -- what is wanted ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "ids"),
    [
        ({}, ["q"]),
        ({"nodes": ["a", "b"]}, ["a", "b"]),
        ({"node_count": 2}, ["q-0", "q-1"]),
        ({"node_count": 2, "node_prefix": "m"}, ["m-0", "m-1"]),
    ],
)
def test_names(params: dict[str, Any], ids: list[str]) -> None:
    wanted = want(**params)
    assert list(wanted.node_ids) == ids
    assert [each.name for each in wanted.as_requested().nodes] == ids
    assert wanted.as_requested().labels["tpu-fleet"] == "managed"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"name": "Q"}, "'Q' is no name"),
        ({"nodes": ["a", "B"]}, "'B' is no name"),
        ({"nodes": ["a", "a"]}, "a more than once"),
        ({"node_count": 1}, "node_count is 1"),
        ({"node_count": 0}, "node_count is 0"),
        ({"tier": "spot", "min_duration": "1h"}, "min_duration is '1h'"),
        ({"valid_until_duration": "long"}, "valid_until_duration is 'long'"),
        ({"runtime_version": "v2-alpha-tpuv6e"}, "does not fit"),
    ],
)
def test_wrong_input(params: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        want(**params)
    assert words in str(caught.value)
    assert caught.value.remedy


def test_reservation_says_the_tier() -> None:
    assert want(reservation="r").tier == "reserved"
    assert want(reservation="r").body()["reservationName"].endswith("/reservations/r")


# -- differences ---------------------------------------------------------------------------------

SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    # What is not said does not differ.
    ({"accelerator_type": None}, {"nodes": ["a", "b"], "tier": "spot", "labels": {"a": "b"}}),
    ({"tier": "spot"}, {"tier": "spot"}),
    ({"nodes": ["b", "a"]}, {"nodes": ["a", "b"]}),
    ({"node_count": 2}, {"nodes": ["q-0", "q-1"]}),
    ({"reservation": "r"}, {"reservation": "projects/123/locations/z/reservations/r"}),
    ({"valid_until_duration": "6h"}, {"valid_until_duration": "360m"}),
    (
        {"valid_until_time": "2026-01-01T00:00:00Z"},
        {"valid_until_time": "2026-01-01T01:00:00+01:00"},
    ),
    # The API may show it in another form.
    ({"valid_until_duration": "6h"}, {"valid_until_time": "2026-01-01T00:00:00Z"}),
    (
        {"tier": "flex_start", "max_run_duration": "1h"},
        {"tier": "flex_start", "max_run_duration": "60m"},
    ),
]


@pytest.mark.parametrize(("wanted", "asked"), SAME)
def test_no_difference(wanted: dict[str, Any], asked: dict[str, Any]) -> None:
    for state in ("WAITING_FOR_RESOURCES", "ACTIVE"):
        assert differences_of(want(**wanted), seen(state, want(**asked))) == []


OTHER: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"accelerator_type": "v4-16"}, {}, "accelerator_type"),
    ({"tier": "spot"}, {}, "tier"),
    ({"tier": "on_demand"}, {"tier": "best_effort"}, "tier"),
    ({"nodes": ["a"]}, {"nodes": ["a", "b"]}, "nodes"),
    ({"node_count": 3}, {"node_count": 2}, "nodes"),
    ({"network": "n"}, {}, "network"),
    ({"boot_disk_size": "200GiB"}, {"boot_disk_size": "100GiB"}, "boot_disk_size"),
    ({"reservation": "r"}, {"reservation": "s"}, "reservation"),
    (
        {"tier": "guaranteed", "min_duration": "1h"},
        {"tier": "guaranteed", "min_duration": "2h"},
        "min_duration",
    ),
    (
        {"tier": "flex_start", "max_run_duration": "1h"},
        {"tier": "flex_start", "max_run_duration": "2h"},
        "max_run_duration",
    ),
]


@pytest.mark.parametrize(("wanted", "asked", "field"), OTHER)
def test_difference(wanted: dict[str, Any], asked: dict[str, Any], field: str) -> None:
    for state in ("WAITING_FOR_RESOURCES", "ACTIVE"):
        found = differences_of(want(**wanted), seen(state, want(**asked)))
        assert [item.field for item in found] == [field]


WHILE_WAITING: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"labels": {"a": "b"}}, {}, "labels"),
    ({"startup_script": "echo"}, {}, "metadata"),
    ({"valid_until_duration": "6h"}, {"valid_until_duration": "5h"}, "queueing_policy."),
    (
        {"valid_interval": {"start_time": "2026-01-01", "end_time": "2026-01-03"}},
        {"valid_interval": {"start_time": "2026-01-01", "end_time": "2026-01-02"}},
        "queueing_policy.validInterval",
    ),
]


@pytest.mark.parametrize(("wanted", "asked", "field"), WHILE_WAITING)
def test_difference_that_matters_only_while_it_waits(
    wanted: dict[str, Any], asked: dict[str, Any], field: str
) -> None:
    (found,) = differences_of(want(**wanted), seen("WAITING_FOR_RESOURCES", want(**asked)))
    assert found.field.startswith(field)
    assert differences_of(want(**wanted), seen("ACTIVE", want(**asked))) == []


# -- steps ---------------------------------------------------------------------------------------


def test_new() -> None:
    assert steps("present", want(), None) == ["create", "wait_active"]
    assert steps("present", want(), None, wait=False) == ["create"]
    assert steps("absent", want(), None) == []


def test_there_already() -> None:
    assert steps("present", want(), seen("ACTIVE")) == []
    for state in ("ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "STATE_OF_NEXT_YEAR"):
        assert steps("present", want(), seen(state)) == ["wait_active"]
        assert steps("present", want(), seen(state), wait=False) == []


def test_being_deleted() -> None:
    going = seen("DELETING")
    assert steps("absent", want(), going) == ["wait_gone"]
    assert steps("absent", want(), going, wait=False) == []
    again = ["wait_gone", "create", "wait_active"]
    assert steps("present", want(), going, [node(state="DELETING")]) == again


def test_name_of_a_node_is_taken() -> None:
    with pytest.raises(Refused, match=r"nodes that exist: q \(READY\)"):
        decide("present", want(), None, [node(of="")])
    gone = steps("present", want(), None, [node(state="DELETING", of="")])
    assert gone == ["wait_node_gone q", "create", "wait_active"]


def test_nothing_says_what_to_ask_for() -> None:
    with pytest.raises(Refused, match="no option says what to request"):
        decide("present", want(accelerator_type=None), None)


@pytest.mark.parametrize("state", ["present", "absent", "reset"])
@pytest.mark.parametrize("labels", [{}, {"tpu-fleet": "bob"}])
def test_what_is_not_ours(state: str, labels: dict[str, str]) -> None:
    theirs = seen("FAILED", tpu={"nodeSpec": [{"nodeId": "q", "node": {"labels": labels}}]})
    with pytest.raises(Refused) as caught:
        decide(state, want(owner="alice"), theirs, recreate=True, force=True)
    assert "adopt: true" in str(caught.value)
    empty = seen("FAILED", tpu={})
    with pytest.raises(Refused, match="nothing on it says tpu-fleet"):
        decide(state, want(), empty, recreate=True, force=True)


def test_node_that_is_not_ours_keeps_its_queued_resource() -> None:
    with pytest.raises(Refused, match="The node q of the queued resource q"):
        decide("absent", want(), seen(), [node(labels={})], force=True)
    assert steps("absent", want(), seen(), [node(labels={})], force=True, adopt=True)


def test_removal() -> None:
    assert steps("absent", want(), seen("WAITING_FOR_RESOURCES")) == ["delete", "wait_gone"]
    assert steps("absent", want(), seen(), wait=False) == ["delete"]
    with pytest.raises(Refused, match=r"q \(READY\).*force: true"):
        decide("absent", want(), seen(), [node()])
    assert steps("absent", want(), seen(), [node()], force=True) == ["delete", "wait_gone"]
    with pytest.raises(Refused, match=r"q \(about to come\)"):
        decide("absent", want(), seen("PROVISIONING"))
    assert steps("absent", want(), seen("PROVISIONING"), force=True) == ["delete", "wait_gone"]
    # A node of that name that it did not make is none of its business.
    assert steps("absent", want(), seen(), [node(of="")]) == ["delete", "wait_gone"]


def test_removal_of_what_is_over() -> None:
    lost = [node("a", "PREEMPTED"), node("b", "DELETING")]
    assert steps("absent", want(), seen("SUSPENDED"), lost) == [
        "delete_node a",
        "wait_node_gone a",
        "wait_node_gone b",
        "delete",
        "wait_gone",
    ]
    with pytest.raises(Refused, match=r"a \(READY\)"):
        decide("absent", want(), seen("FAILED"), [node("a")])
    assert "delete_node a" in steps("absent", want(), seen("FAILED"), [node("a")], force=True)
    going = steps("absent", want(), seen("SUSPENDING"), [node("a")])
    assert going == ["wait_dead", "delete", "wait_gone"]


def test_what_is_over_is_an_error_of_its_kind() -> None:
    status = {"failedData": {"error": NO_CAPACITY}}
    with pytest.raises(StockOut, match="recreate: true"):
        decide("present", want(), seen("FAILED", status=status))
    for state in ("SUSPENDED", "SUSPENDING"):
        with pytest.raises(NodeLost, match=f"{state} by the service"):
            decide("present", want(), seen(state, status={"stateInitiator": "SERVICE"}))


def test_again() -> None:
    clear = ["delete", "wait_gone", "create", "wait_active"]
    assert steps("present", want(), seen("FAILED"), recreate=True) == clear
    assert steps("present", want(), seen("SUSPENDED"), [node("q", "PREEMPTED")], recreate=True) == [
        "delete_node q",
        "wait_node_gone q",
        *clear,
    ]
    found = steps("present", want(), seen("SUSPENDING"), recreate=True, wait=False)
    assert found == ["wait_dead", "delete", "wait_gone", "create"]
    with pytest.raises(Refused, match="force: true"):
        decide("present", want(), seen("SUSPENDED"), [node()], recreate=True)


def test_something_else() -> None:
    other = want(accelerator_type="v4-16", tier="spot")
    with pytest.raises(Refused) as caught:
        decide("present", other, seen("WAITING_FOR_RESOURCES"))
    assert "tier is 'on_demand', wanted 'spot'; accelerator_type is 'v4-8'" in str(caught.value)
    assert "recreate: true (its place in the queue is lost)" in str(caught.value)
    clear = ["delete", "wait_gone", "create", "wait_active"]
    assert steps("present", other, seen("WAITING_FOR_RESOURCES"), recreate=True) == clear
    with pytest.raises(Refused, match="force: true"):
        decide("present", other, seen(), [node()], recreate=True)
    assert steps("present", other, seen(), [node()], recreate=True, force=True) == clear


def test_reset() -> None:
    assert steps("reset", want(), seen()) == ["reset", "wait_reset"]
    with pytest.raises(Refused, match="only one that is ACTIVE"):
        decide("reset", want(), seen("SUSPENDED"))
    with pytest.raises(Refused, match="to reset"):
        decide("reset", want(), None)


# -- facts ---------------------------------------------------------------------------------------


def test_facts() -> None:
    queued = seen("FAILED", want(nodes=["a", "b"]), status={"failedData": {"error": NO_CAPACITY}})
    facts = queued_facts(queued, [node("a", acceleratorType="v4-8"), node("b", of="")])
    assert facts["error"]["kind"] == "stock_out"
    assert facts["reason"] == (
        "has failed for good; delete it and request it again "
        "(There is no more capacity in the zone)"
    )
    assert [(each["name"], each["state"], each["exists"]) for each in facts["nodes"]] == [
        ("a", "READY", True),
        ("b", "STATE_UNSPECIFIED", False),
    ]


@pytest.mark.parametrize(
    "raw", [{}, {"name": "x", "tpu": {"nodeSpec": [{"node": {"acceleratorType": ""}}]}}]
)
def test_facts_of_a_strange_answer(raw: dict[str, Any]) -> None:
    assert queued_facts(QueuedResource.from_api(raw))["state"] == "STATE_UNSPECIFIED"
