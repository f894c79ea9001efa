# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which run is next for a slice, and why each of the others waits. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from . import hours
from .limits import NO_LIMITS, Held, Limits, over, over_at_once
from .objects import DONE, ENDED, WAITING, Submitted

MOST_SHOWN = 4
"""Slices, or types, that a reason names."""
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)


@dataclass(frozen=True)
class Serving:
    """A slice that serves the queue, as far as it is known."""

    name: str
    type: str
    """Its accelerator type."""
    chips: int
    venvs: frozenset[str] | None = None
    """The environments that are declared for it; None: not known, so any."""
    busy: str = ""
    """Why it takes no run now: a run's name, or words such as "recreated"; empty: it is idle."""
    reserved: frozenset[str] | None = None
    """The people whose runs alone it takes; None: those of all."""

    def keeps_out(self, person: str) -> str:
        """Return why it takes no run of a person; empty if it does."""
        if self.reserved is None or person in self.reserved:
            return ""
        return f"{self.name} is reserved for {_some(sorted(self.reserved), 'and')}"


class Place(NamedTuple):
    """Where a run stands in the queue."""

    position: int
    """1 is the next of those that could run on some slice; 0: it cannot be taken as things are."""
    reason: str
    """Why it waits, for people; never empty."""


def in_order(runs: Iterable[Submitted]) -> list[Submitted]:
    """Return the runs that wait, the next first: by priority, turn, and who asked first."""
    return sorted((run for run in runs if run.state == WAITING), key=key_of)


def key_of(run: Submitted) -> tuple[int, int, float, str, str]:
    """Return by what runs that wait are ordered."""
    return (-run.priority, run.turn, run.submitted_at, run.person, run.name)


def unfit(run: Submitted, slice_: Serving) -> str:
    """Return why a slice can never run this; empty if it can."""
    if run.slices and slice_.name not in run.slices:
        return f"not for {slice_.name}"
    if run.types and slice_.type not in run.types:
        return f"not for {slice_.type}"
    if run.venv and slice_.venvs is not None and run.venv not in slice_.venvs:
        return f"{slice_.name} has no environment {run.venv}"
    return slice_.keeps_out(run.person)


def held_back(run: Submitted, states: Mapping[str, str | None]) -> str:
    """Return which run must be done before; empty if none. `states` has None for an unknown one."""
    for name in run.after:
        state = states.get(name)
        if state is None:
            return f"waits for {name}, which is not in the queue"
        if state in ENDED and state != DONE:
            return f"waits for {name}, which is {state}: retry it, or stop this run"
        if state != DONE:
            return f"waits for {name} to end"
    return ""


def places(
    runs: Iterable[Submitted],
    slices: Iterable[Serving],
    limit: Limits = NO_LIMITS,
    prepared: Mapping[str, str] = MappingProxyType({}),
    *,
    now: float,
) -> dict[str, Place]:
    """Return where each run that waits stands, by all runs and all slices that serve the queue.

    `prepared` has for a run what a slice does for it before it can begin. `now` is in seconds since
    1970.
    """
    known = list(runs)
    serving = list(slices)
    states = {run.name: run.state for run in known}
    held = _held(known)
    spent = {run.person: "" for run in known}
    spent = {person: hours.over(limit, person, known, now) for person in spent}
    busy = _busy(known, serving)
    before: dict[frozenset[str], int] = {}
    kinds: dict[tuple[object, ...], _Fit] = {}
    found = {}
    for run in in_order(known):
        kind = (run.slices, run.types, run.venv, run.person)
        fit = kinds.get(kind) or kinds.setdefault(kind, _Fit.of(run, serving, busy))
        why = (
            held_back(run, states)
            or ("" if fit.names else fit.doing)
            or spent[run.person]
            or over(limit, run.person, held.get(run.person, ()), fit.least)
            or over_at_once(run, held.get(run.person, ()))
        )
        if why:
            found[run.name] = Place(0, why)
            continue
        position = 1 + sum(count for others, count in before.items() if others & fit.names)
        before[fit.names] = before.get(fit.names, 0) + 1
        found[run.name] = Place(
            position, f"{ordinal(position)} in turn; {prepared.get(run.name) or fit.doing}"
        )
    return found


class _Fit(NamedTuple):
    """The slices that can run what asks for the same."""

    names: frozenset[str]
    least: int
    """Chips of the smallest."""
    doing: str
    """What they do; where there is none, what no slice has."""

    @classmethod
    def of(cls, run: Submitted, serving: list[Serving], busy: Mapping[str, str]) -> _Fit:
        fit = [one for one in serving if not unfit(run, one)]
        doing = _slices(fit, busy) if fit else _no_slice(run, serving)
        least = min((one.chips for one in fit), default=0)
        return cls(frozenset(one.name for one in fit), least, doing)


def _held(runs: Iterable[Submitted]) -> dict[str, list[Held]]:
    """Return what each person has."""
    found: dict[str, list[Held]] = {}
    for run in runs:
        if run.owner is not None:
            found.setdefault(run.person, []).append(Held.of(run))
    return found


def _busy(runs: Iterable[Submitted], slices: Iterable[Serving]) -> dict[str, str]:
    """Return why each slice takes no run now."""
    found = {run.owner.slice: run.name for run in runs if run.owner is not None}
    return {**found, **{one.name: one.busy for one in slices if one.busy}}


def _no_slice(run: Submitted, serving: list[Serving]) -> str:
    """Return what no slice that serves the queue has."""
    if not serving:
        return "no slice serves the queue"
    left = [one for one in serving if not run.slices or one.name in run.slices]
    if not left:
        return f"no slice is {_some(run.slices, 'or')}"
    left = [one for one in left if not run.types or one.type in run.types]
    if not left:
        among = f" of {_some(run.slices, 'and')}" if run.slices else ""
        return f"no slice{among} is {_some(run.types, 'or')}"
    others = [one.keeps_out(run.person) for one in left]
    if all(others):
        return "; ".join(others[:MOST_SHOWN])
    return f"no slice has environment {run.venv}"


def _slices(fit: list[Serving], busy: Mapping[str, str]) -> str:
    """Return what the slices do on which a run could be."""
    idle = [one.name for one in fit if one.name not in busy]
    if idle:
        return f"idle: {_some(idle)}"
    types = sorted({one.type for one in fit})
    return "; ".join(
        f"{name} busy: {_some([_doing(one, busy) for one in fit if one.type == name])}"
        for name in types[:MOST_SHOWN]
    )


def _doing(one: Serving, busy: Mapping[str, str]) -> str:
    return f"{one.name} ({busy[one.name]})"


def _some(words: Iterable[str], last: str = "") -> str:
    """Return some words as a list, and how many more there are."""
    every = list(words)
    shown = every[:MOST_SHOWN]
    if len(every) > len(shown):
        return f"{', '.join(shown)} and {len(every) - len(shown)} more"
    if last and len(shown) > 1:
        return f"{', '.join(shown[:-1])} {last} {shown[-1]}"
    return ", ".join(shown)


def ordinal(number: int) -> str:
    """Return first, second, …; above ten 11th, 12th, …"""
    if 0 < number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    teens = 10 < number % 100 < 14
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
