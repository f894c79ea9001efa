"""Messages for people, independent of their format. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown, shown_text

LINES, WIDTH = 200, 2000
"""Maximum lines and characters per line: every receiver has a limit."""


@dataclass(frozen=True)
class Message:
    """One event."""

    event: str
    """failed, finished, loss, preempted, healed, grant_ending or watcher_trouble."""
    title: str
    text: str
    at: float
    """Seconds since 1970."""
    fleet: str = ""
    """The project, and the owner if it is not the default."""
    slice: str = ""
    run: str = ""
    log: tuple[str, ...] = ()
    """The last lines of the log that belongs to it, if any."""
    key: str = ""
    """Of messages with the same key, one is sent, also across restarts."""
    refusals: int = 0
    """How often a receiver has refused this message."""

    def __post_init__(self) -> None:
        """Clean every text, because workers and their users wrote some of it."""
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
        """Parse such a file."""
        return cls(**{**data, "log": tuple(data.get("log") or ())})


def digest(messages: Sequence[Message]) -> Message:
    """Combine messages that had to wait into one."""
    if len(messages) == 1:
        return messages[0]
    last = messages[-1]
    # A receiver may cut the end: the grant comes first, the slice with the most messages last.
    many = Counter(message.slice for message in messages)
    first = sorted(messages, key=lambda one: (one.event != "grant_ending", many[one.slice]))
    lines = "\n".join(f"{message.when[11:19]} {message.title}" for message in first)
    events = {message.event for message in messages}
    # The most severe event decides the priority.
    grave = [
        event for event in ("failed", "loss", "watcher_trouble", "preempted") if event in events
    ]
    return Message(
        event=grave[0] if grave else last.event,
        title=f"{len(messages)} messages",
        text=lines,
        at=last.at,
        fleet=last.fleet,
    )
