# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fleet file says of whom `tpu-fleet watch` tells what, and how. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._schema.keys import (
    Key,
    Problem,
    check_keys,
    duplicates,
    entries,
    text_of,
    texts_of,
)
from .._schema.refs import known

EVENTS = (
    "failed",
    "finished",
    "loss",
    "preempted",
    "healed",
    "grant_ending",
    "watcher_trouble",
)
FORMATS = ("json", "slack", "ntfy")
SECURITY = ("starttls", "tls", "none")
# How a message gets to people: each entry has one of these.
WAYS = ("command", "mail", "webhook", "webhook_file", "apprise", "apprise_file")
DEFAULT_LINES = 20
DEFAULT_PER_HOUR = 20
PORTS = {"starttls": 587, "tls": 465, "none": 25}

MAIL = {
    "to": Key("list", required=True, elements="str", description="Addresses that get it."),
    "from": Key(required=True, description="Whom it is from."),
    "server": Key(required=True, description="The SMTP server."),
    "port": Key("int", description="Its port.", default="587, 465 or 25, by `security`"),
    "security": Key(
        choices=SECURITY,
        description="`starttls` and `tls` check the server's certificate. `none` sends in the "
        "clear, and never a password except to this computer itself.",
        default="starttls",
    ),
    "user": Key(description="Login at the server.", default="no login"),
    "password": Key(
        secret=True, description="Its password, from a vault. This, or `password_file`."
    ),
    "password_file": Key(
        description="A file of this computer that holds it. It is read for each mail."
    ),
}

NOTIFY = {
    "name": Key(
        description="Name in logs and in `tpu-fleet watch --status`.",
        default="its way and its number",
    ),
    "events": Key(
        "list",
        elements="str",
        choices=EVENTS,
        description="The events of which it notifies. See [watch.md](watch.md).",
        default="everything",
    ),
    "slices": Key(
        "list",
        elements="str",
        description="Only the events of these slices, and those of no slice.",
        default="all",
    ),
    "command": Key(
        description="A command line for `/bin/sh` on the computer where the watcher runs. It finds "
        "the message as JSON in its input, and the main parts in its environment."
    ),
    "mail": Key("dict", options=MAIL, description="A mail."),
    "webhook": Key(
        secret=True,
        description="An address that gets a POST. As good as a password: take it from a vault, or "
        "use `webhook_file`.",
    ),
    "webhook_file": Key(
        description="A file of this computer that holds the address. It is read for each message."
    ),
    "apprise": Key(
        secret=True,
        description="An address of [apprise](https://appriseit.com/services/), as `discord://…`, "
        "with the extra `apprise` (`pip install 'tpu-fleet[apprise]'`). As good as a password: "
        "take it from a vault, or use `apprise_file`.",
    ),
    "apprise_file": Key(
        description="A file of this computer that holds the address. It is read for each message."
    ),
    "format": Key(choices=FORMATS, description="What the webhook gets.", default="json"),
    "token": Key(secret=True, description="Sent to the webhook as `Authorization: Bearer`."),
    "token_file": Key(description="A file of this computer that holds it."),
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
    problems = check_keys("", data, NOTIFIED, among=())
    # What has the wrong shape would only be misunderstood.
    return problems or _rules(data)


def _rules(data: Mapping[str, Any]) -> list[Problem]:
    problems = duplicates(data, "fleet_notify", "name", "Give each its own name")
    for field, entry in entries(data, "fleet_notify"):
        problems += _ways(field, entry)
        problems += _addresses(field, entry)
        problems += _mail(field, entry)
        problems += _numbers(field, entry)
        for place, name in texts_of(entry, "slices"):
            # The watcher checks what it is told alone.
            if data.get("fleet_slices"):
                at = f"{field}.slices[{place}]"
                problems += known(data, at, name, "slice", "fleet_slices")
    return problems


def _ways(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    given = [way for way in WAYS if entry.get(way)]
    if len(given) == 1:
        return []
    message = f"has {' and '.join(given)}" if given else "says no way to tell anybody"
    return [Problem(field, None, message, f"Give one of {', '.join(WAYS)}")]


def _addresses(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    problems = []
    address = text_of(entry, "webhook")
    # A template stands for what only Ansible knows.
    if address and not address.startswith(("https://", "http://", "{{")):
        remedy = "Give the whole address, from https:// on"
        problems.append(Problem(f"{field}.webhook", None, "is not a web address", remedy))
    address = text_of(entry, "apprise")
    if address and "://" not in address and not address.startswith("{{"):
        remedy = "Give the whole address, as discord://…"
        problems.append(Problem(f"{field}.apprise", None, "is not an address of apprise", remedy))
    if not (entry.get("webhook") or entry.get("webhook_file")):
        for key in ("format", "token", "token_file"):
            if entry.get(key):
                message, remedy = "is for webhooks only", "Leave it out"
                problems.append(Problem(f"{field}.{key}", None, message, remedy))
    return problems + _not_both(field, entry, "token")


def _mail(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    mail = entry.get("mail")
    if not isinstance(mail, Mapping):
        return []
    problems = _not_both(f"{field}.mail", mail, "password")
    for key in ("to", "from"):
        value = mail.get(key)
        found = value if isinstance(value, list) else [value]
        for address in found:
            if isinstance(address, str) and address and ("@" not in address or "\n" in address):
                message, remedy = "is not a mail address", "Write it as name@example.org"
                problems.append(Problem(f"{field}.mail.{key}", address, message, remedy))
    if (mail.get("password") or mail.get("password_file")) and not mail.get("user"):
        message, remedy = "is missing, as a password is given", "Set it, or take the password out"
        problems.append(Problem(f"{field}.mail.user", None, message, remedy))
    return problems


def _numbers(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for key, least in (("lines", 0), ("per_hour", 1)):
        value = entry.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value < least:
            remedy = f"Write {least} or more"
            problems.append(Problem(f"{field}.{key}", value, "is too small", remedy))
    return problems


def _not_both(field: str, entry: Mapping[str, Any], key: str) -> list[Problem]:
    if not (entry.get(key) and entry.get(f"{key}_file")):
        return []
    return [Problem(f"{field}.{key}_file", None, f"is given beside {key}", "Give one of them")]
