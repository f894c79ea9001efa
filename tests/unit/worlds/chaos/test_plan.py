"""The plan of the faults."""

from __future__ import annotations

import itertools

import pytest
from chaos import plan


@pytest.mark.parametrize("seed", range(100))
def test_in_twenty_minutes_all_of_them_come(seed: int) -> None:
    faults = plan.make(seed, 20)
    assert {(fault.lane, fault.kind) for fault in faults} == {
        (lane, kind.name) for lane, kinds in plan.LANES.items() for kind in kinds
    }
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert max(fault.at for fault in faults) < 20 * 60


@pytest.mark.parametrize("minutes", [1, 4, 12, 20, 90])
def test_a_fault_in_one_place_lets_the_one_before_be_over(minutes: float) -> None:
    faults = plan.make(3, minutes)
    assert faults
    for lane, kinds in plan.LANES.items():
        rest = {kind.name: kind.rest for kind in kinds}
        mine = [fault for fault in faults if fault.lane == lane]
        for one, other in itertools.pairwise(mine):
            assert other.at - one.at >= rest[one.kind] - 0.1
            assert one.seconds < rest[one.kind] + 25
        assert all(0 <= w < plan.WORKERS[lane] for fault in mine for w in fault.workers)


def test_the_same_seed_is_the_same_plan_and_another_one_is_not() -> None:
    assert plan.make(1, 20) == plan.make(1, 20)
    assert plan.make(1, 20) != plan.make(2, 20)


def test_what_takes_long_is_left_out_of_a_short_plan() -> None:
    assert "preempt" not in {fault.kind for fault in plan.make(1, 4)}


def test_a_reboot_of_some_leaves_some() -> None:
    some = [fault for fault in plan.make(5, 90) if fault.kind == "reboot-some"]
    assert some
    assert all(len(set(fault.workers)) == 2 for fault in some)


def test_faults_of_the_bucket_hurt_the_run_that_saves_there() -> None:
    faults = plan.make(7, 20)
    hurt = {lane: {plan.hurt_by(f) for f in faults if f.lane == lane} for lane in plan.LANES}
    assert hurt[plan.SOLO] == {(plan.SOLO,)}
    assert hurt[plan.QUAD] == hurt[plan.BUCKET] == {(plan.QUAD,)}
    # An API that is away takes the bucket with it; a watcher that is killed nothing.
    assert hurt[plan.CONTROLLER] == {(plan.QUAD,), ()}
