from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.budget import (
    Budget,
    check_budget,
)

SOLO = {"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b"}
PAIR = {**SOLO, "name": "pair", "accelerator_type": "v4-16"}


def problems(budget: Any, *slices: dict[str, Any]) -> list[str]:
    return [*map(str, check_budget({"fleet_budget": budget, "fleet_slices": list(slices)}))]


def test_what_is_right() -> None:
    assert problems({"per_day": 50, "per_month": 500.5, "on_exceed": "stop"}, SOLO) == []
    assert problems({"per_day": 0}) == []
    assert problems({"per_month": 10, "on_exceed": "delete"}, PAIR) == []
    assert check_budget({}) == []


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"on_exceed": "warn"}, "fleet_budget: has no limit. Give per_day or per_month"),
        ({"per_day": -1}, "fleet_budget.per_day = -1: is below zero. Use 0 or more"),
        ({"per_day": "5"}, "fleet_budget.per_day = '5': must be a number"),
        ({"per_day": 5, "per_month": 4}, "fleet_budget.per_month = 4: is less than per_day (5)"),
        ({"per_day": 5, "on_exceed": "kill"}, "fleet_budget.on_exceed = 'kill': is not one of the"),
        ({"day": 5}, "fleet_budget.day"),
        (5, "fleet_budget = 5: must be a mapping"),
    ],
)
def test_what_is_wrong(budget: Any, words: str) -> None:
    (text, *_more) = problems(budget)
    assert text.startswith(words)


def test_a_slice_that_never_stops_needs_another_end() -> None:
    (text,) = problems({"per_day": 5, "on_exceed": "stop"}, SOLO, PAIR)
    assert text == (
        "fleet_budget.on_exceed = 'stop': cannot be done with slice pair: the API stops no slice "
        "of several workers, and v4-16 has 2. Use on_exceed: delete, which keeps data disks, or "
        "warn."
    )
    spot = {**SOLO, "tier": "spot"}
    assert "spot node" in problems({"per_day": 5, "on_exceed": "stop"}, spot)[0]


def test_as_data() -> None:
    budget = Budget.read({"per_day": 5})
    assert (budget.limits, budget.acts) == ({"day": 5.0}, False)
    assert Budget.read({"per_month": 5, "on_exceed": "delete"}).acts
    assert Budget.read(None) == Budget()
