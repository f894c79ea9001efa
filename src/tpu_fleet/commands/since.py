"""The option --since: a time, or a duration before now."""

from __future__ import annotations

import datetime
import re
import time

import click
from ansible_collections.tpu.fleet.plugins.module_utils._schema.durations import seconds

FORMS = "90s, 30m, 8h, 1d, 22:00, 2026-11-20 or 2026-11-20T08:00"


def moment(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Parse a time, or a duration before now; return seconds since the epoch."""
    if value is None:
        return None
    if re.fullmatch("[0-9]+[smhd]", value):
        return time.time() - seconds(value)
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
