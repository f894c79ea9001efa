"""The turn of a run: each person's first before any second, and none overtaken for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._queue import limits, objects


def run(person: str, turn: int, **more: Any) -> objects.Submitted:
    return objects.Submitted(f"{person}-{turn}", "0" * 64, person, turn, 1.0, 1.0, **more)


def test_the_turn_is_after_ones_own_and_not_before_the_queues() -> None:
    assert limits.turn_of("alice", 0, []) == 0
    waiting = [run("alice", turn) for turn in range(3)]
    assert limits.turn_of("alice", 0, waiting) == 3
    assert limits.turn_of("bob", 0, waiting) == 0
    begun = [run("alice", 7, state=objects.DONE), *(run("alice", turn) for turn in (8, 9))]
    assert limits.turn_of("bob", 0, begun) == 7
    assert limits.turn_of("bob", 5, begun) == 0


def test_one_who_was_served_does_not_go_before_those_who_wait() -> None:
    known = [run("zoe", 0), run("alice", 0, state=objects.DONE)]
    assert limits.turn_of("alice", 0, known) == 1


def test_arms_count_for_their_own_sweep_alone() -> None:
    def arm(name: str, sweep: str, at: float = 1.0, at_once: int | None = 2) -> objects.Submitted:
        one = run("alice", 0, sweep=sweep, at_once=at_once)
        return replace(one, name=name, submitted_at=at)

    lr = [limits.Held.of(arm(f"lr-{number}", "lr")) for number in (1, 2)]
    others = [arm("lr-x-1", "lr-x"), arm("lr-3", "lr", at=2.0), run("alice", 7)]
    next_one = arm("lr-4", "lr")
    said = "2 of sweep lr run, at most 2 at once"
    assert limits.over_at_once(next_one, [*lr, *map(limits.Held.of, others)]) == said
    assert limits.over_at_once(next_one, [lr[0], *map(limits.Held.of, others)]) == ""
    assert limits.over_at_once(replace(next_one, at_once=None), lr) == ""
    assert limits.over_at_once(arm("lr-x-2", "lr-x"), lr) == ""
    # A hint has no more than a name, which may be that of another sweep.
    hints = [limits.Held(one.name, 4) for one in others]
    assert limits.over_at_once(next_one, hints) == said
    assert limits.over_at_once(run("bob", 0), hints) == ""


def test_a_limit_counts_what_one_more_would_make() -> None:
    held = [limits.Held("a", 4), limits.Held("b", 8)]
    assert limits.over(limits.Limits(runs=3, chips=16), "alice", held, 4) == ""
    assert limits.over(limits.Limits(runs=2), "alice", held, 4) == (
        "limit of alice: 2 runs at a time"
    )
    assert limits.over(limits.Limits(chips=15), "alice", held, 4) == (
        "limit of alice: 15 chips at a time"
    )
