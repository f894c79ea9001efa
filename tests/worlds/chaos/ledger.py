"""Judge what a run's processes wrote down about themselves. Pure."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Life:
    """One process of one attempt."""

    attempt: int
    worker: int
    begun: float
    last: float
    """When it last said anything."""
    error: float
    """So many seconds its times may be off."""
    steps: tuple[tuple[int, float], ...]
    """Each step with the time of its beginning."""
    saved: tuple[int, ...] = ()
    """The steps that it knew to be whole where they were saved."""


def read(files: Iterable[str]) -> list[Life]:
    """Read the files' contents. A line that a power cut left half is passed over."""
    lives = []
    for text in files:
        entries = []
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and "t" in entry:
                entries.append(entry)
        heads = [entry for entry in entries if "attempt" in entry]
        if not heads:
            continue
        head, times = heads[0], [float(entry["t"]) for entry in entries]
        steps = tuple((int(e["step"]), float(e["t"])) for e in entries if "step" in e)
        lives.append(
            Life(
                int(head["attempt"]), int(head["worker"]), min(times), max(times),
                float(head.get("error", 0.0)), steps,
                tuple(int(e["saved"]) for e in entries if "saved" in e),
            )
        )  # fmt: skip
    return sorted(lives, key=lambda life: (life.attempt, life.worker, life.begun))


def overlaps(lives: Sequence[Life]) -> list[str]:
    """Name processes that lived at once and are not of one attempt, or are the same worker's."""
    found = []
    for index, one in enumerate(lives):
        for other in lives[index + 1 :]:
            if one.attempt == other.attempt and one.worker != other.worker:
                continue
            first, second = sorted((one, other), key=lambda life: life.begun)
            together = first.last - second.begun - first.error - second.error
            if together > 0:
                found.append(
                    f"attempt {first.attempt} on worker {first.worker} and attempt "
                    f"{second.attempt} on worker {second.worker} lived together for "
                    f"{together:.2f} s"
                )
    return found


def begins(lives: Sequence[Life]) -> dict[int, tuple[int, int]]:
    """Return the first and the last step that each attempt began."""
    found: dict[int, tuple[int, int]] = {}
    for life in lives:
        if life.steps:
            numbers = [step for step, _time in life.steps]
            low, high = found.get(life.attempt, (numbers[0], numbers[0]))
            found[life.attempt] = min(low, *numbers), max(high, *numbers)
    return found


def lost(lives: Sequence[Life]) -> dict[int, int]:
    """Return how many steps each attempt did once more."""
    result, far = {}, 0
    for attempt, (first, last) in sorted(begins(lives).items()):
        result[attempt] = max(0, far - first + 1)
        far = max(far, last)
    return result


def gaps(lives: Sequence[Life]) -> list[str]:
    """Name attempts that begin beyond what was done: their steps are missing."""
    result, far = [], 0
    for attempt, (first, last) in sorted(begins(lives).items()):
        if first > far + 1:
            result.append(f"attempt {attempt} begins at step {first}, and {far} was the last")
        far = max(far, last)
    return result


def forgotten(lives: Sequence[Life]) -> list[str]:
    """Name attempts that begin before a step that an earlier one knew to be saved."""
    result, whole = [], 0
    for attempt, (first, _last) in sorted(begins(lives).items()):
        if first <= whole:
            result.append(f"attempt {attempt} begins at step {first}, and {whole} was saved")
        whole = max([whole, *(s for one in lives if one.attempt == attempt for s in one.saved)])
    return result


def pace(lives: Sequence[Life]) -> float:
    """Return the seconds that a step takes when nothing happens."""
    spans = [
        later - sooner
        for life in lives
        for (_a, sooner), (_b, later) in zip(life.steps, life.steps[1:], strict=False)
    ]
    return statistics.median(spans) if spans else 0.0


def reached(lives: Sequence[Life], at: float) -> int:
    """Return the furthest step that was begun until then."""
    return max(
        (step for life in lives for step, time in life.steps if time <= at),
        default=0,
    )


def goodput(lives: Sequence[Life], since: float, until: float, seconds: float) -> float:
    """Return the useful steps of a time over those that were possible in it."""
    useful = reached(lives, until) - reached(lives, since)
    return useful / max(1.0, (until - since) / seconds)


def judge(
    lives: Sequence[Life], every: int, faults: int, workers: int
) -> Mapping[str, Sequence[str]]:
    """Return the broken promises of a run, by promise."""
    again = lost(lives)
    # The first worker alone saves; meanwhile the others begin the next step, and wait for it there.
    most = every + (workers > 1)
    much = [f"attempt {a} did {n} steps again" for a, n in again.items() if n > most]
    if sum(again.values()) > every * max(1, faults):
        much.append(f"{sum(again.values())} steps for {faults} faults and {every} a checkpoint")
    strangers = [f"worker {life.worker}" for life in lives if life.worker >= workers]
    return {
        "two attempts at once": overlaps(lives),
        "more lost than a checkpoint": much,
        "steps that nobody did": gaps(lives),
        "whole steps that were lost": forgotten(lives),
        "workers that there are not": strangers,
    }
