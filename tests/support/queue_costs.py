"""What the requests of a queue cost, by Google's list price for a Standard bucket.

docs/queue.md has these figures, and tests/worlds/property counts the requests.
"""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import PAGE
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import (
    BEAT,
    LISTEN,
    LOOK,
    STOP_LOOK,
    TEND,
)

A_DOLLARS, B_DOLLARS = 0.005 / 1000, 0.0004 / 1000
"""An operation of class A, which writes or lists, and of class B, which reads; deleting is free."""
MONTH = 30.44 * 86400.0
"""Seconds."""


class Requests(NamedTuple):
    """Operations of both classes."""

    a: float
    b: float

    @property
    def dollars(self) -> float:
        """Return their price in US dollars."""
        return self.a * A_DOLLARS + self.b * B_DOLLARS

    def times(self, number: float) -> Requests:
        """Return so many times as many."""
        return Requests(self.a * number, self.b * number)

    def plus(self, *others: Requests) -> Requests:
        """Return these and others."""
        every = (self, *others)
        return Requests(sum(one.a for one in every), sum(one.b for one in every))


def of_idle_slice(seconds: float, runs: int) -> Requests:
    """Return what a slice asks while it waits, with so many runs in the bucket."""
    listens = Requests(0, seconds / LISTEN)
    looks = Requests(seconds / LOOK, 0)
    return listens.plus(looks, of_tending(runs).times(seconds / TEND))


def of_tending(runs: int) -> Requests:
    """Return what one time of tending asks: four lists, that of the runs in pages."""
    return Requests(3 + max(1, -(-runs // PAGE)), 0)


def of_busy_slice(seconds: float) -> Requests:
    """Return what a slice asks while it has a run."""
    return Requests(seconds / BEAT, seconds / STOP_LOOK)


def of_run() -> Requests:
    """Return what a run asks for once: submitted, claimed within a limit, and ended.

    Submitting lists the runs, looks for the name, and writes definition, state, hint and bell. A
    claim lists what waits and twice what its person has, reads state, wish and definition, and
    writes state and hint. The end writes state and bell. Its code is read and written once.
    """
    submitted = Requests(1 + 4 + 1, 1)
    claimed = Requests(3 + 2, 3 + 1)
    ended = Requests(2, 0)
    return submitted.plus(claimed, ended)


def of_rule(seconds: float, every: float) -> Requests:
    """Return what on_result asks for beside an arm: one list each time, and one at its end."""
    return Requests(seconds / every + 1, 0)


def dollars_a_month(slices: int, busy: float, runs: int, kept: int = PAGE) -> float:
    """Return what a queue costs in US dollars, with one watcher.

    `busy` is the share of time in which a slice has a run, `runs` are those of a month, and `kept`
    those that are in the bucket at a time. 20 slices that are busy for 60 % of the time, with 2,000
    runs, cost 21 dollars.
    """
    idle = of_idle_slice((1 - busy) * MONTH, kept).plus(of_busy_slice(busy * MONTH))
    watched = of_tending(kept).times(MONTH / TEND)
    return idle.times(slices).plus(of_run().times(runs), watched).dollars
