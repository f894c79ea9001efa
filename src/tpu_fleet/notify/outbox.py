"""The messages that wait, for each way: limits, retries, no message twice. Pure.

It is stored on disk, so a new watcher continues where the last one stopped. It contains no secret:
addresses and passwords of a way are in the fleet file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .message import Message, digest

HOUR = 3600.0
KEEP = 24 * HOUR
"""A message that no receiver accepted for so long is dropped."""
QUEUE = 200
REMEMBER = 60 * 24 * HOUR
"""How long keys of messages are remembered."""
MOST_REMEMBERED = 5000
REFUSALS = 3
"""A message refused so often is given up once another one is accepted."""


@dataclass(frozen=True)
class Way:
    """One entry of fleet_notify: its name, its filters and its limit."""

    name: str
    events: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    per_hour: int = 20

    def takes(self, message: Message) -> bool:
        """Return whether this way takes a message."""
        if self.events and message.event not in self.events:
            return False
        return not (self.slices and message.slice) or message.slice in self.slices


@dataclass(frozen=True)
class Box:
    """The messages that wait for one way, and when it sent some within the last hour."""

    waiting: tuple[Message, ...] = ()
    sent: tuple[float, ...] = ()
    failures: int = 0
    next_at: float = 0.0
    limited: bool = False
    lost: int = 0
    """Messages that were given up."""


@dataclass(frozen=True)
class Outbox:
    """The boxes of all ways, and the keys of known messages."""

    boxes: Mapping[str, Box] = field(default_factory=dict)
    told: Mapping[str, float] = field(default_factory=dict)

    def put(self, messages: Sequence[Message], ways: Sequence[Way], now: float) -> Outbox:
        """Add messages, each to the ways that take it; skip known ones."""
        told, boxes = dict(self.told), dict(self.boxes)
        for message in messages:
            if message.key and message.key in told:
                continue
            if message.key:
                told[message.key] = now
            for way in ways:
                if way.takes(message):
                    box = boxes.get(way.name, Box())
                    waiting = _within((*box.waiting, message))
                    over = len(box.waiting) + 1 - len(waiting)
                    boxes[way.name] = replace(box, waiting=waiting, lost=box.lost + over)
        return replace(self, boxes=boxes, told=_forget(told, now))

    def knows(self, key: str) -> bool:
        """Return whether a message with this key was sent or waits."""
        return key in self.told

    def due(
        self, way: Way, now: float, time_of_day: Callable[[float], float] = float
    ) -> Message | None:
        """Return the message to send now; those that the limit held back are combined.

        Its time is the time of day.
        """
        box = self.boxes.get(way.name, Box())
        fresh = [
            replace(message, at=time_of_day(message.at))
            for message in box.waiting
            if now - message.at < KEEP
        ]
        if not fresh or now < box.next_at:
            return None
        if _within_the_hour(box, now) >= way.per_hour:
            return None
        return digest(fresh) if box.limited else fresh[0]

    def settle(self, way: Way, now: float) -> Outbox:
        """Drop messages that are too old; record whether the limit holds some back."""
        box = self.boxes.get(way.name, Box())
        fresh = tuple(message for message in box.waiting if now - message.at < KEEP)
        full = _within_the_hour(box, now) >= way.per_hour
        box = replace(
            box,
            waiting=fresh,
            sent=tuple(at for at in box.sent if now - at < HOUR),
            limited=bool(fresh) and (box.limited or full),
            lost=box.lost + len(box.waiting) - len(fresh),
        )
        return self._with(way, box)

    def went(self, way: Way, now: float) -> Outbox:
        """Record that the receiver accepted what was due."""
        box = self.boxes[way.name]
        left = () if box.limited else box.waiting[1:]
        # The receiver works, so it will never accept what it refused several times.
        kept = tuple(message for message in left if message.refusals < REFUSALS)
        box = replace(
            box,
            waiting=kept,
            sent=(*box.sent, now),
            failures=0,
            next_at=0.0,
            limited=False,
            lost=box.lost + len(left) - len(kept),
        )
        return self._with(way, box)

    def failed(self, way: Way, now: float, refused: bool = False) -> Outbox:
        """Record a failure; it is repeated after pauses that grow.

        A message that the receiver refused goes to the end of the queue.
        """
        box = self.boxes[way.name]
        pause = min(60.0 * 2.0**box.failures, HOUR)
        box = replace(box, failures=box.failures + 1, next_at=now + pause)
        if refused and box.limited:
            # It is unknown which of them was refused, so each is sent separately.
            box = replace(box, limited=False)
        elif refused and box.waiting:
            first, *others = box.waiting
            first = replace(first, refusals=first.refusals + 1)
            box = replace(box, waiting=(*others, first))
        return self._with(way, box)

    def next_at(self, ways: Sequence[Way], now: float) -> float | None:
        """Return when the next message is due, if any waits."""
        times = []
        for way in ways:
            box = self.boxes.get(way.name, Box())
            if box.waiting:
                at = max(now, box.next_at)
                if _within_the_hour(box, now) >= way.per_hour:
                    at = max(at, box.sent[-way.per_hour] + HOUR)
                times.append(at)
        return min(times, default=None)

    def _with(self, way: Way, box: Box) -> Outbox:
        return replace(self, boxes={**self.boxes, way.name: box})

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, for a file."""
        boxes = {
            name: {**vars(box), "waiting": [message.to_dict() for message in box.waiting]}
            for name, box in self.boxes.items()
        }
        return {"boxes": boxes, "told": dict(self.told)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Outbox:
        """Parse such a file."""
        boxes = {}
        for name, box in (data.get("boxes") or {}).items():
            waiting = tuple(Message.from_dict(item) for item in box["waiting"])
            boxes[name] = Box(**{**box, "waiting": waiting, "sent": tuple(box["sent"])})
        return cls(boxes, dict(data.get("told") or {}))


def _within_the_hour(box: Box, now: float) -> int:
    return sum(1 for at in box.sent if now - at < HOUR)


def _within(waiting: tuple[Message, ...]) -> tuple[Message, ...]:
    """Drop the oldest messages of the slices with the most; those about the grant last."""
    while len(waiting) > QUEUE:
        others = Counter(one.slice for one in waiting if one.event != "grant_ending")
        most = others.most_common(1)
        at = 0
        if most:
            at = next(
                index
                for index, one in enumerate(waiting)
                if one.event != "grant_ending" and one.slice == most[0][0]
            )
        waiting = (*waiting[:at], *waiting[at + 1 :])
    return waiting


def _forget(told: dict[str, float], now: float) -> dict[str, float]:
    """Drop keys that are too old; above the limit, the oldest of the slices with the most."""
    kept = {key: at for key, at in told.items() if now - at < REMEMBER}
    if len(kept) <= MOST_REMEMBERED:
        return kept
    # The rank of a key within its slice, the newest first.
    seen: Counter[str] = Counter()
    ranks = {}
    for key in sorted(kept, key=lambda key: -kept[key]):
        source = _source(key)
        ranks[key] = seen[source]
        seen[source] += 1
    newest = sorted(kept, key=lambda key: (ranks[key], -kept[key]))[:MOST_REMEMBERED]
    return {key: kept[key] for key in newest}


def _source(key: str) -> str:
    """Return the slice or trouble of a key; empty if there is none."""
    kind, *words = key.split(":")
    if kind in ("grant", "outside"):
        return ""
    return "".join(words[1:2] if kind == "trouble" else words[:1])
