"""One run of JAX over two slices of two machines each, of which we say who is which."""

from __future__ import annotations

from typing import Any

from compute_fleet import CODE, PAIR, PEOPLE, SHARE, SHARES, A, ComputeFleet, trainer
from fleet import wait_until

SAVED = f"{SHARE}/both"
HOSTS = ("right-w0", "right-w1", "left-w0", "left-w1")
HEALED = "healed: left is back"
RUN = trainer("both", ["right", "left"], SAVED, multislice=True)
FLEET: dict[str, Any] = {
    **PEOPLE,
    "fleet_slices": [
        {"name": name, **PAIR, "zone": A, "tier": "spot", **SHARES} for name in ("left", "right")
    ],
    "fleet_code": [CODE],
    "fleet_runs": [RUN],
}


def boots(fleet: ComputeFleet, *hosts: str) -> set[str]:
    return {fleet.status(host, "both")["boot_id"] for host in hosts}


def test_two_groups_are_one_run_through_maintenance_and_preemption(fleet: ComputeFleet) -> None:
    fleet.declare(FLEET)
    fleet.play("site.yml")
    assert set(fleet.there("instanceGroupManagers")) == {"left", "right"}
    first = fleet.wait_attempt("both", 1, *HOSTS)
    leader, *_others = fleet.internal("right")
    for worker, host in enumerate(HOSTS):
        told = fleet.told(host, "both")
        assert (told["TPU_FLEET_WORKER"], told["TPU_FLEET_WORKERS"]) == (str(worker), "4")
        # Compute Engine says nothing of it: the order of the run counts.
        assert told["MEGASCALE_NUM_SLICES"] == "2"
        assert told["MEGASCALE_SLICE_ID"] == str(worker // 2)
        assert told["MEGASCALE_COORDINATOR_ADDRESS"] == f"{leader}:{told['MEGASCALE_PORT']}"
    reached = fleet.wait_step("left-w1", "both", 20)

    # Maintenance of one machine is one of its whole slice; the other one waits for it.
    before, kept = boots(fleet, *HOSTS[2:]), boots(fleet, *HOSTS[:2])
    fleet.command("maintain", fleet.of("left")[1]["name"])
    second = fleet.wait_attempt("both", first + 1, *HOSTS)
    assert boots(fleet, *HOSTS[2:]).isdisjoint(before)
    assert boots(fleet, *HOSTS[:2]) == kept
    reached = fleet.wait_step("left-w1", "both", reached + 10)

    with fleet.watched():
        wait_until("the watch", lambda: "is active now" in fleet.watcher_said(), 180)
        # Google takes one machine of a slice back, then a whole one: it is made again, elsewhere.
        for healed, taken in enumerate((fleet.of("left")[1]["name"], "left"), 1):
            gone = fleet.of("left")
            fleet.command("preempt", taken)
            second = fleet.wait_attempt("both", second + 1, *HOSTS, limit=600)
            wait_until(HEALED, lambda n=healed: fleet.watcher_said().count(HEALED) == n, 180)
            assert "took part" not in fleet.watcher_said(), "all workers did"
            assert {one["id"] for one in gone}.isdisjoint(one["id"] for one in fleet.of("left"))
            reached = fleet.wait_step("left-w1", "both", reached + 10)
        leader = fleet.internal("right")[0]
        for host in HOSTS:
            address = fleet.told(host, "both")["MEGASCALE_COORDINATOR_ADDRESS"]
            assert address.startswith(f"{leader}:")
        found = fleet.finish("right-w0", "both", SAVED)
    assert fleet.broken("right-w0", SAVED, faults=3, workers=4) == {}
    assert found == fleet.undisturbed("right-w0", "both", 4, found["steps"])
