# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chip hours of a person: the chips of a slice, times the hours for which a run had it. No I/O.

Each state has the uses of the run until now, so a list of all runs has those of a person: runs that
ended less than KEPT ago are in it. Times are those of the slices' clocks.
"""

from __future__ import annotations

from collections.abc import Iterable

from .limits import WINDOW, Limits
from .objects import MOST_CHIP_SECONDS, MOST_SECOND, MOST_USES, Submitted

HOUR, DAY = 3600.0, 86400.0
_STEPS = 40
Use = tuple[int, int, int]
"""The first and the last second, and chip seconds in between."""


def uses_of(run: Submitted, now: float) -> tuple[Use, ...]:
    """Return the uses of a run, with that by its present owner until now."""
    if run.owner is None or run.started_at is None:
        return run.used
    start = int(run.started_at)
    end = min(MOST_SECOND, max(start, int(now)))
    return (*run.used, (start, end, min(MOST_CHIP_SECONDS, run.owner.chips * (end - start))))


def noted(run: Submitted, now: float) -> tuple[Use, ...]:
    """Return the uses of a run that its owner leaves now, as few as a state may have."""
    found = sorted(uses_of(run, now))
    if len(found) > MOST_USES:
        found = [one for one in found if one[1] > now - WINDOW]
    while len(found) > MOST_USES:
        one, other = found[:2]
        both = min(MOST_CHIP_SECONDS, one[2] + other[2])
        found[:2] = [(one[0], max(one[1], other[1]), both)]
    return tuple(found)


def used(uses: Iterable[Use], since: float, until: float) -> float:
    """Return the chip hours of uses between two times."""
    return sum(_part(use, since, until) for use in uses) / HOUR


def _part(use: Use, since: float, until: float) -> float:
    start, end, seconds = use
    inside = min(end, until) - max(start, since)
    return seconds * inside / (end - start) if inside > 0 else 0.0


def over(limits: Limits, person: str, runs: Iterable[Submitted], now: float) -> str:
    """Return why a person begins no run now, by all runs; empty if the hours are not used up."""
    most = limits.chip_hours
    if most is None:
        return ""
    uses = [use for run in runs if run.person == person for use in uses_of(run, now)]
    found = used(uses, now - limits.window, now)
    if found < most:
        return ""
    wait = _until_below(uses, most, limits.window, now)
    days = f"{limits.window / DAY:g} days"
    return f"{person} used {found:.0f} of {most} chip hours in {days}; fewer in {_words(wait)}"


def _until_below(uses: Iterable[Use], most: float, window: float, now: float) -> float:
    """Return after how many seconds less than that is in the window, if nothing is added."""
    known = list(uses)
    least, enough = 0.0, window
    for _ in range(_STEPS):
        middle = (least + enough) / 2
        is_below = used(known, now + middle - window, now) < most
        least, enough = (least, middle) if is_below else (middle, enough)
    return enough


def _words(seconds: float) -> str:
    """Return a time in words, rounded up."""
    if seconds <= HOUR:
        return f"{-(-int(seconds) // 60) or 1} min"
    if seconds <= 2 * DAY:
        return f"{-(-int(seconds) // int(HOUR))} h"
    return f"{-(-int(seconds) // int(DAY))} days"
