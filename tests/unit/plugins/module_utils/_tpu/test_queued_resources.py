"""Queued resources: how answers are read, which calls are repeated, what a wait ends with."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

pytest.importorskip("requests")

import requests
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import (
    QueuedResource,
    failure_of,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    FakeSession,
    client_with,
    error,
    make,
    operation,
)

ZONE = "us-central2-b"
HOME = f"projects/123/locations/{ZONE}"
LOST = requests.exceptions.ReadTimeout("read timed out")
DOWN = error(503, "UNAVAILABLE")
MISSING = error(404, "NOT_FOUND")
EXISTS = error(409, "ALREADY_EXISTS")
BUSY = error(409, "ABORTED", "unable to queue the operation")


def queued(state: str | None = "ACTIVE", *nodes: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """Return a queued resource as the API writes it."""
    specs = list(nodes) or [spec()]
    raw: dict[str, Any] = {"name": f"{HOME}/queuedResources/q", "tpu": {"nodeSpec": specs}}
    if state is not None:
        raw["state"] = {"state": state}
    return {**raw, **rest}


def spec(node_id: str = "n", **node: Any) -> dict[str, Any]:
    kind = {"acceleratorType": "v4-8", "labels": {"tpu-fleet-spec": "abc"}}
    return {"parent": HOME, "nodeId": node_id, "node": {**kind, **node}}


BODY = {"tpu": {"nodeSpec": [spec()]}}
OURS = queued("WAITING_FOR_RESOURCES")
THEIRS = queued("WAITING_FOR_RESOURCES", spec(labels={"tpu-fleet-spec": "other"}))


# -- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("CREATING", "waiting"),
        ("ACCEPTED", "waiting"),
        ("WAITING_FOR_RESOURCES", "waiting"),
        ("PROVISIONING", "waiting"),
        ("STATE_OF_NEXT_YEAR", "waiting"),
        (None, "waiting"),
        ("ACTIVE", "active"),
        ("SUSPENDING", "going"),
        ("DELETING", "going"),
        ("SUSPENDED", "dead"),
        ("FAILED", "dead"),
    ],
)
def test_state(state: str | None, kind: str) -> None:
    seen = QueuedResource.from_api(queued(state))
    kinds = {
        "waiting": seen.is_waiting,
        "active": seen.is_active,
        "going": seen.is_going,
        "dead": seen.is_dead,
    }
    assert [name for name, true in kinds.items() if true] == [kind]


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({}, "on_demand"),
        ({"spot": {}}, "spot"),
        ({"provisioningModel": "SPOT"}, "spot"),
        ({"guaranteed": {}}, "guaranteed"),
        ({"guaranteed": {"minDuration": "3600s"}}, "guaranteed"),
        ({"guaranteed": {"reserved": True}}, "reserved"),
        ({"guaranteed": {}, "reservationName": f"{HOME}/reservations/-"}, "reserved"),
        ({"reservationName": f"{HOME}/reservations/r"}, "reserved"),
        ({"bestEffort": {}}, "best_effort"),
        ({"bestEffort": {}, "provisioningModel": "STANDARD"}, "best_effort"),
        ({"provisioningModel": "FLEX_START"}, "flex_start"),
        ({"provisioningModel": "MODEL_OF_NEXT_YEAR"}, "on_demand"),
    ],
)
def test_tier(fields: dict[str, Any], tier: str) -> None:
    seen = QueuedResource.from_api(queued("ACTIVE", **fields))
    assert seen.tier == tier
    assert [node.tier for node in seen.nodes] == [tier]


def test_tier_that_v2_does_not_name() -> None:
    taken_back = spec("a", schedulingConfig={"preemptible": True})
    assert QueuedResource.from_api(queued("ACTIVE", taken_back)).tier == "best_effort"
    assert QueuedResource.from_api(queued("ACTIVE", taken_back, spec("b"))).tier == "on_demand"


MULTISLICE = {"parent": HOME, "node": {"acceleratorType": "v4-8"}}


@pytest.mark.parametrize(
    ("specs", "names"),
    [
        ([spec("a"), spec("b")], ["a", "b"]),
        ([{**MULTISLICE, "multisliceParams": {"nodeCount": 2}}], ["q-0", "q-1"]),
        (
            [{**MULTISLICE, "multiNodeParams": {"nodeCount": 2, "nodeIdPrefix": "m"}}],
            ["m-0", "m-1"],
        ),
        ([{"node": {"acceleratorType": "v4-8", "name": f"{HOME}/nodes/x"}}], ["x"]),
        ([{}], ["q"]),
    ],
)
def test_nodes(specs: list[dict[str, Any]], names: list[str]) -> None:
    nodes = QueuedResource.from_api(queued("ACTIVE", *specs)).nodes
    assert [node.name for node in nodes] == names
    assert {(node.zone, node.project, node.queued_resource) for node in nodes} == {
        (ZONE, "123", "q")
    }


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"name": f"{HOME}/queuedResources/q"},
        {"name": f"{HOME}/queuedResources/q", "state": "ACTIVE", "tpu": {}},
        {"tpu": {"nodeSpec": [None, "x", {"node": None}]}, "createTime": None},
        queued("ACTIVE", spec(acceleratorType="")),
    ],
)
def test_strange_answer_is_read(raw: dict[str, Any]) -> None:
    seen = QueuedResource.from_api(raw)
    assert seen.labels == {} or seen.nodes
    assert {node.accelerator_type for node in seen.nodes} <= {""}


def test_labels_are_those_of_all_nodes() -> None:
    one = spec("a", labels={"tpu-fleet": "x", "team": "a"})
    two = spec("b", labels={"tpu-fleet": "x", "team": "b"})
    assert QueuedResource.from_api(queued("ACTIVE", one, two)).labels == {"tpu-fleet": "x"}


@pytest.mark.parametrize(
    ("policy", "end"),
    [
        ({}, None),
        ({"validUntilTime": "2026-01-02T00:00:00Z"}, "2026-01-02T00:00:00Z"),
        ({"validInterval": {"endTime": "2026-01-03T00:00:00Z"}}, "2026-01-03T00:00:00Z"),
        ({"validUntilDuration": "21600s"}, "2026-01-01T06:00:00Z"),
        ({"validUntilDuration": "soon"}, None),
    ],
)
def test_end(policy: dict[str, Any], end: str | None) -> None:
    raw = queued("ACTIVE", queueingPolicy=policy, createTime="2026-01-01T00:00:00Z")
    assert QueuedResource.from_api(raw).valid_until == end


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        ({"state": "SUSPENDED", "stateInitiator": "SERVICE"}, "node_lost", "SUSPENDED by the serv"),
        ({"state": "FAILED"}, "node_lost", "is FAILED. "),
        (
            {
                "state": "FAILED",
                "failedData": {
                    "error": {"code": 8, "message": 'There is no more capacity in the zone "z".'}
                },
            },
            "stock_out",
            'There is no more capacity in the zone "z": the queued resource q in',
        ),
        (
            {
                "state": "FAILED",
                "failedData": {
                    "error": {
                        "code": 7,
                        "message": "User does not have permission to submit requests for X",
                    }
                },
            },
            "permission",
            "repeating never helps",
        ),
    ],
)
def test_failure(status: dict[str, Any], kind: str, words: str) -> None:
    problem = failure_of(QueuedResource.from_api({**queued(None), "state": status}))
    assert problem.kind == kind
    assert words in str(problem)
    assert "recreate: true" in str(problem)


# -- calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "methods"),
    [
        ([operation()], "POST"),
        ([DOWN, operation()], "POST POST"),
        ([LOST, BUSY, operation()], "POST POST POST"),
        ([LOST, EXISTS, OURS], "POST POST GET"),
        ([LOST] * 4 + [OURS], "POST POST POST POST GET"),
    ],
)
def test_create(script: list[Any], methods: str) -> None:
    client, session = make(*script)
    client.queued_resources.create(ZONE, "q", BODY)
    posts = [call for call in session.calls if call.method == "POST"]
    assert session.methods == methods.split()
    assert len({call.params["requestId"] for call in posts}) == 1
    uuid.UUID(posts[0].params["requestId"])
    assert posts[0].path == f"v2/projects/p/locations/{ZONE}/queuedResources"


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ([EXISTS], "exists"),
        ([LOST, EXISTS, THEIRS], "exists"),
        ([LOST] * 4 + [MISSING], "unavailable"),
        ([LOST] * 4 + [THEIRS], "unavailable"),
        ([error(400, "INVALID_ARGUMENT")], "bad_request"),
    ],
)
def test_create_fails(script: list[Any], kind: str) -> None:
    client, session = make(*script)
    with pytest.raises(_errors.TpuError) as caught:
        client.queued_resources.create(ZONE, "q", BODY, request_id=str(uuid.uuid4()))
    assert caught.value.kind == kind
    assert session.script == []


@pytest.mark.parametrize(
    ("body", "version"),
    [(BODY, "v2"), ({**BODY, "bestEffort": {}}, "v2alpha1")],
)
def test_create_goes_where_its_fields_are_known(body: dict[str, Any], version: str) -> None:
    client, session = make(operation())
    client.queued_resources.create(ZONE, "q", body)
    assert session.calls[0].path.startswith(f"{version}/projects/")


@pytest.mark.parametrize(
    ("script", "methods", "done"),
    [
        ([operation()], "DELETE", False),
        ([LOST, operation(done=True)], "DELETE DELETE", True),
        ([LOST, MISSING], "DELETE DELETE", True),
        ([LOST] * 4 + [MISSING], "DELETE DELETE DELETE DELETE GET", True),
        ([LOST] * 4 + [queued("DELETING")], "DELETE DELETE DELETE DELETE GET", False),
    ],
)
def test_delete(script: list[Any], methods: str, done: bool) -> None:
    client, session = make(*script)
    assert client.queued_resources.delete(ZONE, "q", force=True).done is done
    assert session.methods == methods.split()
    deletes = [call for call in session.calls if call.method == "DELETE"]
    assert len({call.params["requestId"] for call in deletes}) == 1
    assert {call.params["force"] for call in deletes} == {"true"}


@pytest.mark.parametrize(
    ("script", "kind"),
    [([MISSING], "not_found"), ([LOST] * 4 + [OURS], "unavailable")],
)
def test_delete_fails(script: list[Any], kind: str) -> None:
    client, session = make(*script)
    with pytest.raises(_errors.TpuError) as caught:
        client.queued_resources.delete(ZONE, "q")
    assert caught.value.kind == kind
    assert "force" not in session.calls[0].params


def test_reset_is_not_asked_for_twice() -> None:
    client, session = make(LOST, queued("ACTIVE"))
    with pytest.raises(_errors.Unavailable):
        client.queued_resources.reset(ZONE, "q")
    assert [call.path.rpartition("/")[2] for call in session.calls] == ["q:reset", "q"]
    client, session = make(BUSY, LOST, queued("PROVISIONING"))
    assert client.queued_resources.reset(ZONE, "q").verb == "reset"
    assert session.methods == ["POST", "POST", "GET"]


def test_list_is_read_to_its_end() -> None:
    pages: list[Any] = [
        {"nextPageToken": "1"},
        {"queuedResources": [queued()], "nextPageToken": "2", "unreachable": ["us-x"]},
        {},
    ]
    client, _session = make(*pages)
    listing = client.queued_resources.list()
    assert [item.name for item in listing.items] == ["q"]
    assert listing.unreachable == ["us-x"]


# -- waits ---------------------------------------------------------------------------------------


def test_wait_active() -> None:
    states = ["ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"]
    client, _session = make(MISSING, *[queued(state) for state in states])
    assert client.queued_resources.wait_active(ZONE, "q").is_active


@pytest.mark.parametrize("state", ["FAILED", "SUSPENDED"])
def test_wait_ends_with_the_request(state: str) -> None:
    client, _session = make(queued("PROVISIONING"), queued("SUSPENDING"), queued(state))
    with pytest.raises(_errors.NodeLost, match=state):
        client.queued_resources.wait_active(ZONE, "q")


def test_wait_sees_that_the_creation_failed() -> None:
    failed = operation(done=True, error={"code": 3, "message": "FLEX_START is not supported"})
    client, _session = make(operation(), MISSING, operation(), MISSING, failed)
    running = client.operations.get("projects/123/locations/z/operations/o")
    with pytest.raises(_errors.BadRequest):
        client.queued_resources.wait_active(ZONE, "q", running)


def test_wait_says_what_was_seen_last() -> None:
    session = FakeSession(answer=lambda _call: queued("WAITING_FOR_RESOURCES"))
    client, _clock = client_with(session)
    with pytest.raises(_errors.WaitTimeout, match="last seen: WAITING_FOR_RESOURCES"):
        client.queued_resources.wait_active(ZONE, "q", timeout=100.0)


def test_wait_gone() -> None:
    client, _session = make(queued("ACTIVE"), queued("DELETING"), MISSING)
    client.queued_resources.wait_gone(ZONE, "q")
    new = queued("CREATING", createTime="2026-01-02T00:00:00Z")
    client, _session = make(new)
    client.queued_resources.wait_gone(ZONE, "q", create_time="2026-01-01T00:00:00Z")
