"""Which slices the submitted runs that wait need now. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import READY
from ansible_collections.tpu.fleet.plugins.module_utils._queue import hours
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import (
    NO_LIMITS,
    Held,
    Limits,
    over,
    over_at_once,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Submitted
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import (
    Serving,
    held_back,
    in_order,
    unfit,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.accelerators import parse

COMES = frozenset({READY, "coming", "queued", "waiting", "clearing", "unknown"})
"""Phases of a slice that is there, or will be without a person's help."""
UP, RESTS, STUCK = range(3)
"""A slice is there or comes; rests until a run needs it; is asked for and cannot come."""


@dataclass(frozen=True)
class Offer:
    """A slice that serves the queue, as it is now."""

    name: str
    types: tuple[str, ...]
    """That of its node; all that it may get, if it has none."""
    venvs: frozenset[str]
    how: int = UP
    used: bool = False
    """Whether something else than a submitted run occupies it."""
    reserved: frozenset[str] | None = None
    """The people whose runs alone it takes; None: those of all."""

    def type_for(self, run: Submitted) -> str:
        """Return the first of its types on which a run may be; empty if there is none."""
        fit = (kind for kind in self.types if not unfit(run, self._as(kind)))
        return next(fit, "")

    def _as(self, kind: str) -> Serving:
        return Serving(self.name, kind, chips_of(kind), self.venvs, reserved=self.reserved)


class Need(NamedTuple):
    """What a slice is needed for."""

    run: str
    """The first run that has no other slice."""
    waiting: int
    """Runs that wait and fit the slice."""
    type: str

    @property
    def why(self) -> str:
        """Return it in words."""
        wait = "run waits" if self.waiting == 1 else "runs wait"
        return f"{self.waiting} submitted {wait} for {self.type}"


def chips_of(kind: str) -> int:
    """Return the chips of an accelerator type; 0 for an unknown one."""
    known = parse(kind)
    return known.chips if known else 0


def needs(
    runs: Iterable[Submitted], offers: Iterable[Offer], limit: Limits = NO_LIMITS, *, now: float
) -> dict[str, Need]:
    """Return the idle slices that are needed, each for another run, in the order of the queue.

    A slice that is up is preferred to one that rests. A run that is not to start now, because of
    another run or of the limits of its person or sweep, needs none. `now` is in seconds since 1970.
    """
    known = list(runs)
    match = _Match(known, offers, limit, now)
    waiting = [run for run in in_order(known) if not held_back(run, match.states)]
    for run in waiting:
        match.take(run)
    alike = Counter(map(_wish, waiting))
    example = {_wish(run): run for run in waiting}
    return {
        one.name: Need(
            run.name,
            sum(count for wish, count in alike.items() if one.type_for(example[wish])),
            one.type_for(run),
        )
        for one, run in match.found
    }


_Wish = tuple[Sequence[str], Sequence[str], str, str]


def _wish(run: Submitted) -> _Wish:
    return run.slices, run.types, run.venv, run.person


class _Match:
    """Slices that are idle, and the runs for which they are needed."""

    def __init__(
        self, known: Sequence[Submitted], offers: Iterable[Offer], limit: Limits, now: float
    ) -> None:
        self.states = {run.name: run.state for run in known}
        self.found: list[tuple[Offer, Submitted]] = []
        self._limit = limit
        people = {run.person for run in known}
        self._spent = {one for one in people if hours.over(limit, one, known, now)}
        self._held: dict[str, list[Held]] = {}
        owned = {run.owner.slice for run in known if run.owner}
        idle = [one for one in offers if not one.used and one.name not in owned]
        self._idle = sorted(idle, key=lambda one: one.how)
        # Wishes for which no slice is left: there may be thousands of runs of one sweep.
        self._hopeless: set[_Wish] = set()
        for run in known:
            if run.owner:
                self._hold(run, run.owner.chips)

    def take(self, run: Submitted) -> None:
        """Give a run the best idle slice on which it may be."""
        if _wish(run) in self._hopeless or run.person in self._spent:
            return
        fit = next((one for one in self._idle if one.type_for(run)), None)
        if fit is None:
            self._hopeless.add(_wish(run))
            return
        chips = chips_of(fit.type_for(run))
        held = self._held.get(run.person, ())
        if over(self._limit, run.person, held, chips) or over_at_once(run, held):
            return
        self._hold(run, chips)
        self._idle.remove(fit)
        self.found.append((fit, run))

    def _hold(self, run: Submitted, chips: int) -> None:
        self._held.setdefault(run.person, []).append(Held(run.name, chips, run.swept))
