"""Whether a fault strikes here and now."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_local_cloud.model.shared.faults import Fault, Faults


def struck(fault: Fault, times: int, **where: str) -> list[bool]:
    faults = Faults()
    faults.add(fault)
    return [faults.hit(fault.kind, 0.0, **where) is not None for _ in range(times)]


def test_by_count() -> None:
    assert struck(Fault("unavailable", count=2), 4) == [True, True, False, False]


def test_until_it_is_switched_off() -> None:
    assert struck(Fault("unavailable"), 3) == [True, True, True]


def test_by_probability_the_same_each_time() -> None:
    first = struck(Fault("unavailable", probability=0.5, seed=7), 200)
    assert first == struck(Fault("unavailable", probability=0.5, seed=7), 200)
    assert first != struck(Fault("unavailable", probability=0.5, seed=8), 200)
    assert 60 < sum(first) < 140


@pytest.mark.parametrize(("now", "strikes"), [(0.0, True), (9.9, True), (10.0, False)])
def test_for_a_time(now: float, strikes: bool) -> None:
    faults = Faults()
    faults.add(Fault("unavailable", until=10.0))
    assert (faults.hit("unavailable", now) is not None) is strikes
    faults.expire(now)
    assert bool(faults.list()) is strikes


@pytest.mark.parametrize(
    ("match", "strikes"),
    [
        ({}, True),
        ({"zone": "a"}, True),
        ({"zone": "b"}, False),
        ({"zone": "a", "node": "n1"}, True),
        ({"zone": "a", "node": "n2"}, False),
        ({"unheard": "of"}, False),
    ],
)
def test_where(match: dict[str, Any], strikes: bool) -> None:
    assert struck(Fault("busy", match=match), 1, zone="a", node="n1") == [strikes]


def test_a_call_elsewhere_does_not_use_a_fault_up() -> None:
    faults = Faults()
    faults.add(Fault("busy", match={"zone": "a"}, count=1))
    assert faults.hit("busy", 0.0, zone="b") is None
    assert faults.hit("stock_out", 0.0, zone="a") is None
    assert faults.hit("busy", 0.0, zone="a") is not None


def test_an_unknown_kind_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"'frob'.*stock_out"):
        Faults().add(Fault("frob"))


def test_one_is_switched_off_and_the_others_stay() -> None:
    faults = Faults()
    one, other = Fault("busy"), Fault("quota")
    faults.add(one)
    faults.add(other)
    faults.clear(one.id)
    assert [item["id"] for item in faults.list()] == [other.id]
    faults.clear()
    assert faults.list() == []
