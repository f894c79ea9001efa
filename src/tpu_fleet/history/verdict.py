"""What a time was like, in a sentence: what failed, what was lost. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.tpu.fleet.plugins.module_utils._core.durations import long
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import FAILED

from .causes import (
    CRASHED,
    FENCED,
    HUNG,
    LOST,
    MAINTENANCE,
    OTHER,
    OWN_DISK,
    PREEMPTED,
    REBOOTED,
    TERMINAL,
    WANTED,
    of_checkpoints,
)
from .story import Attempt, RunStory

COUNTED = {
    PREEMPTED: ("preemption", "preemptions"),
    CRASHED: ("crash", "crashes"),
    HUNG: ("hang", "hangs"),
    REBOOTED: ("reboot", "reboots"),
    MAINTENANCE: ("maintenance", "maintenances"),
    LOST: ("lost contact", "lost contacts"),
    TERMINAL: ("lost terminal", "lost terminals"),
    FENCED: ("takeover", "takeovers"),
    OTHER: ("end without a cause", "ends without a cause"),
}
"""The kinds of interruptions that no person wanted, the gravest first."""


@dataclass(frozen=True)
class Verdict:
    """Figures of a time."""

    seconds: float
    failed: tuple[str, ...]
    """The runs that failed for good, as slice/run."""
    ends: Mapping[str, int]
    """How often each kind of interruption ended an attempt of a run."""
    chip_hours: float
    """Of all runs, from the begin of their first attempt on."""
    lost_chip_hours: float
    """Of these, without a program, or in steps that had to be done again."""
    lost_checkpoints: tuple[str, ...]
    """The runs whose checkpoints were deleted with a slice."""

    def text(self) -> str:
        """Return it as a sentence."""
        parts = [f"{_amount(len(self.failed), ('run', 'runs'))} failed"] if self.failed else []
        parts += [_amount(self.ends[kind], COUNTED[kind]) for kind in COUNTED if kind in self.ends]
        told = [", ".join(parts) or "no run failed, and nothing interrupted one"]
        if self.chip_hours:
            told.append(f"{self.lost_chip_hours:,.1f} of {self.chip_hours:,.1f} chip hours lost")
        if self.lost_checkpoints:
            told.append(f"checkpoints deleted with their slice: {', '.join(self.lost_checkpoints)}")
        elif PREEMPTED in self.ends:
            told.append("no checkpoint was deleted with a slice, as far as is known")
        return f"In {long(self.seconds)}: {'; '.join(told)}."


def _amount(count: int, thing: tuple[str, str]) -> str:
    return f"{count:,} {thing[count != 1]}"


def verdict_of(found: Sequence[RunStory], since: float, now: float) -> Verdict:
    """Judge the time from `since` to `now`."""
    ended = [(one, attempt) for one in found for attempt in _ended_in(one, since)]
    own_disk = of_checkpoints(OWN_DISK)
    gone = dict.fromkeys(one.name for one, attempt in ended if own_disk in attempt.why)
    return Verdict(
        now - since,
        tuple(one.name for one in found if one.state == FAILED and _failed_in(one, since)),
        dict(Counter(attempt.kind for _one, attempt in ended if attempt.kind not in WANTED)),
        sum(_hours(one, since) for one in found),
        sum(_lost(one, attempt, since) for one, attempt in ended),
        tuple(gone),
    )


def _ended_in(one: RunStory, since: float) -> Iterable[Attempt]:
    """Return the attempts that something ended, or whose downtime reaches into the time."""
    for attempt in one.attempts:
        if attempt.interrupted and (attempt.ended or 0.0) + (attempt.down or 0.0) >= since:
            yield attempt


def _failed_in(one: RunStory, since: float) -> bool:
    at = one.attempts[-1].ended if one.attempts else None
    return at is None or at >= since


def _hours(one: RunStory, since: float) -> float:
    """Return the chip hours of a run in the time."""
    begun = one.attempts[0].begun if one.attempts else one.until
    return min(one.span, max(0.0, begun + one.span - since)) * one.chips / 3600


def _lost(one: RunStory, attempt: Attempt, since: float) -> float:
    """Return the chip hours that an interruption cost in the time."""
    ended, down = attempt.ended or 0.0, attempt.down or 0.0
    seconds = max(0.0, ended + down - max(ended, since)) + attempt.again * (one.pace or 0.0)
    return seconds * one.chips / 3600
