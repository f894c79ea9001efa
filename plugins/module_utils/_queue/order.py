# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which run is next for a slice, and why each of the others waits. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .limits import NO_LIMITS, Limits
from .objects import DONE, ENDED, WAITING, Submitted


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
    return ""


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
    runs: Iterable[Submitted], slices: Iterable[Serving], limit: Limits = NO_LIMITS
) -> dict[str, Place]:
    """Return where each run that waits stands, by all runs and all slices that serve the queue."""
    raise NotImplementedError
