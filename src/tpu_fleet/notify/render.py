"""Format a message for apprise, or for a command. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .message import Message

MOST_BYTES = 3500
"""Bytes of a body: Slack cuts more off, and ntfy makes an attachment of it."""
KINDS = {
    "failed": "failure",
    "finished": "success",
    "loss": "failure",
    "healed": "success",
    "grant_ending": "warning",
    "watcher_trouble": "warning",
}


def as_json(message: Message, lines: int) -> str:
    """Format it for a program."""
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
    """Return the environment variables for a command."""
    return {
        "TPU_FLEET_EVENT": message.event,
        "TPU_FLEET_TITLE": message.title,
        "TPU_FLEET_TEXT": message.text,
        "TPU_FLEET_SLICE": message.slice,
        "TPU_FLEET_RUN": message.run,
    }


def notice(message: Message, lines: int) -> dict[str, str]:
    """Format it for apprise, which adapts it to each service."""
    said = message.text.encode(errors="replace")[: MOST_BYTES // 2].decode(errors="ignore")
    log = _newest(last(message.log, lines), MOST_BYTES - len(said.encode()) - 2)
    return {
        "title": one_line(message.title),
        "body": f"{said}\n\n{log}" if log else said,
        "kind": KINDS.get(message.event, "info"),
    }


def last(lines: Sequence[str], count: int) -> list[str]:
    """Return the last lines of a log."""
    return list(lines[-count:]) if count > 0 else []


def one_line(text: str) -> str:
    """Join a text into one line, for headers."""
    return " ".join(text.split())


def _newest(lines: Sequence[str], room: int) -> str:
    """Return as many of the last lines as fit into a number of bytes."""
    kept: list[str] = []
    for line in reversed(lines):
        room -= len(line.encode(errors="replace")) + 1
        if room < 0:
            break
        kept.insert(0, line)
    return "\n".join(kept)
