"""The history of the local cloud, with which a test can inspect every instant."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

# A cloud that is up for months forgets the oldest: some 50 MB at most.
LIMIT = 100_000

Kind = Literal["found", "created", "changed", "updated", "gone"]
By = Literal["client", "service"]
_actor: ContextVar[By] = ContextVar("actor", default="client")


@dataclass(frozen=True)
class Event:
    """One change of one resource, and what the resource was after it."""

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
    """Who caused it: somebody's request, or the service itself."""
    uid: str = ""
    queued: str = ""
    """The queued resource that a node is of: its chips are those of the node already."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


class History:
    """The last events, oldest first."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._events: deque[Event] = deque(maxlen=limit)
        self._lock = threading.Lock()
        self.dropped = 0
        """How many of the oldest entries were dropped."""

    def append(self, event: Event) -> None:
        """Note one more, which does not come before the last."""
        with self._lock:
            if self._events and event.at < self._events[-1].at:
                event = replace(event, at=self._events[-1].at)
            if len(self._events) == self._events.maxlen:
                self.dropped += 1
            self._events.append(event)

    def since(self, number: int) -> list[Event]:
        """Return the events from the one with this number on; the first of all was number 0."""
        with self._lock:
            skip = max(0, number - self.dropped)
            return [event for index, event in enumerate(self._events) if index >= skip]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._events.clear()
            self.dropped = 0

    def __iter__(self) -> Iterator[Event]:
        """Go through a copy, so that events may be added meanwhile."""
        with self._lock:
            return iter(list(self._events))

    def __len__(self) -> int:
        """Return how many are known."""
        return len(self._events)

    def __getitem__(self, index: int) -> Event:
        """Return one of those that are known."""
        return self._events[index]


def actor() -> By:
    """Return who causes what is happening here."""
    return _actor.get()


@contextmanager
def caused_by(who: By) -> Iterator[None]:
    """Record the cause of the changes made inside."""
    token = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(token)
