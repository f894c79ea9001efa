"""Send a message as an entry of fleet_notify says. Errors never contain a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import (
    CLEAR_REMEDY,
    DEFAULT_LINES,
    DEFAULT_PER_HOUR,
    password_in_clear,
)

from .message import Message
from .outbox import Way
from .render import as_json, environment, notice

SECONDS = 60.0
APPRISE = f"{__package__}.by_apprise"
# What this module exits with. It is not imported, because that takes as long as to send a message.
NO_ADDRESS, REFUSED = 4, 5


class NotSentError(Exception):
    """A message could not be sent; the text says why, without secret addresses."""


class RefusedError(NotSentError):
    """The receiver refused this message; it may accept another one."""


def ways_of(entries: Sequence[dict[str, Any]]) -> list[tuple[Way, dict[str, Any]]]:
    """Return the ways of fleet_notify, each with its entry."""
    found = []
    for number, entry in enumerate(entries, 1):
        kind = "command" if entry.get("command") else "apprise"
        way = Way(
            name=str(entry.get("name") or f"{kind}-{number}"),
            events=tuple(entry.get("events") or ()),
            slices=tuple(entry.get("slices") or ()),
            per_hour=int(entry.get("per_hour") or DEFAULT_PER_HOUR),
        )
        found.append((way, entry))
    return found


def send(message: Message, entry: Mapping[str, Any]) -> None:
    """Send it; return once the receiver has accepted it."""
    lines = entry.get("lines")
    count = DEFAULT_LINES if lines is None else int(lines)
    try:
        if entry.get("command"):
            _command(message, str(entry["command"]), count)
        else:
            _apprise(message, entry, count)
    except NotSentError:
        raise
    # A message that cannot be formatted must not block the others.
    except Exception as error:
        raise RefusedError(f"it cannot be formatted: {type(error).__name__}") from None


def _apprise(message: Message, entry: Mapping[str, Any], lines: int) -> None:
    address = _secret(entry, "apprise")
    if password_in_clear(address):
        raise NotSentError(f"a password is not sent unencrypted. {CLEAR_REMEDY}")
    asked = {"address": address, **notice(message, lines)}
    try:
        # In a separate process: its log may contain the address, and it would send logins from
        # ~/.netrc to other hosts.
        done = subprocess.run(
            [sys.executable, "-P", "-m", APPRISE],
            input=json.dumps(asked).encode(),
            env={**os.environ, "NETRC": os.devnull},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotSentError(f"apprise did not end within {SECONDS:.0f} s") from None
    if done.returncode == NO_ADDRESS:
        raise NotSentError("apprise does not understand the address; see appriseit.com/services")
    if done.returncode == REFUSED:
        raise RefusedError("the receiver refused it")
    if done.returncode:
        raise NotSentError("apprise could not send it")


def _command(message: Message, command: str, lines: int) -> None:
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=as_json(message, lines).encode(errors="replace"),
            env={**os.environ, **environment(message)},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotSentError(f"the command did not end within {SECONDS:.0f} s") from error
    except OSError as error:
        raise NotSentError(f"the command cannot be started: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NotSentError(f"the command ended with {done.returncode}: {(said or ['-'])[-1][:200]}")


def _secret(entry: Mapping[str, Any], key: str) -> str:
    """Return a secret: the given one, or the present content of its file."""
    if entry.get(key):
        return str(entry[key]).strip()
    path = entry.get(f"{key}_file")
    if not path:
        return ""
    try:
        text = Path(str(path)).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotSentError(f"{path} cannot be read: {error}") from error
    if not text:
        raise NotSentError(f"{path} is empty")
    return text
