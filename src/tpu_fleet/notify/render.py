"""Write a message as apprise, a program or a command wants it. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .message import Message

KINDS = {
    "failed": "failure",
    "finished": "success",
    "healed": "success",
    "grant_ending": "warning",
    "watcher_trouble": "warning",
}


def as_json(message: Message, lines: int) -> str:
    """Write it for a program."""
    parts = {
        "event": message.event,
        "title": message.title,
        "text": message.text,
        "at": message.when,
        "fleet": message.fleet,
        "slice": message.slice,
        "run": message.run,
        "log": last(message.log, lines),
    }
    return json.dumps(parts, ensure_ascii=False)


def environment(message: Message) -> dict[str, str]:
    """Return what a command finds in its environment."""
    return {
        "TPU_FLEET_EVENT": message.event,
        "TPU_FLEET_TITLE": message.title,
        "TPU_FLEET_TEXT": message.text,
        "TPU_FLEET_SLICE": message.slice,
        "TPU_FLEET_RUN": message.run,
    }


def notice(message: Message, lines: int) -> dict[str, str]:
    """Write it as apprise takes it, which fits it to each service."""
    return {
        "title": one_line(message.title),
        "body": "\n".join([message.text, *last(message.log, lines)]),
        "kind": KINDS.get(message.event, "info"),
    }


def last(lines: Sequence[str], count: int) -> list[str]:
    """Return the last lines of a log."""
    return list(lines[-count:]) if count > 0 else []


def one_line(text: str) -> str:
    """Make one line of a text, for headers."""
    return " ".join(text.split())
