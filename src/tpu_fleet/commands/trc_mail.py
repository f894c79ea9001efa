"""Read what a grant mail, or the table in it, allows. Pure; what is not clear is never guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import TypeVar

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import (
    chips_of,
    generation_of,
)

T = TypeVar("T")

ZONE = r"[a-z]+-[a-z]+\d+-[a-z]"
GENERATIONS = {
    "v2": "v2",
    "v3": "v3",
    "v4": "v4",
    "v5e": "v5e",
    "v5litepod": "v5e",
    "v5lite": "v5e",
    "v5p": "v5p",
    "v6e": "v6e",
}
TIERS = {
    "ondemand": "on_demand",
    "spot": "spot",
    "preemptible": "spot",
    "preemptable": "spot",
    "reserved": "reserved",
}
_TIER = r"on[-_ ]?demand|spot|preempt[ai]ble|reserved"
_VM = r"(?:\s+VMs?)?"
_TPU = r"v5[-_ ]?lite(?:pod)?(?:-\d+)?|v\d+[a-z]*(?:-\d+)?"
_UNIT = r"chips?|devices?\(s\)|devices?|cores?|tensorcores?"

# "32 on-demand Cloud TPU v4 chips in zone us-central2-b"
_SENTENCE = re.compile(
    rf"(?:\bup\s+to\s+)?(?<![\w.,-])(?P<number>\d+|\d{{1,3}}(?:,\d{{3}})+)\s*x?\s+"
    rf"(?:(?P<tier>{_TIER}){_VM}\s+)?(?:(?:google\s+)?cloud\s+)?(?:tpus?\s+)?(?P<tpu>{_TPU})"
    rf"(?:\s+tpus?)?(?:\s+(?P<unit>{_UNIT}))?(?![\w(])"
    rf"(?:\s+(?:in|at)\s+(?:the\s+)?(?:zone\s+)?(?P<zone>{ZONE})(?![\w-]))?",
    re.IGNORECASE,
)
_DAYS = re.compile(r"\b(\d+)[- ]days?\b", re.IGNORECASE)
_ENDING = re.compile(
    r"\b(?:until|till|through|thru|expir\w*|ends?|ending|valid\s+to|last\s+day)\b", re.IGNORECASE
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?P<{0}>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"(?<!\d)(?:"
    r"(?P<y1>\d{4})[-/.](?P<m1>\d{1,2})[-/.](?P<d1>\d{1,2})"
    rf"|{_MONTH.format('n2')}\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y2>\d{{4}})"
    rf"|(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?[-\s]+(?:of\s+)?{_MONTH.format('n3')}[-,\s]+(?P<y3>\d{{4}})"
    r"|(?P<a4>\d{1,2})[-/.](?P<b4>\d{1,2})[-/.](?P<y4>\d{4})"
    r")(?!\d)",
    re.IGNORECASE,
)
# What people quote, list and set in bold with.
_ORNAMENT = re.compile(r"^(?:\s*(?:[>|]|[-*+\u2022\u2013](?=\s|\*|\d)|\(?\d{1,2}[.)](?=\s))\s*)+")
# What may stand around the lines of a grant without changing their meaning: not "or", "each", "no".
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        "a also an and are access charge day end ending ends expire expires expiring following for "
        "free from gives grant granted has have is it its last now of on plus project quota the "
        "this through thru to trial until till up valid with you your",
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
    """What was read: entries, what could not be, and for how long it is all meant to last."""

    entries: list[Entry] = field(default_factory=list)
    unclear: list[Unclear] = field(default_factory=list)
    ends: date | None = None
    days: int | None = None


class Doubt(Exception):
    """Why something cannot be read for sure."""


def read_mail(text: str) -> Mail:
    """Read the whole text: tables by their heads, lines of the grant, and the prose around them."""
    mail = Mail()
    lines = [_plain(line) for line in text.splitlines()]
    seen: dict[Entry, int] = {}
    span: dict[int, int] = {}
    until: dict[date, int] = {}
    prose: list[str] = []
    index = 0
    while index < len(lines):
        line, number = lines[index], index + 1
        head = _head(line)
        if head:
            index = _read_table(lines, index, head, mail, seen)
            continue
        index += 1
        if _COMMAND.search(line) or _HEADER.match(line):
            continue
        following = lines[index] if index < len(lines) else ""
        wraps = _wraps(line, following)
        if wraps or _HINTS.search(line):
            if wraps:
                index += 1
                line = f"{line} {following}"
            _read_line(mail, line, number, seen, span)
        else:
            prose.append(line)
        # A paragraph is read as one, for its sentences go over several lines.
        if prose and (wraps or not following or _HINTS.search(following) or _head(following)):
            _read_prose(mail, " ".join(prose), number, span, until)
            prose = []
    if prose:
        _read_prose(mail, " ".join(prose), len(lines), span, until)
    mail.days = _only(mail, span, "names two lengths of time")
    mail.ends = _only(mail, until, "names two last days")
    return mail


def with_ends(mail: Mail, ends: date | None, start: date | None) -> list[Entry]:
    """Return the entries, each with its own last day, else with the one that holds for all.

    Days are counted with the first: 30 days from the 1st end with the 30th.
    """
    if ends is None and mail.days is not None and start is not None:
        ends = start + timedelta(days=mail.days - 1)
    common = ends or mail.ends
    return [entry if entry.ends else replace(entry, ends=common) for entry in mail.entries]


def parse_date(text: str) -> date:
    """Read one date in any spelling that has only one meaning."""
    match = _DATE.fullmatch(text.strip())
    if not match:
        raise Doubt(f"{text.strip()} is not a date")
    return _date(match)


def _plain(line: str) -> str:
    """Take quotation marks of mails, bullets and emphasis off a line; a table keeps its bars."""
    line = line.replace("\u00a0", " ").replace("\u2011", "-").replace("**", "").replace("`", "")
    if line.count("|") > 1:
        return line.strip().lstrip("> ")
    if line.count("\t") > 1:
        return line.strip(" \r")  # the last cell may be empty
    return _ORNAMENT.sub("", line).strip()


def _wraps(line: str, following: str) -> bool:
    """Say whether a line of the grant goes on in the next one."""
    if not following or _head(following) or _SENTENCE.match(following):
        return False
    own = list(_SENTENCE.finditer(line))
    if own and own[-1]["zone"]:
        return False
    both = list(_SENTENCE.finditer(f"{line} {following}"))
    starts_here = bool(both) and both[-1].start() < len(line) < both[-1].end()
    return starts_here and bool(both[-1]["zone"])


def _read_line(
    mail: Mail, line: str, number: int, seen: dict[Entry, int], span: dict[int, int]
) -> None:
    matches = list(_SENTENCE.finditer(line))
    rest = _SENTENCE.sub(" ", line).lower()
    try:
        ends, rest = _end_in(rest)
        if not matches:
            raise Doubt(_what_is_missing(line))
        found = [
            _entry(m["number"], m["tier"], m["tpu"], m["unit"], m["zone"], ends) for m in matches
        ]
        for days in _DAYS.findall(rest):
            span.setdefault(int(days), number)
        more = [word for word in re.findall(r"\w+", _DAYS.sub(" ", rest)) if word not in _FILLERS]
        if more:
            raise Doubt(f"says more than can be read: {' '.join(more)}")
        for entry in found:
            _add(mail, entry, number, seen)
    except Doubt as doubt:
        mail.unclear.append(Unclear(number, line, str(doubt)))


def _add(mail: Mail, entry: Entry, number: int, seen: dict[Entry, int]) -> None:
    if entry in seen:
        raise Doubt(f"says the same as line {seen[entry]}: is it meant twice?")
    seen[entry] = number
    mail.entries.append(entry)


def _what_is_missing(line: str) -> str:
    if not re.search(rf"\b(?:{_TPU})\b", line, re.IGNORECASE):
        return "names a zone, but no TPU"
    if not re.search(r"(?<![\w-])\d+(?![\w-])", line):
        return "does not say how many"
    return "cannot be read"


def _entry(
    number: str | None,
    tier: str | None,
    tpu: str | None,
    unit: str | None,
    zone: str | None,
    ends: date | None,
) -> Entry:
    """Put a line together, or say what it lacks."""
    if not tpu:
        raise Doubt("names no TPU")
    if not number:
        raise Doubt("does not say how many")
    if not zone:
        raise Doubt("names no zone")
    if not tier:
        raise Doubt("does not say whether it is on demand, spot or reserved")
    if not unit:
        raise Doubt("counts neither chips nor devices")
    amount = int(number.replace(",", ""))
    if amount < 1:
        raise Doubt("counts none")
    kind = re.sub(r"[-_ ](?=lite)", "", tpu.lower())
    kind = re.sub(r"^v5(?:e|lite)(?:pod)?(?=-)", "v5litepod", kind)
    base = Entry(zone.lower(), TIERS[re.sub(r"[-_ ]", "", tier.lower())], ends=ends)
    sized, what = "-" in kind, unit.lower().replace("(s)", "").rstrip("s")
    if generation_of(kind) is None if sized else kind not in GENERATIONS:
        raise Doubt(f"names {tpu}, which is not known")
    if what.endswith("core"):
        raise Doubt("counts cores, not chips")
    if what == "chip":
        if sized:
            raise Doubt(f"counts chips of {tpu}, which is itself a number of chips")
        return replace(base, generation=GENERATIONS[kind], chips=amount)
    if not sized or chips_of(kind) is None:
        raise Doubt(f"counts devices, but not of which size: {tpu} has many")
    return replace(base, accelerator_type=kind, count=amount)


def _end_in(text: str) -> tuple[date | None, str]:
    """Return the last day that a text names, and the text without it."""
    found = list(_DATE.finditer(text))
    rest = _DATE.sub(" ", text)
    if not found:
        return None, rest
    if len(found) > 1 or not _ENDING.search(text):
        raise Doubt("has a date, but does not say that it ends then")
    return _date(found[0]), rest


def _read_prose(
    mail: Mail, text: str, number: int, span: dict[int, int], until: dict[date, int]
) -> None:
    """Note for how long the grant as a whole is: days, or a last day."""
    try:
        if re.search(r"free|access|quota|grant|trial", text, re.IGNORECASE):
            for days in _DAYS.findall(text):
                span.setdefault(int(days), number)
        if not _ENDING.search(text):
            return
        found = list(_DATE.finditer(text))
        ends = [match for match in found if _says_end(text[: match.start()])]
        if found and not ends:
            raise Doubt("has a date, but does not say that it ends then")
        for match in ends:
            until.setdefault(_date(match), number)
    except Doubt as doubt:
        mail.unclear.append(Unclear(number, text, str(doubt)))


def _says_end(before: str) -> bool:
    """Say whether the words just before a date make it an end."""
    sentence = re.split(r"[.!?;]\s", before)[-1]
    return bool(_ENDING.search(sentence[-40:]))


def _only(mail: Mail, found: dict[T, int], why: str) -> T | None:
    if len(found) > 1:
        listed = ", ".join(f"{value} in line {number}" for value, number in found.items())
        mail.unclear.append(Unclear(max(found.values()), listed, why))
        return None
    return next(iter(found), None)


def _date(match: re.Match[str]) -> date:
    text = match[0]
    if match["y1"]:
        year, month, day = int(match["y1"]), int(match["m1"]), int(match["d1"])
    elif match["y2"] or match["y3"]:
        name, number, years = ("n2", "d2", "y2") if match["y2"] else ("n3", "d3", "y3")
        month = _MONTHS.index(match[name].lower()) + 1
        year, day = int(match[years]), int(match[number])
    else:
        first, second, year = int(match["a4"]), int(match["b4"]), int(match["y4"])
        if first <= 12 and second <= 12 and first != second:
            raise Doubt(f"has the date {text}, in which day and month could change places")
        month, day = (first, second) if first <= 12 else (second, first)
    try:
        return date(year, month, day)
    except ValueError as error:
        raise Doubt(f"has the date {text}, which does not exist") from error


# Tables ----------------------------------------------------------------------------------------

_COLUMNS = {
    "zone": r"zones?|locations?",
    "tpu": r"(?:cloud )?tpu(?: (?:type|version|generation))?|accelerator(?: type)?|type|version"
    r"|generation|hardware",
    "tier": r"tier|provisioning(?: model)?|pricing|on[- ]demand/spot|spot/on[- ]demand|kind|mode"
    r"|availability|capacity(?: type)?|quota type",
    "chips": r"(?:number of |# ?(?:of )?)?(?:tpu )?chips|chip count",
    "devices": r"(?:number of |# ?(?:of )?)?devices|device count",
    "amount": r"(?:number|#|count|quantity|amount|quota|limit|size)",
    "ends": r"ends?(?: date| on)?|end[- ]date|expir\w*(?: date| on)?|until|valid until|last day",
}


def _cells(line: str) -> list[str]:
    """Split a row at bars, tabs, wide gaps, semicolons or commas."""
    if "|" in line:
        parts = line.strip().removeprefix("|").removesuffix("|").split("|")
    elif "\t" in line:
        parts = line.split("\t")
    elif re.search(r"\S {2,}\S", line):
        parts = re.split(r" {2,}", line.strip())
    else:
        parts = line.split(";" if ";" in line else ",")
    return [part.strip() for part in parts]


def _head(line: str) -> list[str] | None:
    """Return the meanings of a table's columns when a line is its head."""
    cells = _cells(line)
    if len(cells) < 3:
        return None
    columns = [_column(cell) for cell in cells]
    return columns if "zone" in columns and "tpu" in columns else None


def _column(cell: str) -> str:
    for name, words in _COLUMNS.items():
        if re.fullmatch(words, cell, re.IGNORECASE):
            return name
    return ""


def _read_table(
    lines: list[str], index: int, head: list[str], mail: Mail, seen: dict[Entry, int]
) -> int:
    """Read the rows under a head; return the place of the first line after them."""
    index += 1
    while index < len(lines) and lines[index]:
        line, number = lines[index], index + 1
        cells = _cells(line)
        if re.fullmatch(r"[\s|:+=-]+", line):
            index += 1
            continue
        if len(cells) != len(head) and not _HINTS.search(line):
            break
        try:
            if len(cells) != len(head):
                raise Doubt(f"has {len(cells)} columns under a head of {len(head)}")
            _add(mail, _row(dict(_pairs(head, cells))), number, seen)
        except Doubt as doubt:
            mail.unclear.append(Unclear(number, line, str(doubt)))
        index += 1
    return index


def _pairs(head: list[str], cells: list[str]) -> Iterator[tuple[str, str]]:
    for name, cell in zip(head, cells, strict=True):
        if name:
            yield name, cell


def _row(row: dict[str, str]) -> Entry:
    zone = re.fullmatch(ZONE, row["zone"].lower())
    # The tier may stand beside the hardware: "v4 (spot)".
    where = f"{row.get('tier', '')} {row['tpu']}"
    tiers = {tier.lower() for tier in re.findall(_TIER, where, re.IGNORECASE)}
    if len(tiers) > 1:
        raise Doubt("names two tiers")
    hardware = re.findall(rf"\b(?:{_TPU})\b", row["tpu"], re.IGNORECASE)
    if len(hardware) > 1:
        raise Doubt("names two kinds of TPU")
    given = [name for name in ("chips", "devices", "amount") if row.get(name)]
    if len(given) > 1:
        raise Doubt("has two numbers of TPUs")
    text = row[given[0]] if given else ""
    amount = re.fullmatch(
        rf"(?P<number>\d+|\d{{1,3}}(?:,\d{{3}})+)(?:\s*(?P<unit>{_UNIT}))?", text, re.IGNORECASE
    )
    if text and not amount:
        raise Doubt(f"has {text} for a number")
    unit = (amount["unit"] if amount else None) or {"chips": "chips", "devices": "devices"}.get(
        given[0] if given else ""
    )
    return _entry(
        amount["number"] if amount else None,
        next(iter(tiers), None),
        hardware[0] if hardware else None,
        unit,
        zone[0] if zone else None,
        parse_date(row["ends"]) if row.get("ends") else None,
    )
