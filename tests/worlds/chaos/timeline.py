"""Whether the fleet's page shows what the event logs of the workers report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tpu_fleet.history.story import AT_ONCE, QUIET, RunStory, workers_of

UNHEARD = 240.0
"""What a machine writes so shortly before it is lost cannot be read any more."""
LATE = 120.0
"""Workers of a gang write the end of an attempt within so many seconds."""

Place = tuple[str, int, str]
Log = Sequence[Mapping[str, Any]]


def missing(
    logs: Mapping[Place, Log], lost: Iterable[Place], runs: Sequence[RunStory]
) -> list[str]:
    """Name the events of event logs that stand in no time line; `lost` are machines of the past.

    The end of an attempt stands there as an interruption, all else as a mark.
    """
    by_run = {(run.slice, run.run): run for run in runs}
    gone = set(lost)
    found = []
    for place, log in sorted(logs.items()):
        name, worker, _machine = place
        run = by_run.get((name, name))
        last = max((float(event["at"]) for event in log), default=0.0)
        for event in log:
            if place in gone and float(event["at"]) > last - UNHEARD:
                continue
            if run is None or not stands(event, worker, run):
                found.append(f"{name} w{worker}: {event}")
    return found


def stands(event: Mapping[str, Any], worker: int, run: RunStory) -> bool:
    """Return whether an event of a worker is in a run's time line, or needs not be."""
    at, name = float(event["at"]), str(event["event"])
    if name == "attempt-ended":
        if event.get("exit_code") == 0 and not event.get("cause"):
            return True
        return any(
            one.number == event["attempt"]
            and one.interrupted
            and one.ended is not None
            and one.begun <= at <= one.ended + LATE
            for one in run.attempts
        )
    if name in QUIET:
        return True
    # What several workers report at once stands there once.
    return any(
        0 <= at - mark.at <= AT_ONCE and worker in workers_of(mark) and mark.name == name
        for mark in run.marks
    )
