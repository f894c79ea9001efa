"""What a queue costs. That its requests are as many stands in tests/worlds/property."""

from __future__ import annotations

import pytest
import queue_costs as costs


def test_a_month_of_twenty_slices() -> None:
    """The figure in the docstring, and in docs/queue.md."""
    assert costs.dollars_a_month(20, busy=0.6, runs=2000) == pytest.approx(21.4, abs=0.1)
    assert "21 dollars" in (costs.dollars_a_month.__doc__ or "")


def test_a_rule_beside_twenty_arms_costs_a_list_each_time() -> None:
    """The figure in docs/queue.md; that it is one list each time stands in test_store.py."""
    month = costs.of_rule(costs.MONTH, 300.0).times(20)
    assert month.dollars == pytest.approx(0.88, abs=0.01)


def test_a_queue_without_runs_costs_its_looks() -> None:
    one = costs.dollars_a_month(1, busy=0.0, runs=0) - costs.dollars_a_month(0, 0.0, 0)
    assert one == pytest.approx(costs.of_idle_slice(costs.MONTH, 0).dollars)
    assert costs.of_tending(10_000).a == 13
