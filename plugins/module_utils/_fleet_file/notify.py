# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check which messages `tpu-fleet watch` sends where, by the fleet file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .._schema.keys import (
    Key,
    Problem,
    check_keys,
    duplicates,
    entries,
    text_of,
)
from .._schema.refs import known_slices

EVENTS = (
    "failed",
    "finished",
    "loss",
    "preempted",
    "healed",
    "grant_ending",
    "budget",
    "watcher_trouble",
)
# How a message gets to people: each entry has one of these.
WAYS = ("command", "apprise", "apprise_file")
DEFAULT_LINES = 20
DEFAULT_PER_HOUR = 20
LOOPBACK = ("localhost", "127.0.0.1", "::1")
CLEAR_REMEDY = "Begin the address with mailtos:// in place of mailto://"
SERVICES = "https://appriseit.com/services/ has the addresses of all services"
# The addresses of apprise that replace what webhooks were declared with, by their format.
HOOKS = {
    "json": "jsons://HOST/PATH (https://HOST/PATH; +Authorization=Bearer%20TOKEN at its end adds a "
    "token)",
    "slack": "slack://A/B/C (https://hooks.slack.com/services/A/B/C)",
    "ntfy": "ntfys://TOKEN@HOST/TOPIC (https://HOST/TOPIC)",
}
MAILS = {
    "starttls": "mailtos://{login}{host}?smtp={server}&port={port}&from={sender}&to={to}",
    "tls": "mailtos://{login}{host}?smtp={server}&port={port}&mode=ssl&from={sender}&to={to}",
    "none": "mailto://{login}{host}?smtp={server}&port={port}&from={sender}&to={to}",
}
PORTS = {"starttls": 587, "tls": 465, "none": 25}
WERE = ("webhook", "webhook_file", "mail", "format", "token", "token_file")
"""Keys of an entry whose place apprise has taken."""

NOTIFY = {
    "name": Key(
        description="Name in logs and in `tpu-fleet watch status`.",
        default="its way and its number",
    ),
    "events": Key(
        "list",
        elements="str",
        choices=EVENTS,
        description="The events of which it notifies.",
        default="everything",
    ),
    "slices": Key(
        "list",
        elements="str",
        description="Only the events of these slices, and those of no slice.",
        default="all",
    ),
    "command": Key(
        description="A command line for `/bin/sh` on the watcher's computer. Its input is the "
        "message as JSON."
    ),
    "apprise": Key(
        secret=True,
        description="An address of [apprise](https://appriseit.com/services/), for over "
        "a hundred services: `slack://…`, `ntfys://…`, `mailtos://…`, `jsons://…`. As good as a "
        "password: take it from a vault, or use `apprise_file`.",
    ),
    "apprise_file": Key(
        description="A file of this computer that holds the address. It is read for each message."
    ),
    "lines": Key(
        "int",
        description="How many of the last lines of a log a message carries.",
        default=str(DEFAULT_LINES),
    ),
    "per_hour": Key(
        "int",
        description="How many messages an hour at most. What is more comes later, as one.",
        default=str(DEFAULT_PER_HOUR),
    ),
}

NOTIFIED = {"fleet_notify": Key("list", elements="dict", options=NOTIFY)}


def check_notify(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with it; values that may be secret are not shown."""
    problems = _replaced(data) or check_keys("", data, NOTIFIED, among=())
    # What has the wrong shape would only be misunderstood.
    return problems or _rules(data)


def password_in_clear(address: str) -> bool:
    """Return whether a mail by this address would send a password without encryption."""
    try:
        parts = urlsplit(address)
        said = {key.lower(): values[-1] for key, values in parse_qs(parts.query).items()}
    except ValueError:
        return False
    encrypts = {"mailto": ("ssl", "starttls"), "mailtos": ("", "ssl", "starttls")}
    if parts.scheme not in encrypts or said.get("mode", "").lower() in encrypts[parts.scheme]:
        return False
    here = (said.get("smtp") or parts.hostname) in LOOPBACK
    return bool(parts.password or said.get("pass")) and not here


def _replaced(data: Mapping[str, Any]) -> list[Problem]:
    """Return what apprise has replaced, each with the address that takes its place."""
    problems = []
    for field, entry in entries(data, "fleet_notify"):
        key = next((key for key in WERE if key in entry), "")
        if key:
            place = "apprise_file" if key.endswith("_file") else "apprise"
            remedy = f"Write {place}, with the address {_address_of(entry)}. {SERVICES}"
            problems.append(Problem(f"{field}.{key}", None, "is replaced by apprise", remedy))
    return problems


def _address_of(entry: Mapping[str, Any]) -> str:
    """Return the address of apprise for an entry, with names in place of its secrets."""
    mail = entry.get("mail")
    if not isinstance(mail, Mapping):
        return HOOKS.get(str(entry.get("format") or "json"), HOOKS["json"])
    security, to = str(mail.get("security") or "starttls"), mail.get("to")
    sender = str(mail.get("from") or "FROM")
    return MAILS.get(security, MAILS["starttls"]).format(
        login="USER:PASSWORD@" if mail.get("user") else "",
        host=sender.rpartition("@")[2],
        server=mail.get("server") or "SERVER",
        port=mail.get("port") or PORTS.get(security, PORTS["starttls"]),
        sender=sender,
        to=",".join(map(str, to)) if isinstance(to, list) else "TO",
    )


def _rules(data: Mapping[str, Any]) -> list[Problem]:
    problems = duplicates(data, "fleet_notify", "name", "Give each its own name")
    for field, entry in entries(data, "fleet_notify"):
        problems += _ways(field, entry)
        problems += _address(field, entry)
        problems += _numbers(field, entry)
        # The watcher's own settings come without slices.
        if data.get("fleet_slices"):
            problems += known_slices(data, field, entry)
    return problems


def _ways(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    given = [way for way in WAYS if entry.get(way)]
    if len(given) == 1:
        return []
    message = f"has {' and '.join(given)}" if given else "names no way to send messages"
    return [Problem(field, None, message, f"Give one of {', '.join(WAYS)}")]


def _address(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    address = text_of(entry, "apprise")
    # A template stands for what only Ansible knows.
    if not address or address.startswith("{{"):
        return []
    if "://" not in address:
        remedy = "Give the whole address, as discord://…"
        return [Problem(f"{field}.apprise", None, "is not an address of apprise", remedy)]
    if password_in_clear(address):
        message = "would send a password unencrypted"
        return [Problem(f"{field}.apprise", None, message, CLEAR_REMEDY)]
    return []


def _numbers(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for key, least in (("lines", 0), ("per_hour", 1)):
        value = entry.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value < least:
            remedy = f"Write {least} or more"
            problems.append(Problem(f"{field}.{key}", value, "is too small", remedy))
    return problems
