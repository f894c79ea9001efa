"""Where the time of an attempt goes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from run_agent.decide import times


def test_what_a_program_says_of_its_time() -> None:
    told = {"step": 3, "seconds": {"data": 2, "save": 0.5, "init": 9.0, "step": 1.0, "x": 3}}
    assert times.said(json.dumps(told).encode()) == {"data": 2.0, "save": 0.5}


@pytest.mark.parametrize(
    "seconds", [None, 3, "x", [], {"data": -1}, {"data": True}, {"data": "3"}, {"data": 1e300}]
)
def test_what_is_no_time(seconds: Any) -> None:
    assert times.said(json.dumps({"seconds": seconds}).encode()) == {}
    assert times.heard({"seconds": seconds}) == {}
    assert times.said(b'{"seconds": {"data": NaN}}') == {}


def test_the_parts_of_a_start_are_all_of_it() -> None:
    known = {"import": 6.0, "restore": 4.0, "compile": 20.0, "data": 99.0}
    assert times.start_of(3.0, 100.0, 101.0, 142.0, known) == {
        "wait": 3.0, "prepare": 1.0, "import": 6.0, "restore": 4.0, "compile": 20.0,
        "first_step": 11.0,
    }  # fmt: skip
    # Of a program without JAX, and of clocks and files that say what cannot be.
    assert times.start_of(0.0, 100.0, None, 105.0, {}) == {
        "wait": 0.0, "prepare": 0.0, "first_step": 5.0,
    }  # fmt: skip
    odd = times.start_of(-1.0, 100.0, 500.0, 110.0, {"import": 7.0})
    assert odd == {"wait": 0.0, "prepare": 10.0, "import": 0.0, "first_step": 0.0}


def test_the_kinds_of_an_attempt_are_all_of_it() -> None:
    first = {"restore": 4.0, "compile": 20.0}
    later = {"restore": 4.0, "compile": 22.0, "save": 5.0, "data": 10.0}
    assert times.inside(100.0, 140.0, 240.0, first, later) == {
        "init": 16.0, "restore": 4.0, "compile": 22.0, "data": 10.0, "save": 5.0, "step": 83.0,
    }  # fmt: skip


def test_before_the_first_step_all_is_start() -> None:
    found = times.inside(100.0, None, 130.0, {}, {"compile": 20.0})
    assert found == {
        "init": 10.0, "restore": 0.0, "compile": 20.0, "data": 0.0, "save": 0.0, "step": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("first_step", [None, 50.0, 140.0, 500.0])
@pytest.mark.parametrize("known", [{"data": 5000.0, "save": 5000.0}, {"compile": 1.0}, {}])
def test_whatever_is_said_the_sum_is_the_length(
    first_step: float | None, known: dict[str, float]
) -> None:
    found = times.inside(100.0, first_step, 200.0, {"compile": 30.0}, known)
    assert sum(found.values()) == pytest.approx(100.0, abs=0.05)
    assert all(value >= 0 for value in found.values())
    assert set(times.inside(100.0, first_step, 50.0, {}, known).values()) == {0.0}
