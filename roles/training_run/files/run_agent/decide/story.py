"""The events of a change: pure, one list of events for each pair of before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .gang_state import Gang
from .run_states import FAILED, SUCCEEDED

Event = dict[str, Any]
_JUMP_SECONDS = 5.0


def of_gang(before: Gang, after: Gang, version: str = "") -> list[Event]:
    """Return what became of the run.

    `version` is that of its code, where another version of the code is another definition.
    """
    told: list[Event] = []
    if after.definition != before.definition:
        if version and not version.startswith(before.builds.get("code", "")):
            told.append({"event": "code-changed", "version": version})
        else:
            told.append({"event": "definition-changed"})
    if after.phase == before.phase:
        return told
    if after.phase == SUCCEEDED:
        told.append({"event": "run-succeeded"})
    if after.phase == FAILED:
        event: Event = {"event": "run-failed", "reason": after.reason, "tail": after.tail}
        if after.failed_worker is not None:
            event["failed_worker"] = after.failed_worker
        told.append(event)
    return told


def of_clock(before: float | None, ahead: float) -> list[Event]:
    """Return that the clock was set: by it the events before and after cannot be compared.

    Ahead is by how much the clock is before the one that no user can set.
    """
    if before is None or abs(ahead - before) < _JUMP_SECONDS:
        return []
    return [{"event": "clock-jumped", "seconds": round(ahead - before, 1)}]


def with_tail(told: list[Event], tail: Callable[[], list[str]]) -> list[Event]:
    """Give a run that failed without a crash, as by a hang, the last lines of worker 0."""
    failed = [event for event in told if "tail" in event and not event["tail"]]
    lines = tail() if failed else []
    return [dict(event, tail=lines) if event in failed else event for event in told]


def of_peers(before: Mapping[int, bool], after: Mapping[int, bool]) -> list[Event]:
    """Return which peers are lost and which are back; a peer that never came is not missed."""
    told: list[Event] = []
    for worker in sorted(before.keys() | after.keys()):
        was, here = before.get(worker), after.get(worker, before.get(worker, False))
        if was is True and not here:
            told.append({"event": "peer-lost", "peer": worker})
        if was is False and here:
            told.append({"event": "peer-back", "peer": worker})
    return told


def of_queue(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[Event]:
    """Return behind which run this one waits for the TPU."""
    behind = after.get("behind") if after else None
    if behind == (before.get("behind") if before else None):
        return []
    if after is None:
        return [{"event": "queue-left"}]
    return [{"event": "queued", "behind": behind, "user": after.get("user")}]
