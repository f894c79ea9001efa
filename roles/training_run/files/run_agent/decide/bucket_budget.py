"""How often a bucket is looked at, so that a run's requests cost no more than was set. Pure.

The prices are Google's list prices for a Standard bucket in one region, in US dollars: a list is an
operation of class A, a look at one object of class B.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

LIST_DOLLARS = 0.005 / 1000
GET_DOLLARS = 0.0004 / 1000
MONTH = 30.44 * 86400.0
"""Seconds."""
MOST_DOLLARS = 0.25
"""What the requests of a run cost at most in a month: its looks, and its fence."""
FENCE_SECONDS = 10.0
"""From one read of the fence to the next, by one worker of the run."""
MOST_PAUSE = 900.0
"""Seconds between two looks while a bucket refuses; requests may have to be paid by more."""


PARTS = 5
"""In how many pauses a look that came early is paid for."""


@dataclass(frozen=True)
class Debt:
    """By how many seconds a look came early, of which the pauses after it make up."""

    seconds: float = 0.0
    parts: int = 0

    def after(self, early: float) -> Debt:
        """Return the debt when a look begins so many seconds early; negative is late."""
        return Debt(self.seconds + early, PARTS) if early > 0 else self

    def paid(self) -> tuple[float, Debt]:
        """Return the seconds that one pause makes up, and what is left."""
        if self.parts <= 1:
            return self.seconds, Debt()
        part = self.seconds / self.parts
        return part, replace(self, seconds=self.seconds - part, parts=self.parts - 1)


def dollars(lists: int, gets: int) -> float:
    """Return what requests cost."""
    return lists * LIST_DOLLARS + gets * GET_DOLLARS


def pause(spent: float, dollars_a_month: float, least: float, failures: int = 0) -> float:
    """Return the seconds from one look to the next.

    `spent` is what the last look cost, `least` the shortest pause, and `failures` how many looks
    failed one after the other.
    """
    again = min(max(least, MOST_PAUSE), least * 2.0 ** min(failures, 10))
    return max(spent / dollars_a_month * MONTH, again)
