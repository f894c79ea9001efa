"""Which worker stands out from the others: by the time of its steps, or by its loss. Pure.

In most programs all workers wait for each other in each step, and then all are equally slow. What
one worker shows alone is its own: a slow machine, or chips that compute something else.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

LEAST = 3
"""Workers: of two, none stands out."""
_TIMES = 1.3
_DEVIATIONS = 5.0
_NOISE = 0.05
_ROUNDS = 3
"""Judgements in a row until a slow worker is named."""
EVERY = 60.0
"""Seconds between two of them; a pace is measured over as long."""
_STEPS = 50
_LOSSES = 2
"""Steps at which a loss differs until it is named; no number is named at once."""
_ERRORS = 3
_NO_NUMBER = ("nan", "inf", "-inf")

Losses = Sequence[tuple[int, str]]


def slow(paces: Mapping[int, float]) -> list[int]:
    """Return the workers whose seconds for a step are far above those of the others."""
    known = {worker: pace for worker, pace in paces.items() if pace > 0}
    return [worker for worker in sorted(known) if _is_slow(worker, known)]


def _is_slow(worker: int, paces: Mapping[int, float]) -> bool:
    others = [pace for other, pace in paces.items() if other != worker]
    if len(others) < LEAST - 1:
        return False
    usual = statistics.median(others)
    spread = statistics.median(abs(pace - usual) for pace in others)
    spread = max(spread, _NOISE * usual)
    return paces[worker] > _TIMES * usual and paces[worker] - usual > _DEVIATIONS * spread


def differing(losses: Mapping[int, Mapping[int, str]]) -> dict[int, list[int]]:
    """Return the steps at which one worker alone reports another loss than all others."""
    found: dict[int, list[int]] = {}
    for step in sorted({step for of_worker in losses.values() for step in of_worker}):
        said = {worker: known[step] for worker, known in losses.items() if step in known}
        alone = _alone(said)
        if alone is not None:
            found.setdefault(alone, []).append(step)
    return found


def _alone(said: Mapping[int, str]) -> int | None:
    if len(said) < LEAST or len(set(said.values())) != 2:
        return None
    values = list(said.values())
    rare = [worker for worker, value in said.items() if values.count(value) == 1]
    return rare[0] if len(rare) == 1 else None


def in_error(errors: Mapping[int, str]) -> list[str]:
    """Name the workers whose chips report an error."""
    return [
        f"the chips of worker {worker} report an error: {error}"
        for worker, error in sorted(errors.items())
        if error
    ][:_ERRORS]


@dataclass(frozen=True)
class Watch:
    """What the leader knows of one attempt."""

    judged_at: float | None = None
    slow: Mapping[int, int] = field(default_factory=dict)
    """How often in a row each worker was slow."""
    paces: Mapping[int, float] = field(default_factory=dict)
    losses: Mapping[int, Mapping[int, str]] = field(default_factory=dict)

    def seen(self, paces: Mapping[int, float], losses: Mapping[int, Losses], now: float) -> Watch:
        """Return what is known after a look at the reports of all workers."""
        known = {
            worker: _last({**self.losses.get(worker, {}), **dict(of_worker)})
            for worker, of_worker in losses.items()
        }
        watch = replace(self, losses=known)
        if self.judged_at is not None and now - self.judged_at < EVERY:
            return watch
        rounds = {worker: self.slow.get(worker, 0) + 1 for worker in slow(paces)}
        return replace(watch, judged_at=now, slow=rounds, paces=dict(paces))

    def lines(self) -> list[str]:
        """Name each worker that stands out, and by what."""
        slow_ones = [worker for worker, rounds in sorted(self.slow.items()) if rounds >= _ROUNDS]
        return [*map(self._slow_line, slow_ones), *self._loss_lines()]

    def _slow_line(self, worker: int) -> str:
        others = [pace for other, pace in self.paces.items() if other != worker and pace > 0]
        usual = statistics.median(others)
        return (
            f"worker {worker} is slow: {self.paces[worker]:.2g} s a step, the others {usual:.2g} s"
        )

    def _loss_lines(self) -> list[str]:
        found = []
        for worker, steps in differing(self.losses).items():
            own = self.losses[worker][steps[-1]]
            others = next(
                known[steps[-1]]
                for other, known in self.losses.items()
                if other != worker and steps[-1] in known
            )
            if len(steps) >= _LOSSES or own in _NO_NUMBER:
                found.append(
                    f"worker {worker} computes something else: its loss at step {steps[-1]} is "
                    f"{own}, that of the others {others}"
                )
        return found


def _last(known: Mapping[int, str]) -> dict[int, str]:
    return dict(sorted(known.items())[-_STEPS:])
