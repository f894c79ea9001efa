"""Is a slice free for a submitted run?"""

from __future__ import annotations

from typing import Any

import pytest
from queue_agent.decide.idle import among_workers, in_the_way
from queue_agent.decide.messages import Report


def declared(state: str, **more: Any) -> list[dict[str, Any]]:
    return [{"run": "digits", "state": state, "needs_tpu": "auto", **more}]


@pytest.mark.parametrize("state", ["pending", "running", "restarting", "not started"])
def test_a_declared_run_that_wants_to_run_precedes(state: str) -> None:
    assert in_the_way(declared(state), True, []) == "digits"
    assert in_the_way(declared(state, needs_tpu="false"), True, []) == ""


@pytest.mark.parametrize("state", ["succeeded", "failed", "stopped"])
def test_one_that_has_ended_does_not(state: str) -> None:
    assert in_the_way(declared(state), True, []) == ""


def test_where_declared_runs_do_not_precede_the_one_that_has_the_chips_does() -> None:
    assert in_the_way(declared("pending"), False, []) == ""
    assert in_the_way(declared("pending"), False, ["digits"]) == "digits"
    assert in_the_way(declared("running"), False, []) == "digits"


def test_all_workers_are_there_and_free() -> None:
    free = {number: (Report(number), 1.0) for number in (0, 1)}
    assert among_workers("pair", 2, free) == ""
    assert "pair-w1 does not answer" in among_workers("pair", 2, {0: free[0]})
    assert "pair-w1 does not answer" in among_workers("pair", 2, {**free, 1: (Report(1), 31.0)})
    left = {**free, 1: (Report(1, run="one"), 1.0)}
    assert among_workers("pair", 2, left) == "pair-w1 still has one"
    held = {0: (Report(0, busy="accel0 is held by process 7 (python) of bob"), 0.0)}
    assert among_workers("solo", 1, held).startswith("solo: accel0 is held")
