"""Why an attempt of a run ended, from what its workers wrote down. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.tpu.fleet.plugins.module_utils._core.durations import long

from .store import GAP, Event

SUCCEEDED, STOPPED, CHANGED, CODE = "succeeded", "stopped", "changed", "code"
CRASHED, HUNG, FENCED, TERMINAL = "crashed", "hung", "fenced", "terminal"
REBOOTED, MAINTENANCE, LOST, PREEMPTED = "rebooted", "maintenance", "lost", "preempted"
OTHER, REMOVED = "other", "removed"
WORDS = {
    SUCCEEDED: "succeeded",
    STOPPED: "stopped by hand",
    CHANGED: "declaration changed",
    CODE: "code changed",
    CRASHED: "program failed",
    HUNG: "program hung",
    FENCED: "taken over by another attempt",
    REBOOTED: "worker rebooted",
    MAINTENANCE: "maintenance",
    TERMINAL: "lost its terminal",
    LOST: "worker out of contact",
    PREEMPTED: "slice lost",
    OTHER: "ended",
    REMOVED: "no longer declared",
}
"""For people: the kinds of ends."""
NO_INTERRUPTION = (SUCCEEDED, REMOVED)
"""Ends that were wanted, and that nothing follows."""
WANTED = (STOPPED, CHANGED, CODE)
"""Ends that a person caused, as by a stop or a sync."""
OWN_DISK = "own disk"
ANNOUNCED = 1800.0
"""Seconds after the announcement of a maintenance in which a reboot is that maintenance.

An agent may see it only after the reboot.
"""
TAKEN = frozenset({CRASHED, REBOOTED, MAINTENANCE, LOST, STOPPED, OTHER})
"""Ends that a machine writes while it is taken away: its agent and its programs are stopped."""
_OF_WORKER = re.compile(r"worker (\d+)")


@dataclass(frozen=True)
class Cause:
    """The kind of an end, and the words of those who saw it."""

    kind: str
    text: str


def cause_of(events: Sequence[Event], lost: float | None) -> Cause:
    """Judge the events from the begin of an attempt to the begin of the next one.

    `lost` is when the slice was lost meanwhile. What had ended by itself before is not its doing.
    """
    ends = [event for event in events if event.name == "attempt-ended"]
    if not ends and (events or lost is not None):
        return Cause(PREEMPTED, "" if lost is not None else "its machines reported no end")
    cause = _judged(events, ends)
    taken = cause.kind in TAKEN and not (cause.kind == CRASHED and any(map(_exited, ends)))
    new = _booted(events, new_machine=True)
    if taken and new:
        return Cause(PREEMPTED, f"on a new machine: worker {', '.join(map(str, new))}")
    if lost is not None and taken and lost - min(event.at for event in ends) <= GAP:
        return Cause(PREEMPTED, "")
    return cause


def of_checkpoints(checkpoints_on: str) -> str:
    """Return what the loss of a slice does to checkpoints that are there."""
    if checkpoints_on == OWN_DISK:
        return "its checkpoints were deleted with its own disk"
    return f"its checkpoints are kept ({checkpoints_on})" if checkpoints_on else ""


def _judged(events: Sequence[Event], ends: Sequence[Event]) -> Cause:
    names = {event.name for event in events}
    causes = [str(event.detail.get("cause") or "") for event in ends]
    text = next((cause for cause in causes if _OF_WORKER.search(cause)), "")
    text = text or next((cause for cause in causes if cause), "")
    crashes = [e for e, cause in zip(ends, causes, strict=True) if not cause and _bad(e)]

    def said(*words: str) -> bool:
        return any(word in cause for cause in causes for word in words)

    if ends and not any(causes) and not crashes:
        return Cause(SUCCEEDED, "")
    # A person also changes the code of a program that has failed: that did not end it.
    changes = [event for event in events if event.name in ("definition-changed", "code-changed")]
    last = max((event.at for event in ends), default=0.0)
    heard = said("another definition", "the definition changed")
    if heard or any(event.at <= last for event in changes):
        version = str(changes[-1].detail.get("version") or "") if changes else ""
        return Cause(CODE, f"to {version[:8]}") if version else Cause(CHANGED, "")
    if "hang" in names or said("hung"):
        return Cause(HUNG, _hang(events))
    if "fenced" in names or said("fenced"):
        by = next((str(e.detail.get("by", "")) for e in events if e.name == "fenced"), "")
        return Cause(FENCED, by or text)
    if said("rebooted"):
        return Cause(MAINTENANCE if _announced(events, ends) else REBOOTED, _where(ends, text))
    if said("lost its terminal"):
        return Cause(TERMINAL, _where(ends, text))
    if crashes:
        return Cause(CRASHED, "; ".join(dict.fromkeys(map(_crash, crashes))))
    rebooted = _booted(events)
    if rebooted:
        # It was shut down properly: its agent got a signal to stop before.
        kind = MAINTENANCE if _announced(events, ends) else REBOOTED
        return Cause(kind, f"worker {', '.join(map(str, rebooted))} rebooted")
    if "peer-lost" in names or said("is lost", "lost the leader", "not there"):
        return Cause(LOST, _where(ends, text))
    if said("told to stop"):
        return Cause(STOPPED, text)
    if said("exit code", "killed by signal", "vanished"):
        return Cause(CRASHED, text)
    return Cause(OTHER, text)


def _exited(event: Event) -> bool:
    """Return whether the program ended in error by itself."""
    detail = event.detail
    return not (detail.get("cause") or detail.get("signal")) and bool(detail.get("exit_code"))


def _bad(event: Event) -> bool:
    code, signal = event.detail.get("exit_code"), event.detail.get("signal")
    return bool(signal) or code != 0


def _crash(event: Event) -> str:
    signal, code = event.detail.get("signal"), event.detail.get("exit_code")
    how = f"killed by signal {signal}" if signal else f"exit code {code}"
    if not signal and code is None:
        how = "the program vanished"
    said = event.detail.get("said")
    return f"worker {event.worker}: {how}" + (f": {str(said).rstrip('.')}" if said else "")


def _where(ends: Sequence[Event], text: str) -> str:
    """Name the worker of which it is said, if the text does not."""
    if _OF_WORKER.search(text):
        return text
    workers = sorted({event.worker for event in ends if event.detail.get("cause") == text})
    return f"worker {', '.join(map(str, workers))} {text}" if workers else text


def _hang(events: Sequence[Event]) -> str:
    seconds = [event.detail.get("seconds") for event in events if event.name == "hang"]
    return f"no sign of life for {long(seconds[0])}" if seconds and seconds[0] else ""


def _announced(events: Sequence[Event], ends: Sequence[Event]) -> bool:
    ended = min((event.at for event in ends), default=0.0)
    return any(
        event.name == "maintenance-announced" and ended - event.at <= ANNOUNCED for event in events
    )


def _booted(events: Sequence[Event], *, new_machine: bool = False) -> list[int]:
    """Return the workers whose agent began in another boot than that of its events before.

    On a new machine it begins without an attempt that it knows of.
    """
    boots: dict[int, str] = {}
    found = set()
    for event in events:
        boot = str(event.detail.get("boot_id") or "")
        if not boot:
            continue
        before = boots.setdefault(event.worker, boot)
        is_new = event.name == "agent-started" and boot != before
        if is_new and not (new_machine and event.attempt):
            found.add(event.worker)
        boots[event.worker] = boot
    return sorted(found)
