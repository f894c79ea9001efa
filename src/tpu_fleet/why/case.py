"""The case: what each worker shows of a run, and what is found in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import Evidence

from .causes import CAUSES, FINE, Cause
from .frames import Stand
from .stand import Standing, standing_of

LEAST_QUIET = 15.0
"""Seconds without a step after which a run with fast steps is called quiet."""
QUIET_STEPS = 10.0
"""Usual steps after which a run without one is called quiet."""
QUIET = 60.0
"""Seconds without a sign of progress, where no usual step is known."""


@dataclass(frozen=True)
class Worker:
    """A worker of the run, with its evidence, or why there is none."""

    number: int
    host: str
    evidence: Evidence | None = None
    absent: str = ""
    lack: str = "no_answer"
    """The cause of that, a key of CAUSES."""
    address: str = ""
    """Its internal address, for the command that opens a port."""

    @cached_property
    def standing(self) -> Standing:
        """Where its program stands."""
        return standing_of(self.evidence) if self.evidence else Standing()

    @property
    def stand(self) -> Stand:
        """Where the main thread of its program stands."""
        return self.standing.stand

    @property
    def has_program(self) -> bool:
        """Whether a process of the run lives there."""
        return bool(self.evidence and self.evidence.processes)

    @property
    def quiet_s(self) -> float | None:
        """Seconds since its last sign of progress: a step, its start, or else a line."""
        if self.evidence is None:
            return None
        run = self.evidence.run
        sign = run.step_age_s if run.step is not None else run.log_age_s
        known = [one for one in (sign, run.started_age_s) if one is not None]
        return min(known, default=run.log_age_s)

    @property
    def began(self) -> bool:
        """Whether it has made a step in this attempt."""
        run = self.evidence.run if self.evidence else None
        if run is None or run.step is None or run.step_age_s is None:
            return False
        return run.started_age_s is None or run.step_age_s < run.started_age_s


@dataclass(frozen=True)
class Case:
    """One look at all workers of a run on a slice."""

    run: str
    slice: str
    workers: tuple[Worker, ...]

    @property
    def seen(self) -> list[Worker]:
        """The workers that gave evidence."""
        return [one for one in self.workers if one.evidence is not None]

    @property
    def working(self) -> list[Worker]:
        """The workers on which the program lives."""
        return [one for one in self.seen if one.has_program]

    @property
    def usual_s(self) -> float | None:
        """Seconds that a step takes usually; None if that is not known."""
        known = [one.evidence.run.step_s for one in self.seen if one.evidence]
        found = [one for one in known if one]
        return median(found) if found else None

    @property
    def quiet_s(self) -> float | None:
        """Seconds since the last sign of progress of any worker."""
        known = [one.quiet_s for one in self.working]
        return min((one for one in known if one is not None), default=None)

    @property
    def began(self) -> bool:
        """Whether a worker has made a step in this attempt."""
        return any(one.began for one in self.working)

    @property
    def is_quiet(self) -> bool:
        """Whether the run has made no progress for longer than is usual."""
        quiet, usual = self.quiet_s, self.usual_s
        limit = max(LEAST_QUIET, QUIET_STEPS * usual) if usual and self.began else QUIET
        return quiet is not None and quiet > limit

    @property
    def steps(self) -> list[int]:
        """The steps that the workers have come to."""
        known = [one.evidence.run.step for one in self.working if one.evidence]
        return sorted(step for step in known if step is not None)

    def others(self, those: Iterable[Worker]) -> list[Worker]:
        """Return the working ones without some."""
        numbers = {one.number for one in those}
        return [one for one in self.working if one.number not in numbers]


@dataclass(frozen=True)
class Finding:
    """Something that the evidence shows; the first of all is the answer."""

    key: str
    """Its cause, a key of CAUSES."""
    text: str
    """A sentence, without its first capital letter and its full stop."""
    workers: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    since_s: float | None = None
    """For how many seconds it has been so."""
    fields: dict[str, str] = field(default_factory=dict)
    """What the remedy names: `run`, `host`, `pid` and others."""
    bonus: int = 0
    """What this evidence adds to the weight of its cause."""

    @property
    def cause(self) -> Cause:
        """What is known of its cause."""
        return CAUSES[self.key]

    @property
    def sentence(self) -> str:
        """The sentence, for people; the name of a run keeps its letters."""
        if self.text.startswith(f"{self.fields.get('run')} "):
            return f"{self.text}."
        return f"{self.text[:1].upper()}{self.text[1:]}."

    @property
    def remedy(self) -> str:
        """What a person does about it; empty if nothing needs to be done."""
        return _filled(self.cause.remedy, self.fields)

    @property
    def command(self) -> str:
        """The command for that; empty if there is none."""
        return _filled(self.cause.command, self.fields)

    @property
    def order(self) -> tuple[int, int]:
        """The sort key: the most urgent first, of these the most certain."""
        return (self.cause.grade, -self.cause.weight - self.bonus)


def _filled(template: str, fields: dict[str, str]) -> str:
    """Fill a template in; without one of its fields there is no text."""
    names = re.findall(r"\{(\w+)\}", template)
    return template.format_map(fields) if all(fields.get(name) for name in names) else ""


@dataclass(frozen=True)
class Verdict:
    """The answer for a run on a slice."""

    case: Case
    findings: tuple[Finding, ...]
    """The answer first, then what else was seen, the most important first."""

    @property
    def answer(self) -> Finding:
        """The one sentence."""
        return self.findings[0]

    @property
    def more(self) -> Sequence[Finding]:
        """What else was seen."""
        return self.findings[1:]

    @property
    def is_fine(self) -> bool:
        """Whether nothing is wrong."""
        return self.answer.cause.grade >= FINE
