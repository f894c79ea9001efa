"""Read what a grant mail allows. Pure; what is not clear is never guessed.

The TPU Research Cloud writes a line for each quota, and for how many days all of them are free.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import (
    chips_of,
    generation_of,
)

ZONE = r"[a-z]+-[a-z]+\d+-[a-z]"
GENERATIONS = {
    "v2": "v2",
    "v3": "v3",
    "v4": "v4",
    "v5e": "v5e",
    "v5litepod": "v5e",
    "v5p": "v5p",
    "v6e": "v6e",
}
TIERS = {
    "ondemand": "on_demand",
    "spot": "spot",
    "preemptible": "spot",
    "reserved": "reserved",
}
_TPU = r"v5litepod(?:-\d+)?|v\d+[a-z]*(?:-\d+)?"
_UNIT = r"chips?|devices?\(s\)|devices?|cores?"

# "32 on-demand Cloud TPU v4 chips in zone us-central2-b"
_SENTENCE = re.compile(
    r"(?:\bup\s+to\s+)?(?<![\w.,-])(?P<number>\d+)\s+"
    r"(?:(?P<tier>on[- ]?demand|spot|preemptible|reserved)\s+)?"
    rf"(?:(?:google\s+)?cloud\s+)?(?:tpus?\s+)?(?P<tpu>{_TPU})"
    rf"(?:\s+tpus?)?(?:\s+(?P<unit>{_UNIT}))?(?![\w(])"
    rf"(?:\s+(?:in|at)\s+(?:the\s+)?(?:zone\s+)?(?P<zone>{ZONE})(?![\w-]))?",
    re.IGNORECASE,
)
_FREE = re.compile(r"\b(?:free|access|quota|grant|trial)\b", re.IGNORECASE)
_DAYS = re.compile(r"\b(\d+)[- ]days?\b", re.IGNORECASE)
# What people quote, list and set in bold with.
_ORNAMENT = re.compile(r"^(?:\s*(?:[>|]|[-*+\u2022\u2013](?=\s|\*|\d)|\(?\d{1,2}[.)](?=\s))\s*)+")
# What may stand around a quota without changing its meaning: not "or", "each", "no".
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        "a also an and are access charge days following for free from gives grant granted has have "
        "is it its now of on plus project quota the this to trial with you your",
    )
)
_COMMAND = re.compile(r"--zone|--accelerator|\bgcloud\b|^\s*\$ ")
_HEADER = re.compile(r"(?:from|to|cc|date|sent|subject|reply-to):\s", re.IGNORECASE)
_HINTS = re.compile(rf"\b(?:{ZONE})(?![\w-])|\b(?:{_TPU})\b.*\b(?:{_UNIT})", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """One line of the grant."""

    zone: str
    tier: str
    generation: str | None = None
    accelerator_type: str | None = None
    chips: int | None = None
    count: int | None = None
    ends: date | None = None


@dataclass(frozen=True)
class Unclear:
    """A line that says something about the grant, but not all of it."""

    line: int
    text: str
    why: str


@dataclass
class Mail:
    """What was read: entries, what could not be, and for how many days it is all meant to last."""

    entries: list[Entry] = field(default_factory=list)
    unclear: list[Unclear] = field(default_factory=list)
    days: int | None = None


class Doubt(Exception):
    """Why something cannot be read for sure."""


def read_mail(text: str) -> Mail:
    """Read the whole text: the lines of the grant, and the prose around them."""
    mail = Mail()
    lines = [_plain(line) for line in text.splitlines()]
    seen: dict[Entry, int] = {}
    span: dict[int, int] = {}
    index = 0
    while index < len(lines):
        line, number = lines[index], index + 1
        index += 1
        if _COMMAND.search(line) or _HEADER.match(line):
            continue
        following = lines[index] if index < len(lines) else ""
        if _wraps(line, following):
            index += 1
            line = f"{line} {following}"
        try:
            if _HINTS.search(line):
                for entry in _entries(line):
                    if entry in seen:
                        raise Doubt(f"says the same as line {seen[entry]}: is it meant twice?")
                    seen[entry] = number
                    mail.entries.append(entry)
                days = _DAYS.findall(line)
            else:
                # A sentence may go on in the next line.
                days = _DAYS.findall(f"{line} {following}") if _FREE.search(line) else []
            for count in days:
                span.setdefault(int(count), number)
        except Doubt as doubt:
            mail.unclear.append(Unclear(number, line, str(doubt)))
    if len(span) > 1:
        listed = ", ".join(f"{count} in line {number}" for count, number in span.items())
        mail.unclear.append(Unclear(max(span.values()), listed, "names two lengths of time"))
    else:
        mail.days = next(iter(span), None)
    return mail


def with_ends(mail: Mail, ends: date | None, start: date | None) -> list[Entry]:
    """Return the entries with their last day.

    Days are counted with the first: 30 days from the 1st end with the 30th.
    """
    if ends is None and mail.days is not None and start is not None:
        ends = start + timedelta(days=mail.days - 1)
    return [replace(entry, ends=ends) for entry in mail.entries]


def _plain(line: str) -> str:
    """Take quotation marks of mails, bullets and emphasis off a line."""
    line = line.replace("\u00a0", " ").replace("\u2011", "-").replace("**", "").replace("`", "")
    return _ORNAMENT.sub("", line).strip()


def _wraps(line: str, following: str) -> bool:
    """Say whether a quota goes on in the next line."""
    if not following or _SENTENCE.match(following):
        return False
    own = list(_SENTENCE.finditer(line))
    if own and own[-1]["zone"]:
        return False
    both = list(_SENTENCE.finditer(f"{line} {following}"))
    starts_here = bool(both) and both[-1].start() < len(line) < both[-1].end()
    return starts_here and bool(both[-1]["zone"])


def _entries(line: str) -> list[Entry]:
    """Read a line of the grant, of which every word has to be understood."""
    found = [_entry(match) for match in _SENTENCE.finditer(line)]
    if not found:
        raise Doubt(_what_is_missing(line))
    rest = _DAYS.sub(" ", _SENTENCE.sub(" ", line).lower())
    more = [word for word in re.findall(r"\w+", rest) if word not in _FILLERS]
    if more:
        raise Doubt(f"says more than can be read: {' '.join(more)}")
    return found


def _what_is_missing(line: str) -> str:
    if not re.search(rf"\b(?:{_TPU})\b", line, re.IGNORECASE):
        return "names a zone, but no TPU"
    if not re.search(r"(?<![\w-])\d+(?![\w-])", line):
        return "does not say how many"
    return "cannot be read"


def _entry(said: re.Match[str]) -> Entry:
    """Put a line together, or say what it lacks."""
    if not said["zone"]:
        raise Doubt("names no zone")
    if not said["tier"]:
        raise Doubt("does not say whether it is on demand, spot or reserved")
    if not said["unit"]:
        raise Doubt("counts neither chips nor devices")
    amount = int(said["number"])
    if amount < 1:
        raise Doubt("counts none")
    kind = re.sub(r"^v5e(?=-)", "v5litepod", said["tpu"].lower())
    base = Entry(said["zone"].lower(), TIERS[re.sub(r"[- ]", "", said["tier"].lower())])
    sized, what = "-" in kind, said["unit"].lower().replace("(s)", "").rstrip("s")
    if generation_of(kind) is None if sized else kind not in GENERATIONS:
        raise Doubt(f"names {said['tpu']}, which is not known")
    if what == "core":
        raise Doubt("counts cores, not chips")
    if what == "chip":
        if sized:
            raise Doubt(f"counts chips of {said['tpu']}, which is itself a number of chips")
        return replace(base, generation=GENERATIONS[kind], chips=amount)
    if not sized or chips_of(kind) is None:
        raise Doubt(f"counts devices, but not of which size: {said['tpu']} has many")
    return replace(base, accelerator_type=kind, count=amount)
