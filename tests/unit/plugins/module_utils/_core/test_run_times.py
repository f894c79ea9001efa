"""What is read of a run's times."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.run_times import (
    KINDS,
    counts_of,
    seconds_of,
)


def test_known_names_are_read() -> None:
    assert seconds_of({"data": 2, "x": 3, "step": 1.5}, KINDS) == {"data": 2.0, "step": 1.5}
    told = {"programs": 5, "hits": 3, "misses": -1, "jax": "0.12"}
    assert counts_of(told) == {"programs": 5, "hits": 3}


@pytest.mark.parametrize("value", [-1, True, "3", None, [], 1e300, float("nan"), 10**12, 1.5])
def test_what_is_no_count_is_left_out(value: Any) -> None:
    assert counts_of({"hits": value}) == {}
    if value != 1.5:
        assert seconds_of({"data": value}, KINDS) == {}


@pytest.mark.parametrize("told", [None, 3, "x", []])
def test_what_is_no_object_has_nothing(told: Any) -> None:
    assert (seconds_of(told, KINDS), counts_of(told)) == ({}, {})
