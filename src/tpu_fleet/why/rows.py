"""The table of workers: those in the same state at the same line are one row. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..workers.inventory.hosts import fold
from .case import Verdict, Worker
from .words import doing

SHOWN = {"T": "is stopped", "t": "is held by a debugger", "Z": "has ended"}
"""What a program does in these states of the kernel, whatever its stack says."""


@dataclass(frozen=True)
class Row:
    """Workers that stand alike."""

    hosts: tuple[str, ...]
    state: str
    step: int | None
    age_s: float | None
    """Seconds since the last sign of progress of the first of them to show one."""
    doing: str
    blamed: bool
    """Whether the answer names them."""

    @property
    def names(self) -> str:
        """The workers in short."""
        return fold(self.hosts)


def rows_of(verdict: Verdict) -> list[Row]:
    """Return the rows, those that the answer names first."""
    blamed = set(verdict.answer.workers)
    groups: dict[tuple[str, int | None, str, bool], list[Worker]] = {}
    for one in verdict.case.workers:
        run = one.evidence.run if one.evidence else None
        state = (run.state or "unknown") if run else "no answer"
        key = (state, run.step if run else None, standing(one), one.number in blamed)
        groups.setdefault(key, []).append(one)
    rows = [
        Row(tuple(one.host for one in those), state, step, _least(those), text, is_blamed)
        for (state, step, text, is_blamed), those in groups.items()
    ]
    return sorted(rows, key=lambda row: not row.blamed)


def _least(those: Iterable[Worker]) -> float | None:
    known = [one.quiet_s for one in those]
    return min((one for one in known if one is not None), default=None)


def standing(one: Worker) -> str:
    """Say in few words what a worker does."""
    if one.evidence is None:
        return one.absent
    process = one.standing.process
    if process is None:
        return "has no program" if not one.evidence.error else "its program has failed"
    return SHOWN.get(process.state) or doing(one.stand)
