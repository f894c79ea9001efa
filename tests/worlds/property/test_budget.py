"""Fleets with a budget, whatever happens: no money beyond it, nothing deleted that a run needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet import spend as spending
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.costs import Cost
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import Spend, SpendBook
from simulation.money import MoneyLife, lives

from tpu_fleet.watch import budget as decisions
from tpu_fleet.watch.purse import Purse

PARTS = 4
# Each lasts two seconds: CI has one of each part, the stage lives 171.
LIVES = max(PARTS, int(os.environ["TPU_FLEET_PROPERTY_RUNS"]) // 56)
SEED = int(os.environ["TPU_FLEET_PROPERTY_SEED"])
Break = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("part", range(PARTS))
def test_no_money_beyond_the_budget_and_nothing_that_a_run_needs(part: int) -> None:
    for number in range(part, LIVES, PARTS):
        seed = SEED * 1000 + number
        life = MoneyLife(seed)
        life.live()
        assert life.broken == [], f"seed {seed}\n{life.params}\n{life.world.story()}"


def forget_the_time_between_looks(patch: pytest.MonkeyPatch) -> None:
    real = spending.counted

    def counted(spend: Spend, rates: Any, silent: Any, now: float) -> Spend:
        return real(replace(spend, at=max(spend.at, now - 10.0)), rates, silent, now)

    patch.setattr(spending, "counted", counted)


def begin_from_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SpendBook, "read", lambda _self: Spend())


def count_what_is_granted(patch: pytest.MonkeyPatch) -> None:
    real = spending.costs_of

    def costs_of(*words: Any) -> list[Cost]:
        return [replace(cost, billed_per_hour=cost.per_hour) for cost in real(*words)]

    patch.setattr(spending, "costs_of", costs_of)


def only_warn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Purse, "acts", property(lambda _self: False))


def create_all_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Purse, "_hold", lambda *_words: None)


def delete_whatever_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "_active", lambda _answers: ())


def overlook_the_own_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "_own_disk", lambda *_words: [])


BROKEN: list[tuple[Break, str]] = [
    (forget_the_time_between_looks, "were counted of"),
    (begin_from_nothing, "were counted of"),
    (count_what_is_granted, "counted of what the grant pays"),
    (only_warn, "costs although"),
    (create_all_the_same, "costs although"),
    (delete_whatever_runs, "while its run was running"),
    (overlook_the_own_disk, "with the checkpoints of its run"),
]


# CI has these, and the stage broken_worlds all.
IN_CI = (begin_from_nothing, only_warn, delete_whatever_runs)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        pytest.param(
            *case, marks=() if case[0] in IN_CI else pytest.mark.night, id=case[0].__name__
        )
        for case in BROKEN
    ],
)
def test_what_is_broken_is_found(
    broken: Break, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)

    def found(said: list[str]) -> bool:
        return any(words in text for text in said)

    seeds: Iterator[int] = iter(range(SEED * 1000, SEED * 1000 + 60))
    assert lives(seeds, found) is not None, f"no life broke the rule: {words}"
