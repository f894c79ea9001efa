"""Slices that wait for capacity, get it, lose it, or never get it.

One story alone: `.venv/bin/pytest tests/machines/compute_engine -k unserved`
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from compute_fleet import (
    CODE,
    EVERY,
    ONE,
    PEOPLE,
    PROVISION,
    SHARES,
    A,
    B,
    ComputeFleet,
    sleeper,
    trainer,
)
from fleet import wait_until

SAVED = "/mnt/kept/flex"
FLEX = {**ONE, "tier": "flex_start", "max_run_duration": "2h", "valid_for": "2h"}
UNDECIDED = "Compute Engine does not show whether capacity or quota is missing"
TRAINS: dict[str, Any] = {
    **PEOPLE,
    "fleet_disks": [
        {"name": "kept", "size": "10GiB", "slices": ["flex"], "path": "/mnt/kept", "user": "alice"},
    ],
    "fleet_slices": [{"name": "flex", **FLEX, "zone": A, **SHARES}],
    "fleet_code": [CODE],
    "fleet_runs": [trainer("flex", ["flex"], SAVED)],
}


def impatient(fleet: ComputeFleet, seconds: int = 5) -> str:
    """Run site.yml, which gives up soon; return what it says, on one line."""
    told = fleet.play("site.yml", "-e", f"fleet_slice_timeout={seconds}s", ok=False)
    return " ".join(told.split())


def begun_after(fleet: ComputeFleet) -> int:
    """Return the step after which the run of a machine began."""
    found = re.findall(r"begins after step (\d+)", fleet.log("flex", "flex"))
    return int(found[0])


def test_flex_start_waits_is_granted_expires_and_the_run_goes_on(fleet: ComputeFleet) -> None:
    fleet.declare(TRAINS)
    fleet.fault("stock_out", A)
    told = impatient(fleet)
    assert re.search(rf"flex: queued: WAITING_FOR_RESOURCES in {A} since \S+, until \S+Z", told)
    assert UNDECIDED in told
    # The API does not show how long it may wait, so the instance says it itself.
    waits = fleet.there("instances")["flex"]
    assert waits["status"] == "PENDING"
    asked = datetime.fromisoformat(waits["creationTimestamp"])
    shown = fleet.report("tpu-fleet", "status", "--json")["queued"]
    ends = datetime.fromisoformat(shown[0]["valid_until"])
    assert timedelta(0) <= asked + timedelta(hours=2) - ends < timedelta(minutes=3)

    with fleet.watched():
        fleet.command("fault", "clear")
        reached = fleet.wait_step("flex", "flex", 30, limit=400)
        assert fleet.there("instances")["flex"]["id"] == waits["id"], "the request became it"
        assert begun_after(fleet) == 0
        fleet.command("clock", "--advance", "7200")
        wait_until("the end of its time", lambda: fleet.status("flex", "flex") == {}, 120)
        fleet.wait_step("flex", "flex", reached, limit=400)
        assert fleet.there("instances")["flex"]["id"] != waits["id"]
        assert begun_after(fleet) >= reached - EVERY
        found = fleet.finish("flex", "flex", SAVED)
    assert "+ create Compute Engine slice flex (v6e-1, flex start)" in fleet.watcher_said()
    assert fleet.broken("flex", SAVED, faults=1, workers=1) == {}
    assert found == fleet.undisturbed("flex", "flex", 1, found["steps"])


def test_a_request_that_expires_unserved_goes_to_the_next_zone(fleet: ComputeFleet) -> None:
    slice_ = {"name": "hunt", **FLEX, "zones": [A, B], "valid_for": "5m"}
    wanted = {**PEOPLE, "fleet_slices": [slice_], "fleet_runs": [sleeper("there", "hunt")]}
    fleet.declare(wanted)
    fleet.fault("stock_out", A)
    told = " ".join(fleet.play("site.yml").split())
    assert re.search(rf"hunt: queued: WAITING_FOR_RESOURCES in {A}.*\({UNDECIDED}\)", told)
    assert f"hunt: no capacity for v6e-1 in {A}" in told
    assert fleet.cloud()["hunt"]["zone"] == B
    fleet.wait_attempt("there", 1, "hunt")
    # Where it is, it stays, also when the better zone has capacity again.
    fleet.command("fault", "clear")
    assert "changed=0" in fleet.play(PROVISION)


def test_capacity_and_quota_are_told_apart_where_the_api_does(fleet: ComputeFleet) -> None:
    slices = [
        {"name": "dry", **ONE, "zone": A},
        {"name": "poor", **ONE, "zone": B},
        {"name": "dry-flex", **FLEX, "zone": A},
        {"name": "poor-flex", **FLEX, "zone": B},
    ]
    names = [str(one["name"]) for one in slices]
    runs = [sleeper(f"on-{name}", name) for name in names]
    fleet.declare({**PEOPLE, "fleet_slices": slices, "fleet_runs": runs})
    fleet.fault("stock_out", A)
    fleet.fault("quota", B, "--option", "limit=0")
    told = impatient(fleet, 15)
    assert re.search(
        rf"dry: waiting: no capacity for v6e-1 in {A} on Compute Engine since", told
    ), told
    assert re.search(r"poor: refused: [^=]*quota", told, re.I), told
    for name, zone in (("dry-flex", A), ("poor-flex", B)):
        said = rf"{name}: queued: WAITING_FOR_RESOURCES in {zone}[^;]*\({UNDECIDED}\)"
        assert re.search(said, told), told

    fleet.command("fault", "clear")
    fleet.play("site.yml")
    for name in names:
        fleet.wait_attempt(f"on-{name}", 1, name)


def test_a_reservation_is_used_and_never_exceeded(fleet: ComputeFleet) -> None:
    kind = {"machineType": "ct6e-standard-1t"}
    place = f"zones/{A}/reservations"
    specific = {"count": "1", "instanceProperties": kind}
    body = {"name": "ours", "specificReservation": specific, "specificReservationRequired": True}
    fleet.do("POST", place, body)
    reserved = {**ONE, "zone": A, "tier": "reserved", "reservation": "ours"}
    first, second = ({"name": name, **reserved} for name in ("first", "second"))

    def declare(*slices: dict[str, Any]) -> None:
        runs = [sleeper(f"on-{one['name']}", str(one["name"])) for one in slices]
        fleet.declare({**PEOPLE, "fleet_slices": list(slices), "fleet_runs": runs})

    def in_use() -> str:
        return str(fleet.ask("GET", f"{place}/ours")["specificReservation"]["inUseCount"])

    declare(first)
    fleet.play("site.yml")
    fleet.wait_attempt("on-first", 1, "first")
    assert in_use() == "1"
    affinity = fleet.there("instances")["first"]["reservationAffinity"]
    assert affinity["values"] == ["ours"]

    declare(first, second)
    told = impatient(fleet, 15)
    assert f"second: waiting: no reserved capacity for v6e-1 in {A} on Compute Engine" in told
    assert in_use() == "1"

    declare(second)
    fleet.play("site.yml", "-e", "fleet_prune=true")
    fleet.wait_attempt("on-second", 1, "second")
    assert set(fleet.there("instances")) == {"second"}
    assert in_use() == "1"
    declare()
    fleet.play("site.yml", "-e", "fleet_prune=true")
    assert in_use() == "0"
    fleet.do("DELETE", f"{place}/ours")
