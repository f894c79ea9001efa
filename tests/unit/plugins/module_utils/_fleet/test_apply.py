"""How a fleet is applied when the API is away, forgetful or slow: by a script, without a cloud."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import (
    Busy,
    RateLimited,
    StockOut,
    Unavailable,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import Backoff
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import FleetApplier
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.awaited import Awaited
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.memory import Memory
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import Action
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.tpu_api import TpuApi
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import Place
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Listing, Node, Operation
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import QueuedResource
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    Answer,
    Call,
    FakeClock,
    FakeSession,
    client_with,
    error,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
ZONE = "us-east1-d"
HERE = Place(ZONE, "v6e-8", "tpu")
KEY = ("big", HERE)
AWAY = error(503, "UNAVAILABLE", "The service is currently unavailable.")


def fleet(**params: Any) -> Fleet:
    entry = {"name": "big", "accelerator_type": "v6e-8", "zone": ZONE, "tier": "spot"}
    return Fleet.from_params({"slices": [entry], "allocations": "unrestricted", **params}, "p")


def memory() -> Memory:
    return Memory(fleet(), Backoff(first=30.0, jitter=0.0), settle=60.0, stuck=900.0)


def created(done: bool = False) -> Operation:
    target = f"projects/p/locations/{ZONE}/nodes/big"
    return Operation("operation-1", done, target, "create", NOW.isoformat())


class Api:
    """A project of one slice that comes up when it was asked for."""

    def __init__(self) -> None:
        self.node: dict[str, Any] | None = None
        self.operations: list[dict[str, Any]] = []
        self.silent: dict[str, list[str]] = {}
        self.away = False
        self.posts = 0

    def __call__(self, call: Call) -> Any:
        if self.away:
            return AWAY
        if call.method == "POST":
            self.posts += 1
            self.node = {**call.body, "name": f"projects/p/locations/{ZONE}/nodes/big"}
            self.node["state"] = "READY"
            return {"name": "operation-1", "done": False}
        if call.path.endswith("/operations"):
            return {"operations": self.operations}
        kind = call.path.rpartition("/")[2]
        nodes = [self.node] if self.node and kind == "nodes" else []
        return {"nodes": nodes, "unreachable": self.silent.pop(kind, [])}


def applier(api: Api, **options: Any) -> FleetApplier:
    client, _clock = client_with(FakeSession(answer=api))
    return FleetApplier(TpuApi(client), options.pop("fleet", None) or fleet(), **options)


def test_a_zone_whose_queue_did_not_answer_once_is_asked_again() -> None:
    api = Api()
    api.silent["queuedResources"] = [ZONE]
    result = applier(api, timeout=60.0).apply()
    assert (result.timed_out, result.slices["big"].phase) == (False, "ready")


def test_who_sees_nothing_at_the_end_repeats_nothing() -> None:
    class Leaves(Api):
        def __call__(self, call: Call) -> Any:
            answer = super().__call__(call)
            if call.method == "POST":
                self.node, self.away = None, self.posts == 1
            return answer

    api = Leaves()
    told: list[str] = []
    result = applier(api, timeout=30.0, progress=told.append).apply()
    api.away = False
    assert result.timed_out
    assert [action.kind for action in result.actions] == ["create_node"]


def test_a_teardown_waits_for_what_an_earlier_controller_asked_for() -> None:
    api = Api()
    begun = datetime.now(timezone.utc).isoformat()
    metadata = {
        "verb": "create",
        "createTime": begun,
        "target": f"projects/p/locations/{ZONE}/nodes/big",
    }
    api.operations = [{"name": "operation-1", "metadata": metadata, "done": False}]
    result = applier(api, fleet=fleet(teardown=["big"]), timeout=5.0, strict=False).apply()
    assert result.timed_out
    assert result.slices["big"].phase == "clearing"


def test_a_start_that_fails_says_why() -> None:
    api = Api()
    stopped = {"name": f"projects/p/locations/{ZONE}/nodes/big", "state": "STOPPED"}
    stopped["labels"] = {"tpu-fleet": "managed", "tpu-fleet-spec": "x"}
    api.node = {**stopped, "acceleratorType": "v6e-8"}
    full = {"code": 8, "message": "There is no more capacity in the zone"}

    def answer(call: Call) -> Any:
        if call.path.endswith(":start"):
            return {"name": "operations/start-1"}
        if call.path.endswith("start-1"):
            return {"name": "operations/start-1", "done": True, "error": full}
        date = format_datetime(NOW + timedelta(seconds=clock.time), usegmt=True)
        return Answer(body=api(call), headers={"Date": date})

    client, clock = client_with(FakeSession(answer=answer))
    entry = {"name": "big", "accelerator_type": "v6e-8", "zone": ZONE}
    wanted = Fleet.from_params({"slices": [entry], "allocations": "unrestricted"}, "p")
    told: list[str] = []
    result = FleetApplier(TpuApi(client), wanted, timeout=120.0, progress=told.append).apply()
    assert result.timed_out
    assert "big: start_node: There is no more capacity in the zone" in told


def test_what_cannot_be_looked_up_is_not_taken_for_failed() -> None:
    tried = memory()
    tried.asked(KEY, "operation-1", NOW)
    later = NOW + timedelta(seconds=61)
    tried.settle(KEY, None, later)
    assert tried.tries[KEY].asked_at == NOW
    tried.settle(KEY, [created()], later)
    assert tried.tries[KEY].asked_at == NOW
    tried.settle(KEY, [created(done=True)], later)
    assert tried.tries[KEY].asked_at is None


def test_only_what_says_nothing_of_the_place_keeps_a_slice_there() -> None:
    for failure, stays in ((RateLimited("x"), True), (Busy("x"), True), (StockOut("x"), False)):
        tried = memory()
        tried.refused(KEY, failure, NOW)
        assert tried.tries[KEY].stay is stays


class TwoSlices(Api):
    """A project in which the second slice never comes."""

    def __call__(self, call: Call) -> Any:
        if call.method == "POST" and "small" in str(call.params):
            return error(429, "RESOURCE_EXHAUSTED", "There is no more capacity in the zone")
        return super().__call__(call)


def test_the_wait_for_the_next_ends_when_one_more_is_there() -> None:
    entry = {"accelerator_type": "v6e-8", "zone": ZONE, "tier": "spot"}
    both = fleet(slices=[{"name": "big", **entry}, {"name": "small", **entry}])
    result = applier(
        TwoSlices(), fleet=both, awaited=Awaited("next"), strict=False, timeout=600.0
    ).apply()
    assert (result.timed_out, result.slices["big"].phase) == (False, "ready")
    assert not result.slices["small"].fine
    again = applier(TwoSlices(), fleet=both, strict=False, timeout=600.0).apply()
    assert again.timed_out


def test_the_wait_for_a_named_slice_ends_when_it_is_there() -> None:
    entry = {"accelerator_type": "v6e-8", "zone": ZONE, "tier": "spot"}
    both = fleet(slices=[{"name": "big", **entry}, {"name": "small", **entry}])
    for name, timed_out in (("big", False), ("small", True)):
        named = Awaited("", frozenset({name}))
        result = applier(TwoSlices(), fleet=both, awaited=named, timeout=600.0).apply()
        assert result.timed_out is timed_out
        assert result.slices["big"].phase == "ready"


@pytest.mark.parametrize("stays", [False, True])
def test_nothing_is_asked_for_when_a_grant_ended_after_the_decision(stays: bool) -> None:
    posted: list[str] = []

    def answer(call: Call) -> Any:
        if call.method == "POST":
            posted.append(call.path)
            # The answer to the first request takes until the grant is over.
            clock.sleep(60.0)
        date = format_datetime(NOW + timedelta(seconds=clock.time), usegmt=True)
        return Answer(body={"name": "operation-1"}, headers={"Date": date})

    client, clock = client_with(FakeSession(answer=answer))
    entry = {"accelerator_type": "v6e-8", "zone": ZONE, "tier": "spot"}
    ends = (NOW + timedelta(seconds=30)).isoformat()
    grant = {"zone": ZONE, "generation": "v6e", "tier": "spot", "chips": 16, "ends": ends}
    slices = [{**entry, "name": "one"}, {**entry, "name": "two"}]
    # What stays is not enough for both.
    rest = [{**grant, "chips": 8, "ends": "2027-01-01"}] if stays else []
    wanted = Fleet.from_params({"slices": slices, "allocations": [grant, *rest]}, "p")
    told: list[str] = []
    FleetApplier(TpuApi(client), wanted, wait=False, workers=1, progress=told.append).apply()
    assert len(posted) == 1
    assert any(
        "two: The grant for v6e-8 in us-east1-d has ended meanwhile" in line for line in told
    )


class Slow:
    """A cloud whose slices need something before, which takes a minute."""

    def __init__(self, fails: bool) -> None:
        self.clock = FakeClock()
        self.fails = fails
        self.asked: list[Action] = []

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.clock.time)

    def nodes(self) -> Listing[Node]:
        return Listing([])

    def queued(self, tiers: Collection[str]) -> Listing[QueuedResource]:
        return Listing([])

    def operations(self, zone: str) -> list[Operation]:
        return []

    def not_offered(self, action: Action) -> None:
        return None

    def prepare(self, action: Action, patience: float) -> None:
        self.clock.sleep(60.0)
        if self.fails:
            raise Unavailable("The service does not answer.")

    def do(self, action: Action, patience: float) -> Operation:
        self.asked.append(action)
        return created()


@pytest.mark.parametrize(
    ("fails", "seconds", "asked"), [(False, 90, 1), (False, 30, 0), (True, 90, 0)]
)
def test_what_is_needed_before_comes_before_the_last_look_at_the_grant(
    fails: bool, seconds: int, asked: int
) -> None:
    cloud, told = Slow(fails), list[str]()
    ends = (NOW + timedelta(seconds=seconds)).isoformat()
    grant = {"zone": ZONE, "generation": "v6e", "tier": "spot", "chips": 16, "ends": ends}
    wanted = fleet(allocations=[grant])
    applier = FleetApplier(cloud, wanted, wait=False, workers=1, progress=told.append)
    result = applier.apply()
    assert (len(cloud.asked), len(result.actions)) == (asked, asked), told
    if not (asked or fails):
        assert any("has ended meanwhile" in line for line in told)
