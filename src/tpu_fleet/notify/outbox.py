"""What is still to be told, by which way and when: limits, tries, nothing twice. Pure.

It is kept on disk as it is, so that whoever begins anew goes on where the other one was. No secret
is in it: how a way leads to people stands in the fleet file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .message import Message, digest

HOUR = 3600.0
KEEP = 24 * HOUR
"""A message that nobody took for so long is of no use any more."""
QUEUE = 200
REMEMBER = 60 * 24 * HOUR
"""How long it is known what was told."""
MOST_REMEMBERED = 5000
REFUSALS = 3
"""A message that was refused so often is given up as soon as another one was taken."""


@dataclass(frozen=True)
class Way:
    """One entry of fleet_notify, as far as it decides what goes there."""

    name: str
    events: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    per_hour: int = 20

    def takes(self, message: Message) -> bool:
        """Say whether a message is for this one."""
        if self.events and message.event not in self.events:
            return False
        return not (self.slices and message.slice) or message.slice in self.slices


@dataclass(frozen=True)
class Box:
    """What waits for one way, and what went there within the last hour."""

    waiting: tuple[Message, ...] = ()
    sent: tuple[float, ...] = ()
    failures: int = 0
    next_at: float = 0.0
    limited: bool = False
    lost: int = 0
    """Messages that were given up."""


@dataclass(frozen=True)
class Outbox:
    """The boxes of all ways, and the keys of what was told."""

    boxes: Mapping[str, Box] = field(default_factory=dict)
    told: Mapping[str, float] = field(default_factory=dict)

    def put(self, messages: Sequence[Message], ways: Sequence[Way], now: float) -> Outbox:
        """Take messages in, each for the ways that take it; what was told is passed over."""
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
        """Say whether this was told, or is to be."""
        return key in self.told

    def due(
        self, way: Way, now: float, time_of_day: Callable[[float], float] = float
    ) -> Message | None:
        """Return what is to go now: one message, or one made of those that were held back.

        It carries the time that people read.
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
        """Let go what is too old, and note when the limit holds something back."""
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
        """Note that what was due has been taken."""
        box = self.boxes[way.name]
        left = () if box.limited else box.waiting[1:]
        # The receiver takes messages: what it keeps refusing it will never take.
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
        """Note that it could not be sent; it is tried again after a while that grows.

        A message that the receiver refused lets the others go first.
        """
        box = self.boxes[way.name]
        pause = min(60.0 * 2.0**box.failures, HOUR)
        box = replace(box, failures=box.failures + 1, next_at=now + pause)
        if refused and box.limited:
            # Which of them it was is not known: each goes by itself.
            box = replace(box, limited=False)
        elif refused and box.waiting:
            first, *others = box.waiting
            first = replace(first, refusals=first.refusals + 1)
            box = replace(box, waiting=(*others, first))
        return self._with(way, box)

    def next_at(self, ways: Sequence[Way], now: float) -> float | None:
        """Return when something is due the next time, if anything waits."""
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
        """Return what such a file says."""
        boxes = {}
        for name, box in (data.get("boxes") or {}).items():
            waiting = tuple(Message.from_dict(item) for item in box["waiting"])
            boxes[name] = Box(**{**box, "waiting": waiting, "sent": tuple(box["sent"])})
        return cls(boxes, dict(data.get("told") or {}))


def _within_the_hour(box: Box, now: float) -> int:
    return sum(1 for at in box.sent if now - at < HOUR)


def _within(waiting: tuple[Message, ...]) -> tuple[Message, ...]:
    """Drop the oldest messages of the slices with the most; the grant's only where it has all."""
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
    """Let go what is too old, and of what is too much the oldest of the slices with the most."""
    kept = {key: at for key, at in told.items() if now - at < REMEMBER}
    if len(kept) <= MOST_REMEMBERED:
        return kept
    # The rank of a key among those of its slice, the newest first.
    seen: Counter[str] = Counter()
    ranks = {}
    for key in sorted(kept, key=lambda key: -kept[key]):
        source = _source(key)
        ranks[key] = seen[source]
        seen[source] += 1
    newest = sorted(kept, key=lambda key: (ranks[key], -kept[key]))[:MOST_REMEMBERED]
    return {key: kept[key] for key in newest}


def _source(key: str) -> str:
    """Return whose key it is: a slice's, a trouble's, or nobody's."""
    kind, *words = key.split(":")
    if kind in ("grant", "outside"):
        return ""
    return "".join(words[1:2] if kind == "trouble" else words[:1])
