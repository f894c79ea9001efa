"""Times as Compute Engine writes them: of its head office, with the distance to UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from ..model.clock import seconds_of

_OFFICE = timezone(timedelta(hours=-8))


def shown(moment: float) -> str:
    """Return a moment in seconds since 1970 as Compute Engine writes it."""
    day = datetime.fromtimestamp(round(moment, 3), UTC).astimezone(_OFFICE)
    return day.isoformat(timespec="milliseconds")


def of_stamp(stamp: str) -> str:
    """Return a time of the cloud's records; empty for none."""
    return shown(seconds_of(stamp)) if stamp else ""
