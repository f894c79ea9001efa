"""Parse a grant mail. Pure; unclear lines are never guessed.

The TPU Research Cloud writes one line for each quota, and for how many days all of them are free.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import (
    chips_of,
    generation_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.accelerators import API_ENUM
from ansible_collections.tpu.fleet.plugins.module_utils._schema.values import ZONE_SHAPE

from ..begin.answers import list_variable

_KEYS = ("zone", "generation", "accelerator_type", "tier", "chips", "count", "ends", "api")
EXAMPLE = "32 on-demand Cloud TPU v4 chips in zone us-central2-b"

_LINE = re.compile(
    r"(?P<number>\d+) (?P<tier>on[- ]demand|spot|preemptible|reserved) "
    r"(?:Cloud )?(?:TPU )?(?P<tpu>v[\w-]+) (?P<unit>chips?|devices?|device\(s\)) "
    rf"in (?:zone )?(?P<zone>{ZONE_SHAPE.pattern})[.,]?",
    re.IGNORECASE,
)
# Quotation marks of mails, bullets and emphasis.
_ORNAMENT = re.compile(r"^[\s>*\u2022-]+|[\s*]+$")
_GRANT = re.compile(
    rf"\b{ZONE_SHAPE.pattern}\b|\bv\d\w*(?:-\d+)? (?:chip|device|core)", re.IGNORECASE
)
_FREE = re.compile(r"\b(?:free|access|quota|grant|trial)\b|免费|试用|为期|有效期", re.IGNORECASE)
_DAYS = re.compile(r"(?<![A-Za-z0-9_.])(\d+)(?:[- ]days?\b|\s*天)", re.IGNORECASE)
_OTHER = re.compile(r".*--zone|.*\bgcloud\b|\$ |(?:from|to|cc|date|sent|subject):\s", re.IGNORECASE)


@dataclass(frozen=True)
class GrantEntry:
    """One line of the grant."""

    zone: str
    tier: str
    generation: str | None = None
    accelerator_type: str | None = None
    chips: int | None = None
    count: int | None = None
    ends: date | None = None
    api: str | None = None


@dataclass(frozen=True)
class Unclear:
    """A line about the grant that is unclear, and why."""

    line: int
    text: str
    why: str


@dataclass
class Mail:
    """The content of a mail: entries, unclear lines, and the number of days of the grant."""

    entries: list[GrantEntry] = field(default_factory=list)
    unclear: list[Unclear] = field(default_factory=list)
    days: int | None = None


class Doubt(Exception):
    """Why a line is unclear."""


def read_mail(text: str) -> Mail:
    """Parse the whole text: the lines of the grant, and the prose around them."""
    mail = Mail()
    lines = [_ORNAMENT.sub("", line) for line in text.splitlines()]
    span: dict[int, int] = {}
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=False), 1):
        if _OTHER.match(line):
            continue
        if _GRANT.search(line):
            try:
                entry = _entry(line)
                if entry in mail.entries:
                    raise Doubt("repeats an earlier line: is it meant twice?")
                mail.entries.append(entry)
            except Doubt as doubt:
                mail.unclear.append(Unclear(number, line, str(doubt)))
        elif _FREE.search(line):
            # A sentence may go on in the next line.
            for count in _DAYS.findall(f"{line} {following}"):
                span.setdefault(int(count), number)
    if len(span) > 1:
        listed = ", ".join(f"{count} in line {number}" for count, number in span.items())
        mail.unclear.append(Unclear(max(span.values()), listed, "names two durations"))
    else:
        mail.days = next(iter(span), None)
    return mail


def with_ends(mail: Mail, ends: date | None, start: date | None) -> list[GrantEntry]:
    """Return the entries with their last day.

    The first day counts: 30 days from the 1st end with the 30th.
    """
    if ends is None and mail.days is not None and start is not None:
        ends = start + timedelta(days=mail.days - 1)
    return [replace(entry, ends=ends) for entry in mail.entries]


def as_yaml(entries: Sequence[GrantEntry], end: str | None = None) -> str:
    """Write entries as in a fleet file, and add an end to those without one."""
    written = [
        {key: getattr(entry, key) for key in _KEYS} | {"ends": entry.ends or end}
        for entry in entries
    ]
    return list_variable("fleet_allocations", written) + "\n"


def _entry(line: str) -> GrantEntry:
    """Parse a line of the grant; every word must be understood."""
    said = _LINE.fullmatch(" ".join(line.split()))
    if not said or int(said["number"]) < 1:
        raise Doubt(f"is not of the form: {EXAMPLE}")
    amount, kind = int(said["number"]), said["tpu"].lower()
    word = said["tier"].lower().replace("-", "_").replace(" ", "_")
    base = GrantEntry(said["zone"].lower(), "spot" if word == "preemptible" else word)
    if said["unit"].lower().startswith("chip"):
        kind = kind.replace("v5litepod", "v5e")
        if kind not in API_ENUM:
            raise Doubt(f"counts chips, but {said['tpu']} is no known generation")
        return replace(base, generation=kind, chips=amount)
    kind = kind.replace("v5e-", "v5litepod-")
    if generation_of(kind) is None or chips_of(kind) is None:
        raise Doubt(f"counts devices, but {said['tpu']} is no known type, which has a size")
    return replace(base, accelerator_type=kind, count=amount)
