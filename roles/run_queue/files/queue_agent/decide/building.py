"""When a slice builds a venv that the next run needs, and for how long it is kept for that run.

A run is taken only where its venv stands on all workers. So it can begin elsewhere all the time,
and a build that fails is no failure of the run. Meanwhile the slice takes no later run, so that
none overtakes the first in turn because that needs a build.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from ..shared._queue.saying import Said
from .messages import BUILT, NOT_BUILT, Report

WAIT, SPREAD = 20.0, 10.0
"""Seconds in which a slice that has the venv may take the run, before this one builds.

Of the spread each slice draws a part, so that the first that builds is seen by the others.
"""
HOLD = 900.0
"""Seconds of a build after which this slice takes later runs."""
STALE = 180.0
"""Seconds after which a slice that has not said again that it builds does not count."""
PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds until a build that failed is tried again: each time twice as many, up to the longest."""


@dataclass(frozen=True)
class Need:
    """The first run in turn whose venv is not known to stand on all workers."""

    run: str
    venv: str
    due: float
    """When its build begins."""


@dataclass(frozen=True)
class Failure:
    """A build that failed, for a run."""

    run: str
    why: str
    until: float
    times: int


class Builds:
    """What the leader knows of the venvs that are built on need. `now` is of a monotonic clock."""

    def __init__(self, slice_name: str, chance: random.Random | None = None) -> None:
        self.need: Need | None = None
        self._chance = chance or random.Random()  # noqa: S311 - which of two is first
        self._slice = slice_name
        self._begun: float | None = None
        self._built: set[str] = set()
        self._failures: dict[str, Failure] = {}
        self._heard: dict[str, tuple[int, float]] = {}
        self._met = False

    @property
    def ordered(self) -> str:
        """Return the venv that all workers are to build; empty if none."""
        return self.need.venv if self.need and self._begun is not None else ""

    # A look at what waits

    def look(self) -> None:
        """Begin a look at what waits, the next first."""
        self._met = False

    def failed(self, now: float) -> frozenset[str]:
        """Return the venvs whose build is not tried again yet."""
        return frozenset(venv for venv, one in self._failures.items() if now < one.until)

    def is_built(self, venv: str, is_here: bool) -> bool:
        """Return whether a venv is known to stand on all workers. `is_here` is of worker 0."""
        if not is_here:
            self._built.discard(venv)
        return venv in self._built

    def keeps(self, run: str, venv: str, now: float) -> bool:
        """Note that a run needs a venv; say whether the slice is kept for it."""
        if self._met:
            return False
        self._met = True
        before = self.need
        if before is None or before.venv != venv:
            due = now + WAIT + self._chance.uniform(0, SPREAD)
            self.need, self._begun = Need(run, venv, due), None
        elif before.run != run:
            self.need = Need(run, venv, before.due)
        return self._begun is None or now - self._begun < HOLD

    def looked(self) -> None:
        """End a look: what it has not met is needed no more. The machines end what they build."""
        if not self._met:
            self.need = self._begun = None

    def is_due(self, is_here: bool, now: float) -> bool:
        """Return whether the build begins; where worker 0 has the venv, it only asks the others."""
        if self.need is None or self._begun is not None:
            return False
        return is_here or now >= self.need.due

    # Other slices

    def builder(
        self, run: str, said: Mapping[str, Said], now: float, gives_way: bool = False
    ) -> str:
        """Return another slice that builds for a run; empty if none does.

        A slice that `gives_way` has begun at the same time: then only one before it in the
        alphabet counts, so that one of them goes on.
        """
        for name, one in said.items():
            is_other = name < self._slice if gives_way else name != self._slice
            builds = one.doing.run == run and bool(one.doing.venv)
            if is_other and builds and self._is_fresh(name, one.generation, now):
                return name
        return ""

    def _is_fresh(self, name: str, generation: int, now: float) -> bool:
        """Return whether a slice has said something lately, by this one's own clock."""
        known, at = self._heard.get(name, (-1, now))
        if known != generation:
            self._heard[name] = generation, now
            return True
        return now - at < STALE

    # The build

    def begin(self, now: float) -> None:
        """Begin to build."""
        self._begun = now

    def leave(self) -> None:
        """Build nothing: another slice does, or this one has a run."""
        self.need = self._begun = None

    def follow(self, reports: Mapping[int, Report], workers: int, now: float) -> str:
        """Return how the build has ended, in words; empty while it goes on.

        `reports` are those of the workers that answer.
        """
        if self.need is None or self._begun is None:
            return ""
        own = {number: one for number, one in reports.items() if one.venv == self.need.venv}
        for number in sorted(own):
            if own[number].build == NOT_BUILT:
                return self._failed(self.need, own[number], self._host(number, workers), now)
        if len(own) < workers or any(one.build != BUILT for one in own.values()):
            return ""
        venv = self.need.venv
        self._built.add(venv)
        self._failures.pop(venv, None)
        self.leave()
        return f"venv {venv} is built"

    def _failed(self, need: Need, report: Report, host: str, now: float) -> str:
        before = self._failures.get(need.venv)
        times = before.times + 1 if before else 1
        why = f"build of venv {need.venv} failed on {host}: {report.trouble}"
        pause = min(PAUSE * 2.0 ** (times - 1), LONGEST_PAUSE)
        self._failures[need.venv] = Failure(need.run, why, now + pause, times)
        self.leave()
        return why

    def _host(self, worker: int, workers: int) -> str:
        return self._slice if workers == 1 else f"{self._slice}-w{worker}"

    # What the slice says

    def doing(self, now: float) -> tuple[str, str, str]:
        """Return what it does, the run that this is about, and the venv that it builds."""
        if self.need and self.ordered:
            return f"builds venv {self.need.venv}", self.need.run, self.need.venv
        if self.need:
            why = f"venv {self.need.venv} is not built yet on {self._slice}, which builds it soon"
            return why, self.need.run, ""
        late = [one for one in self._failures.values() if now < one.until]
        return (late[-1].why, late[-1].run, "") if late else ("", "", "")
