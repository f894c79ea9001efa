"""Chip hours: what counts, for how long, and what is said when they are used up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import claims, hours, objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import WINDOW, Limits

NOW = 1764413259.0
OWNER = objects.Owner("pair", "us-central2-b", "v4-8", 4, "n-1", "b-1")
LIMIT = Limits(chip_hours=500)


def run(name: str = "a", person: str = "alice", **more: Any) -> objects.Submitted:
    return objects.Submitted(name, "0" * 64, person, 0, 1.0, 1.0, nonce="0" * 32, **more)


def held(since: float, **more: Any) -> objects.Submitted:
    return run(state=objects.RUNNING, owner=OWNER, started_at=since, **more)


def use(begun_ago: float, hours_: float, chips: int = 4) -> hours.Use:
    start = int(NOW - begun_ago * 3600)
    return start, start + int(hours_ * 3600), int(chips * hours_ * 3600)


def test_what_a_slice_had_counts_with_its_chips_and_until_now() -> None:
    uses = hours.uses_of(held(NOW - 7200, used=(use(10, 1),)), NOW)
    assert hours.used(uses, NOW - WINDOW, NOW) == pytest.approx(12)
    assert hours.used(uses, NOW - 3600, NOW) == pytest.approx(4)
    assert hours.uses_of(run(), NOW) == ()


def test_only_the_part_in_the_window_counts() -> None:
    long = use(7 * 24 + 10, 20)
    assert hours.used([long], NOW - WINDOW, NOW) == pytest.approx(40)
    assert hours.used([use(400, 1)], NOW - WINDOW, NOW) == 0


@pytest.mark.parametrize("how", ["given back", "ended"])
def test_each_end_of_a_claim_is_noted(how: str) -> None:
    before = held(NOW - 3600, used=(use(10, 1),))
    if how == "ended":
        after = claims.finished(before, claims.Outcome(objects.DONE), "1" * 32, NOW)
    else:
        after = claims.given_back(before, "preempted", "1" * 32, NOW)
    assert after is not None
    assert after.used == (use(10, 1), use(1, 1))
    assert objects.run_of(objects.run_text(after).encode()) == after
    again = claims.claimed(replace(after, state=objects.WAITING, ended_at=None), OWNER, "", NOW)
    assert again is not None
    assert again.used == after.used


def test_the_hours_stay_where_a_run_is_retried_or_submitted_again() -> None:
    ended = run(state=objects.FAILED, ended_at=NOW, used=(use(2, 1),))
    retried = claims.retried(ended, "alice", 3, "2" * 32, NOW)
    again = claims.submitted_again(ended, run())
    others = claims.submitted_again(ended, run(person="bob"))
    assert retried
    assert again
    assert others
    assert (retried.used, again.used, others.used) == ((use(2, 1),), (use(2, 1),), ())


def test_a_state_has_no_more_uses_than_it_may_and_loses_no_hours_of_the_window() -> None:
    one = run()
    for number in range(60):
        begun = held(NOW + number * 3600, used=one.used)
        back = claims.given_back(begun, "preempted", "1" * 32, NOW + number * 3600 + 1800)
        assert back is not None
        one = back
    assert len(one.used) == objects.MOST_USES
    until = NOW + 60 * 3600
    assert hours.used(one.used, until - WINDOW, until) == pytest.approx(120)
    assert hours.used(one.used, until - 5 * 3600, until) == pytest.approx(10)
    assert objects.run_text(one)


def test_a_clock_that_went_back_makes_no_use() -> None:
    assert hours.used(hours.uses_of(held(NOW + 900), NOW), NOW - WINDOW, NOW + 999) == 0


@pytest.mark.parametrize(
    ("uses", "said"),
    [
        ([use(100, 64, 8)], "alice used 512 of 500 chip hours in 7 days; fewer in 3 days"),
        (
            [use(167, 25, 20), use(60, 3)],
            "alice used 512 of 500 chip hours in 7 days; fewer in 2 h",
        ),
        ([use(167, 25, 20)], "alice used 500 of 500 chip hours in 7 days; fewer in 1 h"),
        ([use(100, 60, 8)], ""),
        ([use(500, 300, 8)], ""),
    ],
)
def test_what_is_said(uses: list[hours.Use], said: str) -> None:
    runs = [run(used=tuple(uses)), run("b", "bob", used=(use(50, 50, 99),))]
    assert hours.over(LIMIT, "alice", runs, NOW) == said
    assert hours.over(Limits(runs=1), "bob", runs, NOW) == ""


def test_many_runs_are_counted_in_a_moment() -> None:
    many = [run(f"r-{number}", used=(use(90, 1),) * 3) for number in range(10_000)]
    assert "fewer in" in hours.over(LIMIT, "alice", many, NOW)
