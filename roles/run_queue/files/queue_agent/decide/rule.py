"""What fleet_queue.on_result is asked about the arms of a sweep, and what its answer means. Pure.

Its program belongs to the person whose sweep it is: it can stop arms of that sweep, and do nothing
else to the queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..shared._queue.objects import (
    NO_NUMBERS,
    Progress,
    Refused,
    Submitted,
    one_line,
    progress_text,
)

MOST_SAID = 1 << 16
"""Bytes that the program may write."""
SECONDS = 60.0
"""For which it may run."""
_MOST_REFUSED = 5
_MOST_WHY = 100


@dataclass(frozen=True)
class Rule:
    """fleet_queue.on_result, as role run_queue wrote it."""

    command: tuple[str, ...]
    every: float
    """Seconds between two questions while an arm runs."""


class Subject(NamedTuple):
    """The arm because of which the program is asked, and as whom and where it runs."""

    run: Submitted
    user: str
    folder: str
    """That of the run's code; empty: it has none."""
    venv: str
    """The path of its environment; empty: none."""


class Verdict(NamedTuple):
    """What an answer means."""

    stops: dict[str, str]
    """Arms to stop, each with the reason."""
    refused: list[str]
    """What was said and is not done, and why."""


def progress_of(status: Mapping[str, Any]) -> Progress:
    """Return how far a run is by the status of its agent; what no reader would take is left out."""
    said = Progress(status.get("step"), status.get("loss"))
    for progress in (said, Progress(said.step), Progress(None, said.loss)):
        try:
            progress_text(progress)
        except Refused:
            continue
        return progress
    return Progress()


def question(subject: Subject, arms: Iterable[Submitted]) -> bytes:
    """Return the JSON that the program reads."""
    run = subject.run
    told = [_told(one) for one in sorted(arms, key=lambda one: (len(one.name), one.name))]
    return json.dumps({"run": run.name, "sweep": run.sweep, "arms": told}).encode()


def _told(arm: Submitted) -> dict[str, Any]:
    return {
        "name": arm.name,
        "state": arm.state,
        "parameters": dict(arm.parameters),
        "step": arm.step,
        "loss": None if arm.loss in NO_NUMBERS else arm.loss,
        "diverged": arm.loss in NO_NUMBERS,
        "exit_code": arm.exit_code,
    }


def verdict(said: bytes, arms: Iterable[Submitted], where: str) -> Verdict:
    """Return what the lines of an answer mean: each an arm's name, and why if it is said.

    An arm that has ended stays as it is.
    """
    known = {one.name: one for one in arms}
    stops, refused = {}, []
    for line in said.decode("utf-8", "replace").splitlines():
        name, _, why = line.strip().partition(" ")
        if name in known and known[name].is_open:
            stops[name] = one_line(why, _MOST_WHY) or f"rule on {where}"
        elif name and name not in known:
            refused.append(f"{one_line(name, 60)!r} is no arm of the sweep")
    return Verdict(stops, _cut(refused))


def _cut(refused: list[str]) -> list[str]:
    more = len(refused) - _MOST_REFUSED
    return [*refused[:_MOST_REFUSED], *([f"and {more} more lines"] if more > 0 else [])]
