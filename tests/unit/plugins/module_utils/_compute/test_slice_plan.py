"""(wanted, seen) -> steps, for one slice on Compute Engine."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.groups import Group, Part, Seen
from ansible_collections.tpu.fleet.plugins.module_utils._compute.instance import Instance
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_plan import (
    UNDECIDED,
    Sight,
    Wanted,
    decide,
    sight_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import BadRequest, Refused
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Listing
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.answers import (
    ZONE,
    group,
    instance,
    member,
    policy,
    template,
    waiting,
)

FOUR = [member(number) for number in range(4)]


def wanted(several: bool = False, **params: Any) -> Wanted:
    base: dict[str, Any] = {"name": "one", "zone": ZONE, "machine_type": "ct6e-standard-1t"}
    if several:
        base |= {"name": "big", "machine_type": "ct6e-standard-4t", "topology": "4x4"}
    return Wanted.from_params({**base, **params}, "p", several)


def seen(*instances: Any, groups: tuple[Any, ...] = (), parts: tuple[Any, ...] = ()) -> Seen:
    kinds = ("instanceTemplates", "resourcePolicies")
    listings = [
        Listing([Part.from_api(raw, kind) for raw in parts if f"/{kind}/" in raw["selfLink"]])
        for kind in kinds
    ]
    return Seen(
        Listing([Group.from_api(raw) for raw in groups]),
        Listing([Instance.from_api(raw) for raw in instances]),
        *listings,
    )


def one(*raw: Any, **params: Any) -> Sight:
    return sight_of(wanted(**params), seen(*raw))


def big(raw: Any, *members: Any) -> Sight:
    return sight_of(
        wanted(several=True), seen(*members, groups=(raw,), parts=(template(), policy()))
    )


def kinds(state: str, sight: Sight, want: Wanted | None = None, **options: Any) -> list[str]:
    found = decide(state, want or wanted(), sight, **options)
    return [step.kind for step in found.steps]


READY = one(instance())
WAITING = one(instance(status="PENDING"))
SPOT = {"scheduling": {"provisioningModel": "SPOT"}}
TAKEN = one(instance(status="TERMINATED", **SPOT))
STOPPED = one(instance(status="TERMINATED"))
GONE = Sight()

STEPS: list[tuple[str, Sight, dict[str, Any], list[str]]] = [
    ("present", GONE, {}, ["create", "wait_ready"]),
    ("present", GONE, {"wait": False}, ["create"]),
    ("started", GONE, {}, ["create", "wait_ready"]),
    ("absent", GONE, {}, []),
    ("present", READY, {}, []),
    ("started", READY, {}, []),
    ("stopped", READY, {}, ["stop", "wait_stopped"]),
    ("stopped", READY, {"wait": False}, ["stop"]),
    ("absent", READY, {}, ["delete", "wait_gone"]),
    ("absent", READY, {"wait": False}, ["delete"]),
    ("present", STOPPED, {}, []),
    ("stopped", STOPPED, {}, []),
    ("started", STOPPED, {}, ["start", "wait_ready"]),
    ("started", STOPPED, {"wait": False}, ["start"]),
    ("stopped", TAKEN, {}, []),
    ("started", TAKEN, {}, ["start", "wait_ready"]),
    ("present", TAKEN, {"recreate": True}, ["delete", "wait_gone", "create", "wait_ready"]),
    ("present", WAITING, {}, ["wait_ready"]),
    ("present", WAITING, {"wait": False}, []),
    ("absent", WAITING, {}, ["delete", "wait_gone"]),
    ("present", one(instance(status="STAGING")), {}, ["wait_ready"]),
    ("started", one(instance(status="STOPPING")), {}, ["wait_stopped", "start", "wait_ready"]),
    ("stopped", one(instance(status="STOPPING")), {}, ["wait_stopped"]),
    ("stopped", one(instance(status="STAGING")), {}, ["wait_ready", "stop", "wait_stopped"]),
    ("present", one(instance(status="DEPROVISIONING")), {}, ["wait_gone", "create", "wait_ready"]),
    ("absent", one(instance(status="DEPROVISIONING")), {}, ["wait_gone"]),
    ("absent", one(instance(status="DEPROVISIONING")), {"wait": False}, []),
]


@pytest.mark.parametrize(("state", "sight", "options", "expected"), STEPS)
def test_steps_of_an_instance(
    state: str, sight: Sight, options: dict[str, Any], expected: list[str]
) -> None:
    assert kinds(state, sight, **options) == expected


def test_a_change_waits_for_what_is_on_its_way() -> None:
    want = wanted(labels={"a": "b"})
    assert kinds("present", READY, want) == ["patch"]
    coming = one(instance(status="STAGING"))
    assert kinds("present", coming, want, wait=False) == ["wait_ready", "patch"]
    # For capacity it may take hours, so only who waits anyway gets the change.
    assert kinds("present", WAITING, want, wait=False) == []
    assert kinds("present", WAITING, want) == ["wait_ready", "patch"]


def test_steps_of_a_slice() -> None:
    want = wanted(several=True)
    ready, waits = big(group(), *FOUR), big(waiting())
    assert kinds("present", ready, want) == []
    assert kinds("present", waits, want) == ["wait_ready"]
    assert kinds("absent", waits, want) == ["delete", "wait_gone"]
    rest = sight_of(want, seen(parts=(policy(),)))
    assert rest.is_rest
    assert kinds("present", rest, want) == ["create", "wait_ready"]
    assert kinds("absent", rest, want) == ["delete", "wait_gone"]
    with pytest.raises(Refused, match="cannot be stopped"):
        decide("stopped", want, ready)


def test_a_slice_without_capacity_has_failed() -> None:
    errors = [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "no resources available"}]
    check = {"inProgress": True, "lastProgressCheck": {"error": {"errors": errors}}}
    sight = big(waiting(bulkInstanceOperation=check))
    assert (sight.state, sight.reason) == ("FAILED", "no resources available")
    want = wanted(several=True)
    with pytest.raises(Refused, match="is FAILED \\(no resources available\\)"):
        decide("present", want, sight)
    again = ["delete", "wait_gone", "create", "wait_ready"]
    assert kinds("present", sight, want, recreate=True) == again


def test_what_waits_says_what_is_not_known() -> None:
    assert WAITING.in_words == f"WAITING_FOR_RESOURCES ({UNDECIDED})"
    facts = WAITING.facts()
    assert (facts["state"], facts["reason"]) == ("WAITING_FOR_RESOURCES", UNDECIDED)
    assert READY.facts()["reason"] == ""
    assert GONE.facts() == {}


REFUSED: list[tuple[str, Sight, str]] = [
    ("stopped", GONE, "There is no instance one in us-central1-c to stop"),
    ("stopped", WAITING, "waits for capacity, so there is nothing to stop"),
    ("present", TAKEN, "is PREEMPTED"),
]


@pytest.mark.parametrize(("state", "sight", "words"), REFUSED)
def test_refused(state: str, sight: Sight, words: str) -> None:
    with pytest.raises(Refused, match=words):
        decide(state, wanted(), sight)


def test_others_are_left_alone() -> None:
    sight = one(instance(labels={}))
    for state in ("present", "absent", "stopped"):
        with pytest.raises(Refused, match="not made by this collection"):
            decide(state, wanted(), sight)
        assert decide(state, wanted(), sight, adopt=True).steps


FIXED: list[tuple[dict[str, Any], str]] = [
    ({"machine_type": "ct6e-standard-4t"}, "machine_type is 'ct6e-standard-1t', wanted"),
    ({"tier": "spot"}, "tier is 'on_demand', wanted 'spot'"),
    ({"max_run_duration": "2h"}, "max_run_duration is '3600s', wanted '2h'"),
    ({"description": "d"}, "description is '', wanted 'd'"),
]


@pytest.mark.parametrize(("params", "words"), FIXED)
def test_fixed_fields(params: dict[str, Any], words: str) -> None:
    lives = {"onHostMaintenance": "TERMINATE", "maxRunDuration": {"seconds": "3600"}}
    sight = one(instance(scheduling=lives))
    assert kinds("present", sight, wanted(max_run_duration="60m")) == []
    with pytest.raises(Refused, match=words):
        decide("present", wanted(**params), sight, recreate=True)


def test_the_name_of_something_else() -> None:
    for raw, words in (
        (instance(machine_type="e2-medium"), "has no TPUs"),
        (member(0, name="big") | {"name": "one"}, "is a worker of big"),
    ):
        with pytest.raises(Refused, match=words):
            one(raw)
    with pytest.raises(Refused, match=r"tpu\.fleet\.tpu_slice"):
        sight_of(wanted(name="big"), seen(groups=(group(),)))
    alone = instance("big")
    with pytest.raises(Refused, match=r"tpu\.fleet\.tpu_instance"):
        sight_of(wanted(several=True), seen(alone))
    webs = template()
    webs["properties"]["machineType"] = "e2-medium"
    with pytest.raises(Refused, match="no machines with TPUs"):
        sight_of(wanted(several=True), seen(groups=(group(),), parts=(webs,)))


SHAPES: list[tuple[bool, dict[str, Any], str, str, int]] = [
    (False, {"accelerator_type": "v6e-8"}, "ct6e-standard-8t", "2x4", 1),
    (False, {"machine_type": "ct6e-standard-4t-tpu"}, "ct6e-standard-4t-tpu", "2x2", 1),
    (True, {"accelerator_type": "v7x-16"}, "tpu7x-standard-4t", "2x2x2", 2),
    (True, {"machine_type": "ct6e-standard-4t", "topology": "2x4"}, "ct6e-standard-4t", "2x4", 2),
]


@pytest.mark.parametrize(("several", "params", "kind", "topology", "workers"), SHAPES)
def test_shapes(
    several: bool, params: dict[str, Any], kind: str, topology: str, workers: int
) -> None:
    found = Wanted.from_params({"name": "n", "zone": ZONE, **params}, "p", several)
    assert found.shape is not None
    assert (found.shape.machine_type, found.shape.whole_topology) == (kind, topology)
    assert (found.shape.workers, found.spec.machine_type) == (workers, kind)


WRONG: list[tuple[bool, dict[str, Any], str]] = [
    (False, {"accelerator_type": "v4-8"}, "which Compute Engine does not have"),
    (True, {"accelerator_type": "v6e-16", "topology": "2x4"}, "in 2x4, which Compute Engine"),
    (False, {"accelerator_type": "v6e-16"}, "a slice of 4 machines"),
    (True, {"accelerator_type": "v6e-8"}, "is one machine"),
    (True, {"machine_type": "ct6e-standard-4t", "topology": "5x5"}, "cannot form"),
    (False, {"machine_type": "ct6e-standard-1t", "valid_for": "2h"}, "do not wait"),
]


@pytest.mark.parametrize(("several", "params", "words"), WRONG)
def test_wrong_options(several: bool, params: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        Wanted.from_params({"name": "n", "zone": ZONE, **params}, "p", several)
