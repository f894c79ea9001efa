"""Requests, repeats, and what happens when an answer is lost."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("requests")

import requests
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._wire.auth import StaticToken, TokenAuth
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    Answer,
    Call,
    FakeSession,
    client_with,
    error,
    make,
    node,
    operation,
)

ZONE = "us-central2-b"
LOST = requests.exceptions.ReadTimeout("read timed out")
MISSING = error(404, "NOT_FOUND")
DOWN = error(503, "UNAVAILABLE")
RATE = error(
    429,
    "RESOURCE_EXHAUSTED",
    "Quota exceeded for quota metric",
    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED"},
)
BUSY = error(409, "ABORTED", "unable to queue the operation")
EXISTS = error(409, "ALREADY_EXISTS")
QUOTA = error(
    429,
    "RESOURCE_EXHAUSTED",
    "Quota limit 'X' has been exceeded. Limit: 4 in zone z.",
    {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
)
BODY = {"acceleratorType": "v4-8", "labels": {"tpu-fleet-spec": "abc"}}
OURS = node(labels={"tpu-fleet-spec": "abc", "more": "1"})
THEIRS = node(labels={"tpu-fleet-spec": "other"})


# -- reads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "calls", "kind"),
    [
        ([node()], 1, None),
        ([DOWN, LOST, node()], 3, None),
        ([RATE, node()], 2, None),
        ([BUSY, node()], 2, None),
        ([Answer(502, b"<html>Bad Gateway</html>"), node()], 2, None),
        ([Answer(200, b"<html>a portal</html>"), node()], 2, None),
        ([DOWN] * 4, 4, "unavailable"),
        ([LOST] * 4, 4, "unavailable"),
        ([MISSING], 1, "not_found"),
        ([QUOTA], 1, "quota"),
        ([error(400, "INVALID_ARGUMENT")], 1, "bad_request"),
        ([error(403, "PERMISSION_DENIED")], 1, "permission"),
        ([error(401, "UNAUTHENTICATED")], 1, "credentials"),
    ],
)
def test_read(script: list[Any], calls: int, kind: str | None) -> None:
    client, session = make(*script)
    if kind is None:
        assert client.nodes.get(ZONE, "n").name == "n"
    else:
        with pytest.raises(_errors.TpuError) as caught:
            client.nodes.get(ZONE, "n")
        assert caught.value.kind == kind
    assert len(session.calls) == calls


def test_pauses_grow_and_heed_the_server() -> None:
    asked = Answer(429, RATE.body, {"retry-after": "30"})
    session = FakeSession(DOWN, asked, DOWN, node())
    client, clock = client_with(session)
    client.nodes.get(ZONE, "n")
    assert clock.sleeps == [1.0, 30.0, 4.0]


def test_very_long_pause_is_not_waited_for() -> None:
    session = FakeSession(Answer(429, RATE.body, {"Retry-After": "3600"}))
    client, clock = client_with(session)
    with pytest.raises(_errors.RateLimited):
        client.nodes.get(ZONE, "n")
    assert clock.sleeps == []


def test_busy_has_a_limit() -> None:
    session = FakeSession(answer=lambda _call: BUSY)
    client, clock = client_with(session)
    with pytest.raises(_errors.Busy):
        client.nodes.stop(ZONE, "n")
    assert clock.time < 40


def test_refused_token_is_renewed_once() -> None:
    class Renewing(StaticToken):
        renewed = 0

        def renew(self) -> bool:
            self.renewed += 1
            return True

    supplier = Renewing("t")
    session = FakeSession(error(401, "UNAUTHENTICATED"), node())
    session.auth = TokenAuth(supplier)  # type: ignore[assignment]
    client, _clock = client_with(session)
    assert client.nodes.get(ZONE, "n").name == "n"
    assert supplier.renewed == 1


def test_project_is_needed() -> None:
    with pytest.raises(_errors.TpuError, match="GOOGLE_CLOUD_PROJECT"):
        Client("")


# -- lists ---------------------------------------------------------------------------------------


def test_pages_are_followed_over_an_empty_one() -> None:
    client, session = make(
        {"nodes": [node("a")], "nextPageToken": "1", "unreachable": ["projects/1/locations/z1"]},
        {"nextPageToken": "2"},
        {"nodes": [node("b")], "unreachable": ["z2", "z1"]},
    )
    listing = client.nodes.list()
    assert [item.name for item in listing.items] == ["a", "b"]
    assert listing.unreachable == ["z1", "z2"]
    assert [call.params.get("pageToken") for call in session.calls] == [None, "1", "2"]
    assert session.calls[0].path == "v2/projects/p/locations/-/nodes"


def test_empty_list_has_no_key() -> None:
    client, _session = make({})
    assert client.nodes.list(ZONE).items == []


def test_page_token_that_comes_back_ends_the_list() -> None:
    client, _session = make({"nextPageToken": "1"}, {"nextPageToken": "1"})
    with pytest.raises(_errors.Unavailable, match="never ends"):
        client.nodes.list()


def test_what_a_zone_offers() -> None:
    types = [{"type": "v4-8", "acceleratorConfigs": [{"type": "V4", "topology": "2x2x1"}]}]
    client, _session = make(
        {"acceleratorTypes": types},
        {"runtimeVersions": [{"name": "projects/p/locations/z/runtimeVersions/v", "version": "v"}]},
        {"locations": [{"locationId": "z"}, {"name": "projects/p/locations/y"}]},
    )
    assert client.accelerator_types.list(ZONE).items[0].topologies == ["2x2x1"]
    assert client.runtime_versions.list(ZONE).items == ["v"]
    assert client.locations.list().items == ["z", "y"]


# -- creation: (answers) -> requests and outcome ------------------------------------------------


@pytest.mark.parametrize(
    ("script", "methods", "outcome"),
    [
        ([operation()], ["POST"], "named"),
        ([EXISTS], ["POST"], "exists"),
        ([QUOTA], ["POST"], "quota"),
        # What was surely not done may be done again at once.
        ([RATE, operation()], ["POST", "POST"], "named"),
        ([BUSY, operation()], ["POST", "POST"], "named"),
        # The answer is lost: look first.
        ([LOST, OURS], ["POST", "GET"], "lost"),
        ([DOWN, OURS], ["POST", "GET"], "lost"),
        ([LOST, THEIRS], ["POST", "GET"], "exists"),
        ([LOST, MISSING, operation()], ["POST", "GET", "POST"], "named"),
        # It was made, and not visible yet.
        ([LOST, MISSING, EXISTS, OURS], ["POST", "GET", "POST", "GET"], "lost"),
        ([LOST, MISSING, EXISTS, THEIRS], ["POST", "GET", "POST", "GET"], "exists"),
        ([LOST, MISSING, QUOTA], ["POST", "GET", "POST"], "quota"),
        ([DOWN, MISSING] * 4, ["POST", "GET"] * 4, "unavailable"),
        ([DOWN, MISSING] * 3 + [DOWN, OURS], ["POST", "GET"] * 4, "lost"),
    ],
)
def test_create(script: list[Any], methods: list[str], outcome: str) -> None:
    client, session = make(*script)
    if outcome in ("named", "lost"):
        made = client.nodes.create(ZONE, "n", BODY)
        assert bool(made.name) == (outcome == "named")
        assert made.target.endswith("/nodes/n")
    else:
        with pytest.raises(_errors.TpuError) as caught:
            client.nodes.create(ZONE, "n", BODY)
        assert caught.value.kind == outcome
    assert session.methods == methods
    posts = [call for call in session.calls if call.method == "POST"]
    assert all(call.params == {"nodeId": "n"} and call.body == BODY for call in posts)


# -- deletion ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "methods", "outcome"),
    [
        ([operation()], ["DELETE"], "running"),
        ([MISSING], ["DELETE"], "not_found"),
        ([BUSY, operation()], ["DELETE", "DELETE"], "running"),
        ([LOST, MISSING], ["DELETE", "GET"], "done"),
        ([LOST, node(state="DELETING")], ["DELETE", "GET"], "running"),
        ([LOST, node(), operation()], ["DELETE", "GET", "DELETE"], "running"),
        ([LOST, node(), MISSING], ["DELETE", "GET", "DELETE"], "done"),
        # A node of another uid is someone's new one.
        ([LOST, {**node(), "id": "12"}], ["DELETE", "GET"], "done"),
    ],
)
def test_delete(script: list[Any], methods: list[str], outcome: str) -> None:
    client, session = make(*script)
    if outcome in ("running", "done"):
        assert client.nodes.delete(ZONE, "n", uid="11").done == (outcome == "done")
    else:
        with pytest.raises(_errors.TpuError) as caught:
            client.nodes.delete(ZONE, "n", uid="11")
        assert caught.value.kind == outcome
    assert session.methods == methods


# -- other changes -------------------------------------------------------------------------------


def test_patch_names_its_fields() -> None:
    client, session = make(DOWN, operation())
    client.nodes.patch(ZONE, "n", {"labels": {"a": "b"}}, ["labels", "data_disks"])
    assert session.methods == ["PATCH", "PATCH"]
    assert session.calls[-1].params == {"updateMask": "labels,data_disks"}


def test_verbs_stand_after_a_colon() -> None:
    client, session = make(operation(), operation(), operation())
    client.nodes.start(ZONE, "n")
    client.nodes.stop(ZONE, "n")
    client.nodes.simulate_maintenance(ZONE, "n", [1])
    path = f"projects/p/locations/{ZONE}/nodes/n"
    assert [(call.path, call.body) for call in session.calls] == [
        (f"v2/{path}:start", {}),
        (f"v2/{path}:stop", {}),
        (f"v2alpha1/{path}:simulateMaintenanceEvent", {"workerIds": ["1"]}),
    ]


def test_guest_attributes_are_per_worker() -> None:
    entry = {"queryValue": {"items": []}}
    client, session = make({"guestAttributes": [entry, {}]}, {"guestAttributes": [entry]}, {})
    assert client.nodes.guest_attributes(ZONE, "n", "hostkeys/") == [entry, {}]
    assert client.nodes.guest_attributes(ZONE, "n", worker_ids=[2, 3]) == [entry, {}]
    assert client.nodes.guest_attributes(ZONE, "n") == []
    assert [call.body for call in session.calls] == [
        {"queryPath": "hostkeys/"},
        {"workerIds": ["2", "3"]},
        {},
    ]


# -- waits ---------------------------------------------------------------------------------------


class Story:
    """A zone in which a node goes through states, one at each look."""

    def __init__(self, states: list[Any], operations: list[Any] | None = None) -> None:
        self.states = states
        self.operations = operations or [operation()]

    def __call__(self, call: Call) -> Any:
        queue = self.operations if "/operations/" in call.path else self.states
        return queue.pop(0) if len(queue) > 1 else queue[0]


def started(client: Client) -> Any:
    from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Operation

    return Operation.from_api(operation())


FAILED = operation(True, error={"code": 8, "message": "There is no more capacity in the zone"})


@pytest.mark.parametrize(
    ("states", "operations", "outcome"),
    [
        ([node(state="CREATING"), node()], None, "READY"),
        # The node decides, though its operation never ends.
        ([node(state="CREATING")] * 3 + [node()], [operation()], "READY"),
        # It may be unknown for a while after its creation was accepted.
        ([MISSING] * 4 + [node()], None, "READY"),
        ([MISSING], None, "not_found"),
        # The operation makes a failure known early.
        ([node(state="CREATING"), MISSING], [operation(), FAILED], "stock_out"),
        ([node(state="CREATING"), node(state="PREEMPTED")], None, "node_lost"),
        ([node(health="UNHEALTHY_MAINTENANCE"), node(health="HEALTHY")], None, "READY"),
        ([node(state="CREATING")], None, "timeout"),
        ([DOWN, node()], None, "READY"),
    ],
)
def test_wait_ready(states: list[Any], operations: list[Any] | None, outcome: str) -> None:
    session = FakeSession(answer=Story(list(states), operations))
    client, clock = client_with(session)
    if outcome == "READY":
        assert client.nodes.wait_ready(ZONE, "n", started(client), 300).state == "READY"
    else:
        with pytest.raises(_errors.TpuError) as caught:
            client.nodes.wait_ready(ZONE, "n", started(client), 300)
        assert caught.value.kind == outcome
    assert clock.time <= 310


def test_timeout_says_what_was_seen_last() -> None:
    session = FakeSession(answer=Story([node(health="TIMEOUT")]))
    client, _clock = client_with(session)
    with pytest.raises(_errors.WaitTimeout, match="READY, health TIMEOUT"):
        client.nodes.wait_ready(ZONE, "n", timeout=30)


def test_wait_gone_takes_another_uid_for_gone() -> None:
    session = FakeSession(answer=Story([node(state="DELETING"), {**node(), "id": "12"}]))
    client, _clock = client_with(session)
    client.nodes.wait_gone(ZONE, "n", uid="11")
    assert len(session.calls) == 2


def test_operation_is_waited_for() -> None:
    client, session = make(operation(), operation(True, response={"name": "x"}))
    assert client.operations.wait(started(client)) == {"name": "x"}
    assert session.calls[0].path.startswith("v2/projects/123/")


def test_failed_operation_raises_its_meaning() -> None:
    client, _session = make(FAILED)
    with pytest.raises(_errors.StockOut):
        client.operations.wait(started(client))


def test_running_operation_of_a_node_is_found() -> None:
    other = operation(metadata={"target": "projects/1/locations/z/nodes/nn"})
    client, _session = make({"operations": [operation(True), other, operation()]})
    found = client.operations.latest(ZONE, "n")
    assert found is not None
    assert found.verb == "create"


def test_operations_that_may_not_be_read_are_done_without() -> None:
    client, _session = make(error(403, "PERMISSION_DENIED"))
    assert client.operations.latest(ZONE, "n") is None
