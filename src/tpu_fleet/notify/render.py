"""Format a message for Slack, ntfy, apprise, mail, a program or a command. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

from .message import Message

# ntfy turns a longer message into an attachment; Slack cuts a block off.
NTFY_BYTES = 4000
SLACK_CHARACTERS = 3500
PRIORITY = {"failed": "high", "loss": "high", "watcher_trouble": "high", "grant_ending": "high"}
KINDS = {
    "failed": "failure",
    "finished": "success",
    "loss": "failure",
    "healed": "success",
    "grant_ending": "warning",
    "watcher_trouble": "warning",
}
TAGS = {
    "failed": "x",
    "finished": "white_check_mark",
    "loss": "chart_with_upwards_trend",
    "preempted": "zap",
    "healed": "adhesive_bandage",
    "grant_ending": "hourglass",
    "watcher_trouble": "warning",
}


@dataclass(frozen=True)
class Post:
    """The body and headers for a webhook."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def post(message: Message, form: str, lines: int) -> Post:
    """Format it for a webhook."""
    return {"slack": _slack, "ntfy": _ntfy, "json": _json}[form](message, lines)


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


def mail(message: Message, sender: str, to: Sequence[str], lines: int) -> EmailMessage:
    """Format it as a mail."""
    letter = EmailMessage()
    letter["Subject"] = one_line(f"[{message.fleet or 'tpu-fleet'}] {message.title}")
    letter["From"] = sender
    letter["To"] = ", ".join(to)
    letter["Date"] = format_datetime(datetime.fromtimestamp(message.at, UTC))
    letter["Auto-Submitted"] = "auto-generated"
    log = last(message.log, lines)
    tail = ["", "The last lines of its log:", "", *(f"  {line}" for line in log)] if log else []
    end = ["", "-- ", f"tpu-fleet watch, {message.when}", ""]
    letter.set_content("\n".join([message.text, *tail, *end]))
    return letter


def notice(message: Message, lines: int) -> dict[str, str]:
    """Format it for apprise, which adapts it to each service."""
    return {
        "title": one_line(message.title),
        "body": "\n".join([message.text, *last(message.log, lines)]),
        "kind": KINDS.get(message.event, "info"),
    }


def last(lines: Sequence[str], count: int) -> list[str]:
    """Return the last lines of a log."""
    return list(lines[-count:]) if count > 0 else []


def one_line(text: str) -> str:
    """Join a text into one line, for headers."""
    return " ".join(text.split())


def _json(message: Message, lines: int) -> Post:
    return Post(
        as_json(message, lines).encode(errors="replace"), {"Content-Type": "application/json"}
    )


def _slack(message: Message, lines: int) -> Post:
    said = f"*{_escaped(message.title)}*\n{_escaped(message.text)}"[:SLACK_CHARACTERS]
    room = SLACK_CHARACTERS - len(said) - 10
    log = _newest([_escaped(line) for line in last(message.log, lines)], room)
    text = f"{said}\n```{log}```" if log else said
    return Post(json.dumps({"text": text}).encode(), {"Content-Type": "application/json"})


def _ntfy(message: Message, lines: int) -> Post:
    said = message.text.encode(errors="replace")[: NTFY_BYTES // 2].decode(errors="ignore")
    room = NTFY_BYTES - len(said.encode()) - 2
    log = _newest(last(message.log, lines), room)
    headers = {
        # Headers are ASCII, and so are names of slices and runs.
        "Title": one_line(message.title).encode("ascii", "replace").decode(),
        "Priority": PRIORITY.get(message.event, "default"),
        "Tags": TAGS.get(message.event, "information_source"),
    }
    return Post((f"{said}\n\n{log}" if log else said).encode(errors="replace"), headers)


def _newest(lines: Sequence[str], room: int) -> str:
    """Return as many of the last lines as fit into a number of bytes."""
    kept: list[str] = []
    for line in reversed(lines):
        room -= len(line.encode(errors="replace")) + 1
        if room < 0:
            break
        kept.insert(0, line)
    return "\n".join(kept)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
