"""The use of a worker's chips, from what the runtime reports of each."""

from __future__ import annotations

from typing import Any

import pytest
from run_agent.decide.chip_use import use_of

DUTY, USED, WHOLE = "duty_cycle_percent", "memory_used_bytes", "memory_bytes"


@pytest.mark.parametrize(
    ("metrics", "use"),
    [
        ({}, None),
        ({"idle_seconds": {0: 1.0}}, None),
        (
            {DUTY: {0: 90.0, 1: 95.0}, USED: {0: 5, 1: 6}, WHOLE: {0: 9, 1: 9}},
            {"count": 2, "duty_cycle": 92.0, "memory_used": 11, "memory": 18},
        ),
        # Two devices with memory of their own to each chip.
        (
            {DUTY: {0: 90.0}, USED: {0: 5, 1: 6}, WHOLE: {0: 9, 1: 9}},
            {"count": 1, "duty_cycle": 90.0, "memory_used": 11, "memory": 18},
        ),
        # An older runtime reports less.
        ({WHOLE: {0: 9}}, {"count": 1, "duty_cycle": None, "memory_used": None, "memory": 9}),
        ({DUTY: {0: 0.0}}, {"count": 1, "duty_cycle": 0.0, "memory_used": None, "memory": None}),
    ],
)
def test_the_use_of_a_worker(metrics: dict[str, dict[int, float]], use: Any) -> None:
    assert use_of(metrics) == use
