"""The option --since: a time, or a duration before now."""

from __future__ import annotations

import datetime
import re
import time

import click

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FORMS = "90s, 30m, 8h, 1d, 22:00, 2026-11-20 or 2026-11-20T08:00"


def moment(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Parse a time, or a duration before now; return seconds since the epoch."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+)([smhd])", value)
    if match:
        return time.time() - int(match[1]) * UNITS[match[2]]
    try:
        return _time(value)
    except ValueError:
        says = f"{value!r} is none of these forms: {FORMS}."
        raise click.BadParameter(says, context, option) from None


def _time(value: str) -> float:
    """Return a time on this computer's clock; one without a day is the last such time."""
    if not re.fullmatch(r"\d\d?:\d\d", value):
        return datetime.datetime.fromisoformat(value).timestamp()
    now = datetime.datetime.now().astimezone()
    hour, minute = map(int, value.split(":"))
    found = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (found if found <= now else found - datetime.timedelta(days=1)).timestamp()
