"""Dates and numbers of days, as people write them."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

DATE = "2026-12-31, 31 Dec 2026, Dec 31 or today"
"""The accepted forms, for questions and errors."""
_FORMATS = ("%d %b %Y", "%d %B %Y", "%b %d %Y", "%B %d %Y")
_YEAR_FIRST = re.compile(r"(\d{4})\s*[-/.年]\s*(\d{1,2})\s*[-/.月]\s*(\d{1,2})\s*日?")
_DAYS = re.compile(r"(?:for )?(\d{1,3})(?:\s*(?:days?|天))?", re.IGNORECASE)


def date_of(text: str, today: date) -> date | None:
    """Return the date that a text names; None if it names none, or could be two.

    A date without a year is the nearest one. 3/4/2027 is refused: it is in March or in April.
    """
    said = text.strip()
    if said.lower() in ("today", "今天"):
        return today
    if numbers := _YEAR_FIRST.fullmatch(said):
        return _valid(*map(int, numbers.groups()))
    # As 28th Nov., 2026
    words = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", said.replace(",", " ").replace(".", " "))
    words = " ".join(words.split())
    if named := _with_month(words):
        return named
    years = (today.year + offset for offset in (-1, 0, 1))
    found = [day for year in years if (day := _with_month(f"{words} {year}"))]
    return min(found, key=lambda day: abs(day - today), default=None)


def last_day_of(text: str, today: date) -> date | None:
    """Return a date, or the last one of a number of days that begin today."""
    if days := _DAYS.fullmatch(text.strip()):
        return today + timedelta(days=int(days[1]) - 1) if int(days[1]) else None
    return date_of(text, today)


def _with_month(words: str) -> date | None:
    # "Sept" is usual, too.
    words = re.sub(r"\bsept\b", "Sep", words, flags=re.IGNORECASE)
    for form in _FORMATS:
        try:
            return datetime.strptime(words, form).date()
        except ValueError:
            continue
    return None


def _valid(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
