"""The module fleet with slices of the Cloud TPU API and of Compute Engine side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests
from emulator import Emulator, reservation_of_a_day

A, B = "us-east5-a", "us-central1-b"
PACE = {"wait_sleep": 0.05, "retry_sleep": 0.2, "wait_timeout": 20}
OLD = {"name": "old", "accelerator_type": "v4-16", "zone": "us-central2-b"}
WIDE = {"name": "wide", "machine_type": "ct6e-standard-4t", "topology": "4x4", "zone": A}
NEW = {
    "name": "new",
    "machine_type": "tpu7x-standard-4t",
    "topology": "2x2x2",
    "zone": "us-central1-c",
}
FLEX = {
    "name": "flex",
    "api": "compute",
    "accelerator_type": "v6e-1",
    "zones": [A, B],
    "tier": "flex_start",
    "max_run_duration": "10m",
    "valid_for": "2h",
}
KINDS = ("instances", "instanceGroupManagers", "instanceTemplates", "resourcePolicies")

Module = Callable[..., dict[str, Any]]


@pytest.fixture
def cloud(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    """A cloud without machines, with the clock that a test asks for."""
    emulator = Emulator(**getattr(request, "param", {}))
    yield emulator
    emulator.stop()


def fleet(*slices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"slices": list(slices), "allocations": "unrestricted", **PACE, **more}


def phases(result: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["phase"] for item in result["slices"]}


def there(cloud: Emulator) -> dict[str, list[str]]:
    """Return what Compute Engine has, by kind."""
    found = {}
    for kind in KINDS:
        url = f"{cloud.url}compute/v1/projects/{cloud.project}/aggregated/{kind}"
        scopes = requests.get(url, timeout=20).json()["items"].values()
        found[kind] = sorted(item["name"] for scope in scopes for item in scope.get(kind, ()))
    return found


def zones(cloud: Emulator) -> dict[str, str]:
    state = cloud.control("state", method="GET")
    return {node["node"]: node["zone"] for node in state["nodes"]}


def test_a_fleet_of_both_comes_up_once_and_goes_without_a_trace(
    cloud: Emulator, module: Module
) -> None:
    wanted = fleet(OLD, WIDE, NEW, FLEX)
    check = module("fleet", wanted, check=True)
    assert check["plan"][:2] == [
        "+ create node old (v4-16, on demand) in us-central2-b: there is none",
        f"+ create Compute Engine slice wide (v6e-16, on demand) in {A}: there is none",
    ]
    assert check["changed"]
    assert not any(there(cloud).values())
    first = module("fleet", wanted)
    assert set(phases(first).values()) == {"ready"}
    assert first["hosts"] == [
        *("old-w0", "old-w1", "wide-w0", "wide-w1", "wide-w2", "wide-w3"),
        *("new-w0", "new-w1", "flex"),
    ]
    second = module("fleet", wanted)
    assert (second["changed"], second["actions"]) == (False, [])
    gone = module("fleet", {**wanted, "teardown": ["old", "wide", "new", "flex"]})
    assert set(phases(gone).values()) == {"ended"}
    assert not any(there(cloud).values())
    assert zones(cloud) == {}


def test_what_is_not_declared_any_more_is_listed_and_pruned(
    cloud: Emulator, module: Module
) -> None:
    module("fleet", fleet(OLD, WIDE))
    left = module("fleet", fleet(OLD))
    assert left["orphans"] == [f"Compute Engine slice wide (READY) in {A}"]
    pruned = module("fleet", fleet(OLD, prune=True))
    assert [action.split(":")[0] for action in pruned["actions"]] == [
        f"- delete Compute Engine slice wide (v6e-16, READY) in {A}"
    ]
    assert not any(there(cloud).values())


def test_a_slice_moves_to_the_other_api_only_when_it_may_be_made_again(
    cloud: Emulator, module: Module
) -> None:
    here = {"name": "six", "accelerator_type": "v6e-1", "zone": A, "api": "tpu"}
    module("fleet", fleet(here))
    kept = module("fleet", fleet({**here, "api": "compute"}))
    assert "six: differs: api is 'tpu', wanted 'compute'" in kept["msg"]
    assert there(cloud)["instances"] == []
    moved = module("fleet", fleet({**here, "api": "compute", "recreate": True}))
    assert phases(moved) == {"six": "ready"}
    assert there(cloud)["instances"] == ["six"]
    assert moved["slices"][0]["tpu_vm"]["api"] == "compute"


def test_the_grant_of_one_api_is_no_grant_of_the_other(cloud: Emulator, module: Module) -> None:
    granted = {"zone": A, "generation": "v6e", "tier": "on_demand", "chips": 16}
    refused = module("fleet", fleet(WIDE, allocations=[granted]))
    assert refused["rc"] == 1
    assert f"the grant does not hold v6e-16 on demand in {A} on Compute Engine" in refused["msg"]
    assert not any(there(cloud).values())
    module("fleet", fleet(WIDE, allocations=[{**granted, "api": "compute"}]))
    more = {**WIDE, "name": "more"}
    full = module("fleet", fleet(WIDE, more, allocations=[{**granted, "api": "compute"}]))
    assert full["rc"] == 1
    assert "16 are in use (node wide (READY): 16); v6e-16 needs 16 more" in full["msg"]


@pytest.mark.parametrize("cloud", [{"clock": "manual"}], indirect=True)
def test_flex_start_waits_is_granted_expires_and_is_asked_for_again(
    cloud: Emulator, module: Module
) -> None:
    one = fleet({**FLEX, "zones": [A]}, wait=False)
    cloud.fault("stock_out", match={"zone": A})
    assert phases(module("fleet", one)) == {"flex": "coming"}
    cloud.control("clock", {"advance": 30})
    waits = module("fleet", one)
    assert phases(waits) == {"flex": "queued"}
    assert "WAITING_FOR_RESOURCES" in waits["slices"][0]["text"]
    cloud.control("faults", method="DELETE")
    cloud.control("clock", {"advance": 300})
    assert phases(module("fleet", one)) == {"flex": "ready"}
    first = there(cloud)["instances"]
    cloud.control("clock", {"advance": 700})
    again = module("fleet", one)
    assert again["actions"][-1].startswith("+ create Compute Engine slice flex (v6e-1, flex start)")
    cloud.control("clock", {"advance": 300})
    assert phases(module("fleet", one)) == {"flex": "ready"}
    assert there(cloud)["instances"] == first == ["flex"]


@pytest.mark.parametrize("cloud", [{"clock": "real", "speed": 60}], indirect=True)
@pytest.mark.parametrize("kind", ["v6e-1", "v6e-16"])
def test_a_request_that_expires_unserved_goes_to_the_next_zone(
    cloud: Emulator, module: Module, kind: str
) -> None:
    cloud.fault("stock_out", match={"zone": A})
    found = module("fleet", fleet({**FLEX, "accelerator_type": kind, "valid_for": "3m"}))
    assert phases(found) == {"flex": "ready"}
    assert zones(cloud) == {"flex": B}
    asked = [action.split(": ") for action in found["actions"] if action.startswith("+")]
    assert [what.rpartition(" in ")[2] for what, _why in asked] == [A, B]


@pytest.mark.parametrize("cloud", [{"clock": "manual"}], indirect=True)
def test_the_next_controller_knows_where_there_was_no_capacity(
    cloud: Emulator, module: Module
) -> None:
    cloud.fault("stock_out", match={"zone": A})
    wanted = fleet({**FLEX, "valid_for": "30m"}, wait=False)
    module("fleet", wanted)
    cloud.control("clock", {"advance": 1900})
    again = module("fleet", wanted)
    assert [action.split(": ")[0] for action in again["actions"]] == [
        f"+ create Compute Engine slice flex (v6e-1, flex start) in {B}"
    ]


@pytest.mark.parametrize("tier", ["spot", "on_demand"])
def test_a_slice_that_is_taken_back_is_made_again(
    cloud: Emulator, module: Module, tier: str
) -> None:
    wanted = fleet({**WIDE, "tier": tier})
    module("fleet", wanted)
    before = there(cloud)["instances"]
    cloud.control(f"nodes/{cloud.project}/{A}/wide:preempt", {})
    again = module("fleet", wanted)
    assert phases(again) == {"wide": "ready"}
    assert set(before).isdisjoint(there(cloud)["instances"])
    assert len(there(cloud)["instances"]) == 4


def test_a_slice_that_lost_one_machine_is_kept_where_that_is_declared(
    cloud: Emulator, module: Module
) -> None:
    wanted = fleet({**WIDE, "tier": "spot", "on_preempt": "keep"})
    module("fleet", wanted)
    before = there(cloud)
    cloud.control(f"nodes/{cloud.project}/{A}/{before['instances'][2]}:preempt", {})
    kept = module("fleet", wanted)
    assert "wide: kept: it was PREEMPTED and on_preempt says keep" in kept["msg"]
    assert there(cloud)["instanceGroupManagers"] == ["wide"]
    again = module("fleet", fleet({**WIDE, "tier": "spot"}))
    assert phases(again) == {"wide": "ready"}
    assert len(there(cloud)["instances"]) == 4


@pytest.mark.parametrize("shape", [("v6e-1", 1), ("v6e-16", 16)], ids=["one", "slice"])
def test_a_slice_is_taken_from_a_reservation_of_the_calendar(
    cloud: Emulator, module: Module, shape: tuple[str, int]
) -> None:
    """It is there on its day, and is not requested again after that."""
    kind, chips = shape
    begins = datetime.now(UTC) + timedelta(days=2)
    path = f"{cloud.url}compute/v1/projects/{cloud.project}/zones/{A}/futureReservations"
    requests.post(path, json=reservation_of_a_day(begins, chips), timeout=20).raise_for_status()
    slice_ = {
        "name": "day",
        "accelerator_type": kind,
        "zone": A,
        "tier": "calendar",
        "reservation": "day",
    }
    granted = {
        "zone": A,
        "generation": "v6e",
        "tier": "reserved",
        "chips": chips,
        "api": "compute",
        "ends": (begins + timedelta(days=1)).isoformat(),
    }
    wanted = fleet(slice_, allocations=[granted], wait=False)

    def later(seconds: float) -> dict[str, Any]:
        cloud.control("clock", {"advance": seconds})
        return module("fleet", wanted)

    for told in (later(0), later(300)):
        assert phases(told)["day"] in ("coming", "queued")
    # A slice of several machines looks once in a while whether there is capacity.
    told = next(
        found
        for found in (later(seconds) for seconds in (2 * 86400, *[300] * 6))
        if phases(found) == {"day": "ready"}
    )
    assert told["slices"][0]["tpu_vm"]["tier"] == "reserved"
    assert later(0)["changed"] is False
    # What is left of a slice of several machines is deleted first.
    for told in (later(86400), later(300), later(0)):
        assert not any("create" in action for action in told.get("actions", []))
    assert "the grant for" in told["msg"]
    assert "is over" in told["msg"]
    assert not any(there(cloud).values())
