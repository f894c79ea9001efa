"""A queue of submitted runs, whatever happens: each done once, by one at a time, in turn."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import queue_costs as costs
from ansible_collections.tpu.fleet.plugins.module_utils._queue import (
    claims,
    hours,
    leading,
    limits,
    objects,
    order,
    tending,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue, Seen
from memory_bucket import MemoryBucket
from queue_costs import Requests
from simulation.queue_world import QueueWorld, Shape, worlds

PARTS = 2
RUNS = int(os.environ["TPU_FLEET_PROPERTY_RUNS"])
SEED = int(os.environ["TPU_FLEET_PROPERTY_SEED"])
LARGE = Shape(
    *(10_000, 200),
    trouble=8000.0,
    work=(60.0, 600.0),
    tick=5.0,
    bell=30.0,
    look=60.0,
    tend=3600.0,
    between=4000.0,
    batch=500,
    limit=limits.Limits(runs=80),
)
SMALL = Shape(8, 2, trouble=1500.0, between=90.0)
RACES = Shape(16, 6, trouble=3600.0, work=(30.0, 200.0), bell=1.0)
BY_TIME = Shape(6, 6, trouble=4000.0, work=(300.0, 2500.0), tend=60.0, take_after=True)
MEDDLED = Shape(15, 3, trouble=2500.0, work=(60.0, 300.0), meddle=0.6)
RETRIED = Shape(24, 3, trouble=4000.0, work=(200.0, 600.0), tend=3000.0, meddle=0.8)
STOPPED = Shape(12, 4, trouble=400.0, work=(300.0, 900.0), between=1e9, meddle=0.6)
LIMITED = replace(RACES, limit=limits.Limits(runs=1))
LINE = Shape(60, 1, trouble=6000.0, work=(20.0, 60.0), between=1e9, limit=limits.NO_LIMITS)
ZOMBIES = Shape(
    *(40, 6), trouble=6000.0, work=(30.0, 120.0), tend=60.0, between=100.0, take_after=True
)
ARMS = replace(RACES, batch=5, at_once=2, limit=limits.NO_LIMITS)
RESERVED = replace(SMALL, reserved=True)
HOURS = Shape(
    *(15, 3),
    trouble=5000.0,
    work=(200.0, 700.0),
    batch=3,
    limit=limits.Limits(chip_hours=1, window=3000.0),
    has_jumps=False,
)
RULED = replace(HOURS, at_once=1, reserved=True)
SHAPES = (Shape(), SMALL, RACES, BY_TIME, MEDDLED, LIMITED, LINE, ZOMBIES, ARMS, RULED)
WORLDS = 1000 if RUNS > 1000 else len(SHAPES)
Break = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("part", range(PARTS))
def test_each_run_is_done_once_by_one_at_a_time_and_in_turn(part: int) -> None:
    for number in range(part, WORLDS, PARTS):
        seed = SEED * 1000 + number
        world = QueueWorld(seed, SHAPES[number % len(SHAPES)])
        assert world.live() == [], f"seed {seed}\n{world.told()}"


@pytest.mark.night
@pytest.mark.parametrize("part", range(2))
def test_ten_thousand_runs_on_two_hundred_slices(part: int) -> None:
    """CI has small worlds in its place."""
    world = QueueWorld(SEED * 1000 + part, LARGE)
    assert world.live() == [], f"seed {world.seed}\n{world.told()}"
    assert len(world.truth) >= 10_000


def write_over_any(patch: pytest.MonkeyPatch) -> None:
    real = MemoryBucket.put

    def put(self: Any, name: str, data: bytes, about: Any, *_numbers: Any) -> Any:
        return real(self, name, data, about)

    patch.setattr(MemoryBucket, "put", put)


def take_every_state_for_its_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queue, "_by_nonce", lambda self, new: self._found(new.name))


def run_on_without_a_renewal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claims.Lease, "left", lambda _self, _now: 1.0)


def count_the_lease_from_the_answer(patch: pytest.MonkeyPatch) -> None:
    real = claims.Lease.renewed
    patch.setattr(claims.Lease, "renewed", lambda self, _sent: real(self, 1e9))


def wait_for_a_minute_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claims, "LOST", 60.0)
    patch.setattr(
        claims, "silent", lambda owner, seconds, after: "silent" if after and seconds > 60 else ""
    )


def take_from_one_that_renewed(patch: pytest.MonkeyPatch) -> None:
    real = claims.Silence.of
    patch.setattr(
        claims.Silence,
        "of",
        lambda self, run, generation, _beats, sent, got: real(self, run, generation, 0, sent, got),
    )


def take_without_evidence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claims, "recreated", lambda _owner, _here: "gone")


def ask_the_api_before_the_bucket(patch: pytest.MonkeyPatch) -> None:
    real = Queue.tend

    def tend(self: Any, *words: Any, nodes: Any = None, **more: Any) -> Any:
        known: dict[str, Node | None] = getattr(self, "known", {})
        listing = real(self, *words, nodes=lambda owner: known.get(owner.slice), **more)
        owners = [run.owner for run in listing.states if run.owner] if nodes else []
        self.known = {owner.slice: nodes(owner) for owner in owners}
        return listing

    patch.setattr(Queue, "tend", tend)
    patch.setattr(
        claims,
        "gone_by_api",
        lambda owner, node: "" if node.state == "READY" else f"{owner.slice} is gone",
    )


def adopt_what_anybody_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queue, "adopt", lambda self, name, _owner: self._found(name))
    patch.setattr(Queue, "renew", lambda _self, mine: mine)


def end_what_is_anothers(patch: pytest.MonkeyPatch) -> None:
    real = Queue._swapped

    def swapped(self: Any, new: Any, before: Any, exact: bool = False) -> Any:
        done = real(self, new, before, exact)
        if done is None and new.state in objects.ENDED:
            return real(self, new, self._found(new.name))
        return done

    patch.setattr(Queue, "_swapped", swapped)


def overlook_wishes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queue, "wish", lambda _self, _run: None)


def stop_what_was_retried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queue, "wish", lambda self, run: self._wish(run.name)[0])
    patch.setattr(tending, "_concerns", lambda _wish, run: run.is_open)


def overlook_what_is_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(order, "held_back", lambda _run, _states: "")


def look_at_limits_before_the_claim_only(patch: pytest.MonkeyPatch) -> None:
    real = Queue.over_limit

    def over_limit(self: Any, run: Any, limit: Any, chips: int, holds: Any = None) -> str:
        return "" if holds is None else real(self, run, limit, chips, holds)

    patch.setattr(Queue, "over_limit", over_limit)


def overlook_the_maximum_of_a_sweep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "over_at_once", lambda _run, _held: "")


def take_what_is_not_for_a_slice(patch: pytest.MonkeyPatch) -> None:
    real = order.unfit
    patch.setattr(order, "unfit", lambda run, slice_: real(run, replace(slice_, reserved=None)))


def note_no_hours(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hours, "noted", lambda run, _now: run.used)


def count_the_hours_of_what_has_ended_only(patch: pytest.MonkeyPatch) -> None:
    real = hours.over

    def over(limit: Any, person: str, runs: Any, now: float) -> str:
        return real(limit, person, [run for run in runs if not run.is_open], now)

    patch.setattr(hours, "over", over)


def count_hours_by_the_first_list(patch: pytest.MonkeyPatch) -> None:
    real = Queue.over_hours

    def over_hours(self: Any, person: str, limit: Any) -> str:
        kept = self.__dict__.setdefault("kept", self.listed or self.all())
        self.listed = replace(kept, sent=1e12)
        return real(self, person, limit)

    patch.setattr(Queue, "over_hours", over_hours)


def note_no_slice_of_a_person(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queue, "_hold", lambda _self, _run: None)


def let_one_person_go_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "turn_of", lambda person, _priority, _known: PEOPLE.index(person) * 1000)


def count_what_the_machine_did(patch: pytest.MonkeyPatch) -> None:
    real = claims.given_back

    def given_back(run: Any, *words: Any) -> Any:
        back = real(run, *words)
        return back and replace(back, failures=run.failures + 1)

    patch.setattr(claims, "given_back", given_back)


def end_what_is_given_back(state: str) -> Break:
    def end(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(
            claims,
            "given_back",
            lambda run, why, nonce, now, *_words: claims.finished(
                run, claims.Outcome(state, why), nonce, now
            ),
        )

    end.__name__ = f"end_as_{state}_what_is_given_back"
    return end


def repair_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queue, "_tend_hints", lambda *_words: None)


def forget_lost_claims(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queue, "_settle", lambda *_words: None)
    real = Queue._gone

    def gone(self: Any, seen: Seen, listing: Any, by: Any) -> str:
        why = real(self, seen, listing, by)
        return "" if why == leading.LOST_ANSWER else why

    patch.setattr(Queue, "_gone", gone)


def read_no_evidence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queue, "_gone", lambda *_words: "")


def forget_the_claims(patch: pytest.MonkeyPatch) -> None:
    real = claims.given_back

    def given_back(*words: Any) -> Any:
        back = real(*words)
        return back and replace(back, claims=0)

    patch.setattr(claims, "given_back", given_back)


def move_what_was_retried(patch: pytest.MonkeyPatch) -> None:
    def move(self: Any, seen: Seen) -> None:
        text = objects.run_text(seen.run)
        self._bucket.put(f"ended/{seen.run.name}", text.encode(), {"run": text})
        self._bucket.delete(f"runs/{seen.run.name}")

    patch.setattr(Queue, "_move", move)


def look_for_nothing_that_was_moved(patch: pytest.MonkeyPatch) -> None:
    real = MemoryBucket.get
    patch.setattr(
        MemoryBucket, "get", lambda self, name: None if "ended/" in name else real(self, name)
    )


PEOPLE = ("alice", "bob", "zoe")
CROWD = Shape(
    *(40, 12), trouble=2500.0, work=(20.0, 60.0), bell=1.0, batch=7, limit=limits.NO_LIMITS
)
BROKEN: list[tuple[Break, Shape, str, int]] = [
    (write_over_any, CROWD, "was taken from one that has it", 40),
    (end_what_is_given_back(objects.DONE), SMALL, "although its program is not", 1),
    (end_what_is_given_back(objects.FAILED), SMALL, "although its program did not", 1),
    (write_over_any, RACES, "runs twice", 1),
    (take_every_state_for_its_own, RACES, "runs twice", 3),
    (run_on_without_a_renewal, BY_TIME, "runs twice", 1),
    (count_the_lease_from_the_answer, BY_TIME, "runs twice", 1),
    (wait_for_a_minute_only, BY_TIME, "runs twice", 1),
    (take_from_one_that_renewed, BY_TIME, "runs twice", 1),
    (take_without_evidence, SMALL, "runs twice", 1),
    (ask_the_api_before_the_bucket, SMALL, "runs twice", 32),
    (adopt_what_anybody_has, SMALL, "runs twice", 7),
    (end_what_is_anothers, ZOMBIES, "ended twice", 11),
    (overlook_wishes, STOPPED, "went on although it was to be stopped", 2),
    (stop_what_was_retried, RETRIED, "was stopped, which was not asked for", 1),
    (overlook_what_is_before, SMALL, "was done", 9),
    (look_at_limits_before_the_claim_only, LIMITED, "more than the limit", 6),
    (note_no_slice_of_a_person, LIMITED, "more than the limit", 1),
    (look_at_limits_before_the_claim_only, ARMS, "one arm too many", 1),
    (overlook_the_maximum_of_a_sweep, ARMS, "one arm too many", 1),
    (note_no_slice_of_a_person, ARMS, "one arm too many", 1),
    (take_what_is_not_for_a_slice, RESERVED, "slice that is reserved", 1),
    (note_no_hours, HOURS, "chip hours were used up", 1),
    (count_the_hours_of_what_has_ended_only, HOURS, "chip hours were used up", 1),
    (count_hours_by_the_first_list, HOURS, "chip hours were used up", 1),
    (let_one_person_go_first, LINE, "was overtaken", 6),
    (count_what_the_machine_did, SMALL, "was counted that is none", 1),
    (repair_nothing, SMALL, "does not end", 11),
    (forget_lost_claims, SMALL, "does not end", 24),
    (read_no_evidence, SMALL, "does not end", 1),
    (move_what_was_retried, MEDDLED, "does not end", 91),
    (look_for_nothing_that_was_moved, MEDDLED, "does not end", 89),
    (forget_the_claims, SMALL, "goes back", 1),
]


@pytest.mark.parametrize(
    ("broken", "shape", "words", "first"),
    BROKEN,
    ids=[f"{b.__name__}-{words.split()[-1]}" for b, _shape, words, _ in BROKEN],
)
def test_what_is_broken_is_found(
    broken: Break, shape: Shape, words: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first world that finds it is known, and others follow where it does so no longer."""
    broken(monkeypatch)
    found = worlds(range(first, first + 60), shape, words)
    assert found is not None, f"no world broke the rule: {words}"
    print(f"seed {found.seed}")


def asked_and_expected(shape: Shape) -> tuple[Requests, Requests]:
    """Return what was asked in a world without trouble, and what queue_costs.py has for that."""
    world = QueueWorld(1, shape)
    assert world.live() == []
    runs = world.rules.states.values()
    busy = sum((run.ended_at or 0.0) - (run.started_at or 0.0) for run in runs)
    idle = len(world.slices) * world.clockwork.now - busy
    tended = costs.of_tending(len(runs)).times(world.clockwork.now / (shape.tend / 2))
    count = world.bucket.asked
    asked = Requests(count["put"] + count["patch"] + count["list"], count["get"])
    once = costs.of_run().times(len(runs))
    parts = (costs.of_idle_slice(idle, len(runs)), costs.of_busy_slice(busy), once)
    return asked, tended.plus(*parts)


MONTHLY = Shape(
    *(6, 2),
    trouble=7000.0,
    work=(600.0, 1800.0),
    bell=claims.LISTEN,
    look=claims.LOOK,
    tend=claims.TEND,
    meddle=0.0,
    limit=limits.Limits(runs=9),
    is_calm=True,
    take_after=False,
)


@pytest.mark.parametrize(
    "shape",
    [
        MONTHLY,
        pytest.param(
            replace(MONTHLY, runs=240, slices=20, trouble=80_000.0, work=(1800.0, 7200.0)),
            marks=pytest.mark.night,
        ),
    ],
    ids=["hours", "a day on 20 slices"],
)
def test_what_is_asked_costs_what_is_said(shape: Shape) -> None:
    asked, expected = asked_and_expected(shape)
    assert asked.dollars == pytest.approx(expected.dollars, rel=0.1)
    assert asked.a == pytest.approx(expected.a, rel=0.15)
    assert asked.b == pytest.approx(expected.b, rel=0.15)
