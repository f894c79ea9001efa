"""Which slices the runs that wait need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import Limits
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    DONE,
    RUNNING,
    Owner,
    Submitted,
)

from tpu_fleet.queue.demand import RESTS, STUCK, Need, Offer, needs

JAX = frozenset({"jax"})
UP = Offer("up", ("v4-8",), JAX)
A, B = Offer("a", ("v4-8",), JAX, RESTS), Offer("b", ("v4-8",), JAX, RESTS)
BIG = Offer("big", ("v5litepod-16", "v4-16"), JAX, RESTS)

NOW = 1764413259.0


def run(name: str, on: str = "", **more: Any) -> Submitted:
    waits = Submitted(name, "0" * 64, "alice", 0, 1.0, 1.0, nonce="0" * 32)
    if on:
        owner = Owner(on, "us-central2-b", "v4-8", 4, "n", "b")
        return replace(waits, state=RUNNING, owner=owner, **more)
    return replace(waits, **more)


def names(*runs: Submitted, offers: Any = (A, UP, B, BIG), **limit: int) -> list[str]:
    return sorted(needs(runs, offers, Limits(**limit), now=NOW))


SMALL = {"types": ("v4-8",)}


@pytest.mark.parametrize(
    ("runs", "needed"),
    [
        ([], []),
        # What is up and idle comes first; each run needs a slice of its own.
        ([run("r", **SMALL)], ["up"]),
        ([run("r", **SMALL), run("s", **SMALL)], ["a", "up"]),
        ([run("q", on="up"), run("r", **SMALL)], ["a"]),
        ([run(f"r{n}", **SMALL) for n in range(9)], ["a", "b", "up"]),
        # Only what fits: slice, type, environment.
        ([run("r", slices=("b",))], ["b"]),
        ([run("r", types=("v4-16",))], ["big"]),
        ([run("r", types=("v6e-8",))], []),
        ([run("r", venv="torch")], []),
        # What is not to start now needs none.
        ([run("r", after=("gone",))], []),
        ([run("q", on="up"), run("r", after=("q",))], []),
        ([run("q", state=DONE, ended_at=1.0), run("r", after=("q",), **SMALL)], ["up"]),
    ],
)
def test_a_run_needs_a_slice_that_fits(runs: list[Submitted], needed: list[str]) -> None:
    assert names(*runs) == needed


def test_limits_of_a_person_hold_for_what_is_to_come() -> None:
    runs = [run(f"r{n}", **SMALL) for n in range(3)]
    assert names(*runs, runs=1) == ["up"]
    assert names(run("q", on="up"), *runs, runs=1) == []
    assert names(*runs, chips=8) == ["a", "up"]
    bob = replace(run("bob", **SMALL), person="bob", turn=5)
    assert names(*runs, bob, runs=1) == ["a", "up"]


def test_what_others_use_or_cannot_come_serves_none() -> None:
    used, stuck = replace(UP, used=True), replace(A, how=STUCK)
    assert names(run("r"), offers=[used, B]) == ["b"]
    assert names(run("r"), offers=[stuck, B]) == ["b"]
    assert names(run("r"), offers=[stuck]) == ["a"]


def test_what_may_not_begin_needs_none() -> None:
    for_bob = replace(A, reserved=frozenset({"bob"}))
    assert names(run("r"), offers=[for_bob, B]) == ["b"]
    assert names(run("r"), run("q", person="bob"), offers=[for_bob]) == ["a"]
    arms = [run(f"lr-{n}", sweep="lr", at_once=2) for n in range(5)]
    assert names(*arms, run("lr-9", on="up", sweep="lr", at_once=2)) == ["a"]
    used = run("o", state=DONE, ended_at=NOW, used=((int(NOW) - 3600, int(NOW), 4 * 3600),))
    assert names(used, run("r"), chip_hours=4) == []
    assert names(used, run("r"), chip_hours=5) == ["up"]


def test_a_need_says_how_many_runs_wait_for_what() -> None:
    runs = [run("r", slices=("a",), turn=1), run("s", **SMALL), run("t", types=("v4-16",))]
    found = needs(runs, [A, BIG], now=NOW)
    assert found == {"a": Need("s", 2, "v4-8"), "big": Need("t", 1, "v4-16")}
    assert found["a"].why == "2 submitted runs wait for v4-8"
    assert found["big"].why == "1 submitted run waits for v4-16"
