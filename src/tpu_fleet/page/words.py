"""Words and numbers of the page. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._host.worker_ports import ranges

from ..history.store import Event
from ..history.story import workers_of
from ..show.cost import dollars
from ..show.times import iso, long

__all__ = ["clock", "day", "dollars", "iso", "long", "number", "percent", "said", "short"]

TITLES = {
    "agent-started": "run agent started",
    "hang": "no sign of life",
    "fenced": "taken over by another attempt",
    "clock-jumped": "clock was set",
    "disk-low": "disk is nearly full",
    "checkpoint-asked": "asked to save",
    "maintenance-announced": "maintenance announced",
    "peer-lost": "worker out of contact",
    "peer-back": "worker is back",
    "queued": "waits for the TPU",
    "queue-left": "has the TPU",
    "definition-changed": "declaration changed",
    "code-changed": "code changed",
    "run-succeeded": "succeeded",
    "run-failed": "failed for good",
    "loss-trouble": "loss is in trouble",
    "loss-good": "loss is good again",
    "attempt-started": "attempt began",
    "attempt-ended": "attempt ended",
}
"""Events of event logs; those of the watcher have titles of their own."""
BAD = frozenset({
    "loss", "loss-trouble", "peer-lost", "hang", "fenced", "disk-low", "run-failed", "failed",
    "preempted",
})  # fmt: skip
GOOD = frozenset({"run-succeeded", "loss-good", "finished", "healed", "peer-back"})


def clock(at: float) -> str:
    """Format a time for people, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%d %b %H:%M:%S")


def short(at: float) -> str:
    """Format a time for people, in UTC, to the minute."""
    return datetime.fromtimestamp(at, UTC).strftime("%d %b %H:%M")


def day(number: int) -> str:
    """Format a day, given as days since 1970."""
    return datetime.fromtimestamp(number * 86400, UTC).strftime("%d %b")


def number(value: float) -> str:
    """Format a number of any size with about four digits."""
    if value and (abs(value) < 0.001 or abs(value) >= 1e7):
        return f"{value:.3g}"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent(share: float | None) -> str:
    """Format a share."""
    return "unknown" if share is None else f"{share * 100:.1f} %"


def _seconds(told: Any) -> str:
    """Format a duration of an event, which is below 0 where a clock was set back."""
    if not isinstance(told, int | float) or abs(told) < 60:
        return f"{told} s"
    return f"{'-' if told < 0 else ''}{long(abs(told))}"


def kind_of(event: Event) -> str:
    """Return how grave an event is: bad, good or note."""
    return "bad" if event.name in BAD else "good" if event.name in GOOD else "note"


def where_of(event: Event) -> str:
    """Return of which slice, workers and run an event is."""
    workers = [worker for worker in workers_of(event) if worker >= 0]
    parts = [event.slice, f"w{','.join(ranges(workers))}" if workers else ""]
    return " ".join(filter(None, parts)) + (f" · {event.run}" if event.run else "")


def workers_in(event: Event) -> str:
    """Return the workers that report an event; those of the watcher are none."""
    workers = [worker for worker in workers_of(event) if worker >= 0]
    return ",".join(ranges(workers)) if workers else "watcher"


def title_of(event: Event) -> str:
    """Return what an event is called."""
    if event.worker < 0:
        return str(event.detail.get("title") or event.name)
    return TITLES.get(event.name, event.name)


def said(event: Event) -> str:
    """Return the details of an event in one line."""
    detail = event.detail
    if event.worker < 0:
        return str(detail.get("text", ""))
    parts = []
    if event.name == "loss-trouble":
        return str(detail.get("what", ""))
    for key, words in (
        ("peer", "worker {}"),
        ("what", "{}"),
        ("reason", "{}"),
        ("why", "{}"),
        ("by", "{}"),
        ("behind", "behind {}"),
        ("seconds", "{}"),
        ("cause", "{}"),
        ("exit_code", "exit code {}"),
        ("said", "{}"),
        ("signal", "signal {}"),
        ("version", "to {:.8}"),
        ("step", "step {}"),
    ):
        if detail.get(key) not in (None, ""):
            told = detail[key]
            parts.append(words.format(_seconds(told) if key == "seconds" else str(told)))
    if event.name == "agent-started" and detail.get("program") == "running":
        parts.append("the program ran before")
    return ", ".join(parts)
