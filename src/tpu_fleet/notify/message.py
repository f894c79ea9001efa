"""What people are told, and which parts of it every form has. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    shown,
    shown_text,
)

LINES, WIDTH = 200, 2000
"""What a message may be long: nobody reads more, and every receiver has a limit."""


@dataclass(frozen=True)
class Message:
    """One thing that happened."""

    event: str
    """failed, finished, preempted, healed, grant_ending or watcher_trouble."""
    title: str
    text: str
    at: float
    """Seconds since 1970."""
    fleet: str = ""
    """The project, and the owner where it is not the usual one."""
    slice: str = ""
    run: str = ""
    log: tuple[str, ...] = ()
    """The last lines of a log, if one belongs to it."""
    key: str = ""
    """Two messages of one key are one: it is told once, whatever restarts in between."""
    refusals: int = 0
    """How often a receiver has refused this very message."""

    def __post_init__(self) -> None:
        """Clean every text: some of it is what workers and their users wrote."""
        for name in ("event", "title", "fleet", "slice", "run"):
            object.__setattr__(self, name, shown(getattr(self, name)))
        object.__setattr__(self, "key", shown(self.key, WIDTH))
        object.__setattr__(self, "text", shown_text(self.text, LINES, WIDTH))
        lines = (line for text in self.log for line in shown_text(text, LINES).split("\n"))
        object.__setattr__(self, "log", tuple(lines)[-LINES:])

    @property
    def when(self) -> str:
        """The time as people and programs read it."""
        return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, for a file."""
        return {**asdict(self), "log": list(self.log)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        """Return what such a file says."""
        return cls(**{**data, "log": tuple(data.get("log") or ())})


def digest(messages: Sequence[Message]) -> Message:
    """Make one message of several that had to wait."""
    if len(messages) == 1:
        return messages[0]
    last = messages[-1]
    # A receiver cuts the end: the grant comes first, and who says most comes last.
    many = Counter(message.slice for message in messages)
    first = sorted(messages, key=lambda one: (one.event != "grant_ending", many[one.slice]))
    lines = "\n".join(f"{message.when[11:19]} {message.title}" for message in first)
    events = {message.event for message in messages}
    # The gravest of them decides how loudly it is told.
    grave = [event for event in ("failed", "watcher_trouble", "preempted") if event in events]
    return Message(
        event=grave[0] if grave else last.event,
        title=f"{len(messages)} messages",
        text=lines,
        at=last.at,
        fleet=last.fleet,
    )
