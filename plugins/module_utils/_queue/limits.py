# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of a person and of a sweep at a time, and the turn of a run. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .objects import MOST_TURN, WAITING, Submitted

WINDOW = 7 * 86400.0
"""Seconds in which chip hours count."""


@dataclass(frozen=True)
class Limits:
    """What one person may have; None is no limit."""

    runs: int | None = None
    """At a time."""
    chips: int | None = None
    """At a time."""
    chip_hours: int | None = None
    """In the window: a person who has used them begins no run."""
    window: float = WINDOW

    def counts(self, run: Submitted) -> bool:
        """Say whether it matters for a run what its person has at the time."""
        return (self.runs, self.chips, run.at_once) != (None, None, None)


NO_LIMITS = Limits()


class Held(NamedTuple):
    """A run of a person that has a slice, and the slice's chips."""

    run: str
    chips: int
    swept: tuple[str, float] | None = None
    """As of a state; None: only the name is known."""

    @classmethod
    def of(cls, run: Submitted) -> Held:
        """Return it for a run that has a slice."""
        return cls(run.name, run.owner.chips if run.owner else 0, run.swept)

    def is_with(self, run: Submitted) -> bool:
        """Say whether it is an arm of the same sweep as a run of the same person."""
        if self.swept is None:
            return bool(run.sweep) and self.run.startswith(f"{run.sweep}-")
        return bool(run.sweep) and self.swept == run.swept


def over(limits: Limits, person: str, held: Iterable[Held], chips: int) -> str:
    """Return which limit one more run on so many chips would pass; empty if none."""
    others = list(held)
    if limits.runs is not None and len(others) + 1 > limits.runs:
        return f"limit of {person}: {_counted(limits.runs, 'run')} at a time"
    if limits.chips is not None and sum(one.chips for one in others) + chips > limits.chips:
        return f"limit of {person}: {_counted(limits.chips, 'chip')} at a time"
    return ""


def over_at_once(run: Submitted, held: Iterable[Held]) -> str:
    """Return why one more arm of a sweep would be too many; empty if it would not."""
    if run.at_once is None:
        return ""
    arms = sum(one.is_with(run) for one in held)
    if arms < run.at_once:
        return ""
    return f"{arms} of sweep {run.sweep} run, at most {run.at_once} at once"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def turn_of(person: str, priority: int, known: Iterable[Submitted]) -> int:
    """Return the turn of a person's next run, by the runs that are known, also those that ended.

    It is one more than the person's last one, and at least that of the queue: so the first run of
    each person goes before the second of any. It grows with what is begun, so a run is overtaken
    by a limited number of others, however many are submitted later.
    """
    same = [run for run in known if run.priority == priority]
    own = [run.turn + 1 for run in same if run.person == person]
    return min(MOST_TURN, max([present_turn(same), *own]))


def present_turn(same: Iterable[Submitted]) -> int:
    """Return the turn at which the queue is, of runs of one priority."""
    waiting: list[int] = []
    begun = [0]
    for run in same:
        (waiting if run.state == WAITING else begun).append(run.turn)
    return min([max(begun), *waiting])
