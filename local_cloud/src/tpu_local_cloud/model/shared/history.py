"""The history of the local cloud: tests can inspect its state at any moment."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

# A cloud that runs for months drops the oldest events: about 50 MB at most.
LIMIT = 100_000

Kind = Literal["found", "created", "changed", "updated", "gone"]
By = Literal["client", "service"]
_actor: ContextVar[By] = ContextVar("actor", default="client")


@dataclass(frozen=True)
class Event:
    """One change of one resource, and the resource after it."""

    at: float
    """Seconds since 1970 UTC, by the cloud's clock."""
    kind: Kind
    """found (when the server started), created, changed (its state), updated (by patch), gone."""
    zone: str
    name: str
    what: Literal["node", "queued"]
    state: str
    chips: int
    tier: str
    accelerator_type: str
    labels: dict[str, str] = field(default_factory=dict)
    by: By = "client"
    """The cause: a request, or the service itself."""
    uid: str = ""
    queued: str = ""
    """The queued resource of a node, whose chips the node already counts."""
    api: str = "tpu"
    """The API that shows it: tpu or compute."""

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


class History:
    """The last events, oldest first."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._events: deque[Event] = deque(maxlen=limit)
        self._lock = threading.Lock()
        self.dropped = 0
        """How many of the oldest entries were dropped."""

    def append(self, event: Event) -> None:
        """Append an event, which is not earlier than the last one."""
        with self._lock:
            if self._events and event.at < self._events[-1].at:
                event = replace(event, at=self._events[-1].at)
            if len(self._events) == self._events.maxlen:
                self.dropped += 1
            self._events.append(event)

    def since(self, number: int) -> list[Event]:
        """Return the events from this number on; the very first was number 0."""
        with self._lock:
            skip = max(0, number - self.dropped)
            return [event for index, event in enumerate(self._events) if index >= skip]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._events.clear()
            self.dropped = 0

    def __iter__(self) -> Iterator[Event]:
        """Iterate over a copy, so that events may be added meanwhile."""
        with self._lock:
            return iter(list(self._events))

    def __len__(self) -> int:
        """Return the number of stored events."""
        return len(self._events)

    def __getitem__(self, index: int) -> Event:
        """Return a stored event."""
        return self._events[index]


def actor() -> By:
    """Return the cause of the changes that this thread makes."""
    return _actor.get()


@contextmanager
def caused_by(who: By) -> Iterator[None]:
    """Record the cause of the changes made inside."""
    token = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(token)
