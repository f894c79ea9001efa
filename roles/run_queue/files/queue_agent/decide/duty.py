"""What becomes of the run that a slice has taken: its end, and what all workers are to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from run_agent.decide.values import is_whole

from ..shared._host.run_states import FAILED as RUN_FAILED
from ..shared._host.run_states import SUCCEEDED
from ..shared._queue.claims import Outcome
from ..shared._queue.objects import DONE, FAILED, STOPPED, one_line
from .messages import HOLD, NONE, RUN, STARTED, STOP, Order, Report

PATIENCE = 120.0
"""Seconds that a worker may be unable to install a run, until another slice may try."""
_STILL = 60.0
"""Seconds above its grace that the programs of a run may take to end."""


@dataclass(frozen=True)
class Ending:
    """How a run ends here: with an outcome, or without one for another slice to go on."""

    state: str
    """DONE, FAILED or STOPPED; empty: it is given back."""
    reason: str = ""
    exit_code: int | None = None
    is_over: bool = False
    """Whether its programs have ended already."""

    def outcome(self, attempt: int, failures: int) -> Outcome:
        """Return what is written, with the number of the last attempt and of all failures."""
        return Outcome(self.state, self.reason, self.exit_code, attempt, failures)


@dataclass(frozen=True)
class Duty:
    """The run that this slice has taken; kept over restarts and reboots."""

    run: str
    definition: str
    claim: int
    person: str
    grace: float = 30.0
    max_hours: int | None = None
    user: str = ""
    code: str = ""
    """The SHA-256 of its code; empty: none."""
    attempt: int = 0
    """The last one that was seen."""
    failures_before: int = 0
    """Of its program in this round, when the slice took it."""
    failures: int = 0
    """The same with those that were seen here."""
    ending: Ending | None = None

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Duty | None:
        """Read what was kept; None if there is nothing."""
        if not found.get("run"):
            return None
        known = {key: found[key] for key in cls.__dataclass_fields__ if key in found}
        ending = known.pop("ending", None)
        return cls(**known, ending=Ending(**ending) if ending else None)

    def to_json(self) -> dict[str, Any]:
        """Return what is kept."""
        return asdict(self)

    def order(self, is_sure: bool, may_run: bool) -> Order:
        """Return what all workers are to do."""
        if not is_sure:
            return Order(HOLD)
        phase = RUN if may_run and self.ending is None else STOP
        return Order(phase, self.run, self.definition, self.claim, self.failures_before)


NO_DUTY = Order(NONE)


@dataclass(frozen=True)
class Facts:
    """What worker 0 sees while it has a run."""

    status: Mapping[str, Any]
    """Of the run's agent here, if it is about this claim; else empty."""
    reports: Mapping[int, Report]
    """Of the workers that answer."""
    workers: int
    wish: str = ""
    """Why a wish in the bucket stops it; or empty."""
    stopped_by: str = ""
    """The person who stopped it on this machine; or empty."""
    leaving: str = ""
    """Why the machine, or the slice, has no time left for it."""
    hours: float = 0.0
    """Since the slice took it."""
    hindered: float = 0.0
    """Seconds for which a worker has been unable to start it."""


def ending_of(duty: Duty, facts: Facts) -> Ending | None:
    """Return how the run ends; None if it goes on."""
    state = facts.status.get("state")
    if state == SUCCEEDED:
        return Ending(DONE, exit_code=0, is_over=True)
    if state == RUN_FAILED:
        return Ending(FAILED, _why(facts.status), _code(facts.status.get("exit_code")), True)
    if facts.wish:
        return Ending(STOPPED, one_line(facts.wish))
    if facts.stopped_by:
        return Ending(STOPPED, f"stopped by {one_line(facts.stopped_by, 60)}")
    if duty.max_hours is not None and facts.hours >= duty.max_hours:
        return Ending(FAILED, f"it ran for {duty.max_hours} h, which is its max_hours")
    if facts.leaving:
        return Ending("", facts.leaving)
    return _hindrance(facts)


def _hindrance(facts: Facts) -> Ending | None:
    troubled = [one for one in facts.reports.values() if one.problem]
    for one in troubled:
        if one.final:
            return Ending(FAILED, one.problem)
    if troubled and facts.hindered > PATIENCE:
        return Ending("", f"worker {troubled[0].worker}: {troubled[0].problem}")
    return None


def _why(status: Mapping[str, Any]) -> str:
    reason = str(status.get("reason") or "its program failed")
    words = str(status.get("last_words") or "")
    return one_line(f"{reason}: {words}" if words else reason)


def _code(value: Any) -> int | None:
    return value if is_whole(value) and -255 <= value <= 255 else None


def is_still(duty: Duty, facts: Facts, seconds: float) -> bool:
    """Return whether no program of the run is alive any more, as far as can be waited for.

    A worker that does not answer has ended its program, because worker 0 is silent for it as well.
    `seconds` is for how long the run has been ending.
    """
    if duty.ending is not None and duty.ending.is_over:
        return True
    alive = facts.status.get("program") == "running"
    order = Order(STOP, duty.run, duty.definition, duty.claim)
    started = [one for one in facts.reports.values() if one.is_of(order) and one.state == STARTED]
    return not (alive or started) or seconds > duty.grace + _STILL


def seen(duty: Duty, facts: Facts) -> Duty:
    """Return the duty with the attempt and the failures that are seen now."""
    attempt, failures = facts.status.get("attempt"), facts.status.get("failures")
    return replace(
        duty,
        attempt=max(duty.attempt, attempt) if is_whole(attempt) else duty.attempt,
        failures=failures if is_whole(failures) and failures >= 0 else duty.failures,
    )
