"""Send a message as an entry of fleet_notify says. Errors never contain a secret."""

from __future__ import annotations

import json
import os
import smtplib
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import (
    DEFAULT_LINES,
    DEFAULT_PER_HOUR,
    PORTS,
)

from . import by_apprise
from .message import Message
from .outbox import Way
from .render import as_json, environment, mail, notice, post

SECONDS = 20.0
COMMAND_SECONDS = 60.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class NotSentError(Exception):
    """A message could not be sent; the text says why, without secret addresses."""


class RefusedError(NotSentError):
    """The receiver refused this message; it may accept another one."""


REFUSED = (400, 413, 415, 422)
"""Status codes with which a webhook refuses a message that it does not understand."""


def ways_of(entries: list[dict[str, Any]]) -> list[tuple[Way, dict[str, Any]]]:
    """Return the ways of fleet_notify, each with its entry."""
    found = []
    for number, entry in enumerate(entries, 1):
        kinds = ("command", "mail", "apprise")
        kind = next((kind for kind in kinds if _has(entry, kind)), "webhook")
        way = Way(
            name=str(entry.get("name") or f"{kind}-{number}"),
            events=tuple(entry.get("events") or ()),
            slices=tuple(entry.get("slices") or ()),
            per_hour=int(entry.get("per_hour") or DEFAULT_PER_HOUR),
        )
        found.append((way, entry))
    return found


def what_is_missing(entry: Mapping[str, Any]) -> str:
    """Return why no message at all can be sent this way from here."""
    if _has(entry, "apprise") and not by_apprise.is_there():
        return (
            "apprise is given, but this Python has no such package. "
            "Install it beside tpu-fleet: pip install 'tpu-fleet[apprise]'"
        )
    return ""


def send(message: Message, entry: Mapping[str, Any]) -> None:
    """Send it; return once the receiver has accepted it."""
    lines = entry.get("lines")
    count = DEFAULT_LINES if lines is None else int(lines)
    try:
        if entry.get("command"):
            _command(message, str(entry["command"]), count)
        elif entry.get("mail"):
            _mail(message, entry["mail"], count)
        elif _has(entry, "apprise"):
            _apprise(message, entry, count)
        else:
            _webhook(message, entry, count)
    except NotSentError:
        raise
    # A message that cannot be formatted must not block the others.
    except Exception as error:
        raise RefusedError(f"it cannot be formatted: {type(error).__name__}") from None


def _webhook(message: Message, entry: Mapping[str, Any], lines: int) -> None:
    address = _secret(entry, "webhook")
    token = _secret(entry, "token")
    written = post(message, str(entry.get("format") or "json"), lines)
    headers = {**written.headers, **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        with requests.Session() as session:
            # Do not send a login from ~/.netrc to another host.
            session.trust_env = False
            session.proxies.update(requests.utils.get_environ_proxies(address))
            answer = session.post(
                address,
                data=written.body,
                headers=headers,
                timeout=SECONDS,
                # A redirection must not get the secret part of the address.
                allow_redirects=False,
            )
    except (requests.RequestException, ValueError) as error:
        # Its text contains the address.
        raise NotSentError(f"the webhook cannot be reached: {type(error).__name__}") from None
    if answer.status_code in REFUSED:
        raise RefusedError(f"the webhook refused it with {answer.status_code}")
    if not 200 <= answer.status_code < 300:
        raise NotSentError(f"the webhook answered {answer.status_code}")


def _mail(message: Message, entry: Mapping[str, Any], lines: int) -> None:
    security = str(entry.get("security") or "starttls")
    server, port = str(entry["server"]), int(entry.get("port") or PORTS[security])
    letter = mail(message, str(entry["from"]), [str(to) for to in entry["to"]], lines)
    password = _secret(entry, "password")
    if password and security == "none" and server not in LOOPBACK:
        raise NotSentError("a password is not sent unencrypted; set security: starttls or tls")
    try:
        context = ssl.create_default_context()
        smtp = (
            smtplib.SMTP_SSL(server, port, timeout=SECONDS, context=context)
            if security == "tls"
            else smtplib.SMTP(server, port, timeout=SECONDS)
        )
        with smtp:
            if security == "starttls":
                smtp.starttls(context=context)
            if password:
                smtp.login(str(entry["user"]), password)
            smtp.send_message(letter)
    except smtplib.SMTPAuthenticationError as error:
        raise NotSentError(f"{server} does not accept the login: {error.smtp_code}") from None
    except smtplib.SMTPDataError as error:
        raise RefusedError(f"{server} refused the mail: {error.smtp_code}") from None
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise NotSentError(f"{server}:{port} does not take the mail: {error}") from error


def _apprise(message: Message, entry: Mapping[str, Any], lines: int) -> None:
    missing = what_is_missing(entry)
    if missing:
        raise NotSentError(missing)
    asked = {"address": _secret(entry, "apprise"), **notice(message, lines)}
    try:
        # In a separate process: its log may contain the address, and it would send logins from
        # ~/.netrc to other hosts.
        done = subprocess.run(
            [sys.executable, "-P", "-m", by_apprise.__name__],
            input=json.dumps(asked).encode(),
            env={**os.environ, "NETRC": os.devnull},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotSentError(f"apprise did not end within {COMMAND_SECONDS:.0f} s") from None
    if done.returncode == by_apprise.NO_ADDRESS:
        raise NotSentError("apprise does not understand the address; see appriseit.com/services")
    if done.returncode:
        raise NotSentError("apprise could not send it")


def _command(message: Message, command: str, lines: int) -> None:
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=as_json(message, lines).encode(errors="replace"),
            env={**os.environ, **environment(message)},
            capture_output=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotSentError(f"the command did not end within {COMMAND_SECONDS:.0f} s") from error
    except OSError as error:
        raise NotSentError(f"the command cannot be started: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NotSentError(f"the command ended with {done.returncode}: {(said or ['-'])[-1][:200]}")


def _has(entry: Mapping[str, Any], key: str) -> bool:
    return bool(entry.get(key) or entry.get(f"{key}_file"))


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
