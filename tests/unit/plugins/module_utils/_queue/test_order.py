"""Which run is next, and the reason of each that waits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects, order
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import Limits
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Place, Serving

PAIR = Serving("pair", "v4-8", 4, frozenset({"jax"}))
SOLO = Serving("solo", "v4-8", 4, frozenset({"jax"}), busy="recreated")
BIG = Serving("big", "v5litepod-16", 16, frozenset({"torch"}))

NOW = 1764413259.0


def run(name: str, **more: Any) -> objects.Submitted:
    waits = objects.Submitted(name, "0" * 64, "alice", 0, 1.0, 1.0, nonce="0" * 32)
    return replace(waits, **more)


def on(slice_: Serving, name: str) -> objects.Submitted:
    owner = objects.Owner(slice_.name, "us-central2-b", slice_.type, slice_.chips, "n", "b")
    return run(name, state=objects.RUNNING, owner=owner)


def reason(*runs: objects.Submitted, slices: Any = (PAIR, SOLO, BIG), **more: Any) -> str:
    return order.places(runs, slices, now=NOW, **more)[runs[0].name].reason


def test_each_has_its_turn_and_a_reason() -> None:
    runs = [
        on(PAIR, "lr-1"),
        run("lr-2", venv="jax", turn=1),
        run("lr-3", venv="jax", turn=2),
        run("high", types=("v4-8",), priority=3),
        run("elsewhere", types=("v5litepod-16",), turn=9),
    ]
    assert order.places(runs, [PAIR, SOLO, BIG], now=NOW) == {
        "high": Place(1, "first in turn; v4-8 busy: pair (lr-1), solo (recreated)"),
        "lr-2": Place(2, "second in turn; v4-8 busy: pair (lr-1), solo (recreated)"),
        "lr-3": Place(3, "third in turn; v4-8 busy: pair (lr-1), solo (recreated)"),
        "elsewhere": Place(1, "first in turn; idle: big"),
    }


def test_what_no_slice_can_run_has_a_reason() -> None:
    assert reason(run("a", venv="flax")) == "no slice has environment flax"
    assert reason(run("a", types=("v4-16", "v4-32"))) == "no slice is v4-16 or v4-32"
    assert reason(run("a", slices=("lost",))) == "no slice is lost"
    assert reason(run("a", slices=("big",), types=("v4-8",))) == "no slice of big is v4-8"
    assert reason(run("a"), slices=()) == "no slice serves the queue"


def test_what_waits_for_others_has_a_reason() -> None:
    waits = run("a", after=("b",))
    assert reason(waits) == "waits for b, which is not in the queue"
    assert reason(waits, on(PAIR, "b")) == "waits for b to end"
    failed = run("b", state=objects.FAILED, ended_at=1.0)
    assert reason(waits, failed) == "waits for b, which is failed: retry it, or stop this run"
    assert reason(waits, replace(failed, state=objects.DONE)) == "first in turn; idle: pair, big"


def test_a_limit_is_a_reason() -> None:
    said = reason(run("a"), on(PAIR, "b"), limit=Limits(runs=1))
    assert said == "limit of alice: 1 run at a time"
    said = reason(run("a"), on(PAIR, "b"), limit=Limits(chips=7))
    assert said == "limit of alice: 7 chips at a time"
    assert "limit" not in reason(run("a"), on(PAIR, "b"), limit=Limits(runs=2, chips=8))


def test_a_sweep_with_a_maximum_is_a_reason() -> None:
    def arm(number: int, **more: Any) -> objects.Submitted:
        return run(f"lr-{number}", sweep="lr", at_once=2, **more)

    running = [replace(on(PAIR, f"lr-{number}"), sweep="lr", at_once=2) for number in (1, 2)]
    assert reason(arm(3), *running) == "2 of sweep lr run, at most 2 at once"
    assert "in turn" in reason(arm(3), running[0])
    assert "in turn" in reason(arm(3, submitted_at=9.0), *running)


def test_a_slice_that_is_reserved_is_a_reason() -> None:
    for_bob = replace(PAIR, reserved=frozenset({"bob", "zoe"}))
    assert reason(run("a"), slices=[for_bob]) == "pair is reserved for bob and zoe"
    assert reason(run("a"), slices=[for_bob, BIG]) == "first in turn; idle: big"
    assert reason(run("a", person="zoe"), slices=[for_bob]) == "first in turn; idle: pair"
    both = [run("a"), run("z", person="zoe")]
    assert order.places(both, [for_bob], now=NOW)["z"].position == 1


def test_used_chip_hours_are_a_reason() -> None:
    used = ((int(NOW) - 7200, int(NOW), 8 * 3600),)
    ended = run("b", state=objects.DONE, ended_at=NOW, used=used)
    said = reason(run("a"), ended, limit=Limits(chip_hours=8))
    assert said.startswith("alice used 8 of 8 chip hours in 7 days; fewer in 7 days")
    assert "in turn" in reason(run("a"), ended, limit=Limits(chip_hours=9))


def test_a_long_list_is_cut() -> None:
    many = [replace(PAIR, name=f"s-{number}", busy="x") for number in range(7)]
    said = reason(run("a"), slices=many)
    assert said == "first in turn; v4-8 busy: s-0 (x), s-1 (x), s-2 (x), s-3 (x) and 3 more"


def test_ordinals() -> None:
    assert [order.ordinal(one) for one in (1, 10, 11, 12, 21, 22, 103, 111)] == [
        *("first", "tenth", "11th", "12th", "21st", "22nd", "103rd", "111th")
    ]


def test_ten_thousand_runs_and_a_thousand_slices_are_ordered_in_a_moment() -> None:
    runs = [run(f"r-{number}", turn=number, types=("v4-8",)) for number in range(10_000)]
    many = [replace(PAIR, name=f"s-{number}", busy="x") for number in range(1000)]
    begun = time.process_time()
    found = order.places(runs, many, now=NOW)
    assert found["r-9999"].reason.startswith("10000th in turn; v4-8 busy: s-0 (x)")
    assert time.process_time() - begun < 2.0
