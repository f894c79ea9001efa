from __future__ import annotations

import pytest
from run_agent.decide import bucket_budget
from run_agent.decide.config import Timing

LOOKS = Timing(lost=30).bucket_dollars
A_MONTH_OF_STARTS = 1000 * bucket_budget.dollars(2, 7)  # the fence is written at each end, too


def fence_dollars(every: float) -> float:
    return bucket_budget.dollars(0, 1) * bucket_budget.MONTH / every


@pytest.mark.parametrize("lists", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("gets", [0, 1, 16, 40])
@pytest.mark.parametrize("failures", [0, 1, 5, 1000])
def test_a_month_of_looks_costs_at_most_a_quarter_of_a_dollar(
    lists: int, gets: int, failures: int
) -> None:
    timing, spent = Timing(lost=30), bucket_budget.dollars(lists, gets)
    pause = bucket_budget.pause(spent, timing.bucket_dollars, timing.bucket, failures)
    fence = fence_dollars(timing.fence_in_bucket)
    looks = spent * bucket_budget.MONTH / pause
    assert looks + fence + A_MONTH_OF_STARTS < bucket_budget.MOST_DOLLARS
    assert timing.bucket <= pause < 3600


def test_the_usual_look_comes_every_two_minutes() -> None:
    # One list of the steps, and the newest one's mark.
    assert 105 < bucket_budget.pause(bucket_budget.dollars(1, 1), LOOKS, 60.0) < 115


def test_a_month_of_reads_of_the_fence_costs_a_dime() -> None:
    assert fence_dollars(bucket_budget.FENCE_SECONDS) == pytest.approx(0.105, abs=0.001)


def test_a_look_that_came_early_is_paid_by_the_pauses_after_it() -> None:
    debt, paid = bucket_budget.Debt().after(-5.0), []
    assert debt.paid() == (0.0, bucket_budget.Debt())
    debt = debt.after(100.0)
    while debt.seconds:
        part, debt = debt.paid()
        paid.append(part)
    assert paid == pytest.approx([20.0] * bucket_budget.PARTS)


def test_a_bucket_that_refuses_is_asked_less_often() -> None:
    pauses = [bucket_budget.pause(0.0, LOOKS, 60.0, failures) for failures in range(7)]
    assert pauses == [60, 120, 240, 480, 900, 900, 900]
