"""When a slice builds a venv for the next run, and when it leaves that to others."""

from __future__ import annotations

import random

import pytest
from queue_agent.decide.building import HOLD, LONGEST_PAUSE, PAUSE, SPREAD, STALE, WAIT, Builds
from queue_agent.decide.messages import BUILDING, BUILT, NOT_BUILT, Report
from queue_agent.shared._queue.objects import Doing
from queue_agent.shared._queue.saying import Said

BEGUN = 1000.0


def look(builds: Builds, *needs: tuple[str, str], now: float = BEGUN) -> list[bool]:
    """Look at runs with their venvs, the next first; return for which the slice is kept."""
    builds.look()
    kept = [builds.keeps(run, venv, now) for run, venv in needs]
    builds.looked()
    return kept


@pytest.fixture
def builds() -> Builds:
    """One that builds jax for lr-1, since BEGUN + WAIT."""
    builds = Builds("pair")
    look(builds, ("lr-1", "jax"))
    builds.begin(BEGUN + WAIT)
    return builds


def report(worker: int, state: str, why: str = "", venv: str = "jax") -> dict[int, Report]:
    return {worker: Report(worker, venv=venv, build=state, trouble=why)}


def test_the_first_that_needs_one_keeps_the_slice_and_after_a_while_it_is_built() -> None:
    builds = Builds("pair")
    assert look(builds, ("lr-1", "jax"), ("lr-2", "jax"), ("big", "torch")) == [True, False, False]
    soon = "venv jax is not built yet on pair, which builds it soon"
    assert builds.doing(BEGUN) == (soon, "lr-1", "")
    assert not builds.is_due(False, BEGUN + WAIT - 1)
    assert builds.is_due(True, BEGUN)
    due = BEGUN + WAIT + SPREAD
    assert look(builds, ("lr-1", "jax"), now=due) == [True]
    assert builds.is_due(False, due)
    assert builds.ordered == ""
    builds.begin(due)
    assert builds.ordered == "jax"
    assert not builds.is_due(False, due + WAIT)


def test_another_run_that_needs_the_same_takes_its_place_and_another_venv_begins_again(
    builds: Builds,
) -> None:
    look(builds, ("lr-2", "jax"), now=BEGUN + 50)
    assert builds.doing(BEGUN + 50) == ("builds venv jax", "lr-2", "jax")
    look(builds, ("big", "torch"), now=BEGUN + 60)
    assert builds.ordered == ""
    assert not builds.is_due(False, BEGUN + 60)
    look(builds)
    assert builds.need is None


def test_a_slice_is_not_kept_for_ever(builds: Builds) -> None:
    assert look(builds, ("lr-1", "jax"), now=BEGUN + WAIT + HOLD - 1) == [True]
    assert look(builds, ("lr-1", "jax"), now=BEGUN + WAIT + HOLD) == [False]
    assert builds.ordered == "jax"


def test_it_stands_when_all_workers_have_it(builds: Builds) -> None:
    first, other = report(0, BUILT), report(1, BUILDING)
    assert builds.follow({**first, **other}, 2, BEGUN) == ""
    assert builds.follow(first, 2, BEGUN) == ""
    assert builds.follow({**first, **report(1, BUILT, venv="torch")}, 2, BEGUN) == ""
    assert not builds.is_built("jax", True)
    assert builds.follow({**first, **report(1, BUILT)}, 2, BEGUN) == "venv jax is built"
    assert builds.is_built("jax", True)
    assert builds.ordered == ""
    assert builds.follow({**first, **other}, 2, BEGUN) == ""
    # An apply has removed it.
    assert not builds.is_built("jax", False)
    assert not builds.is_built("jax", True)


def test_a_build_that_fails_is_tried_again_later_each_time(builds: Builds) -> None:
    now, workers = BEGUN, {**report(0, BUILT), **report(1, NOT_BUILT, "no index")}
    for pause in (PAUSE, 2 * PAUSE, 4 * PAUSE):
        why = "build of venv jax failed on pair-w1: no index"
        assert builds.follow(workers, 2, now) == why
        assert builds.doing(now) == (why, "lr-1", "")
        assert builds.ordered == ""
        assert builds.failed(now + pause - 1) == {"jax"}
        now += pause
        assert builds.failed(now) == frozenset()
        assert builds.doing(now) == ("", "", "")
        look(builds, ("lr-1", "jax"), now=now)
        builds.begin(now)
    for _ in range(20):
        builds.follow(workers, 2, now)
        look(builds, ("lr-1", "jax"), now=now)
        builds.begin(now)
    builds.follow(workers, 2, now)
    assert builds.failed(now + LONGEST_PAUSE - 1) == {"jax"}
    assert builds.failed(now + LONGEST_PAUSE) == frozenset()


def said(name: str, generation: int, run: str = "lr-1", venv: str = "jax") -> dict[str, Said]:
    return {name: Said(Doing(name, "builds", 0.0, 0.0, run, venv), generation)}


def test_another_slice_that_builds_for_the_run_counts_while_it_says_so() -> None:
    builds = Builds("pair")
    assert builds.builder("lr-1", said("pair", 1), 0.0) == ""
    assert builds.builder("lr-1", said("solo", 1, run="lr-2"), 0.0) == ""
    assert builds.builder("lr-1", said("solo", 1, venv=""), 0.0) == ""
    assert builds.builder("lr-1", said("solo", 1), 0.0) == "solo"
    assert builds.builder("lr-1", said("solo", 1), STALE - 1) == "solo"
    assert builds.builder("lr-1", said("solo", 1), STALE) == ""
    assert builds.builder("lr-1", said("solo", 2), STALE) == "solo"


def test_slices_that_see_a_run_at_once_begin_one_after_the_other() -> None:
    dues = set()
    for number in range(20):
        builds = Builds("pair", random.Random(number))  # noqa: S311 - repeatable
        look(builds, ("lr-1", "jax"))
        assert builds.need is not None
        dues.add(round(builds.need.due - BEGUN - WAIT))
    assert len(dues) > 5
    assert dues <= set(range(int(SPREAD) + 1))


def test_of_two_that_begin_at_once_one_gives_way() -> None:
    pair, solo = Builds("pair"), Builds("solo")
    assert pair.builder("lr-1", said("solo", 1), 0.0, gives_way=True) == ""
    assert solo.builder("lr-1", said("pair", 1), 0.0, gives_way=True) == "pair"
