"""What the metadata server says of maintenance, and when the program is to save before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

_QUIET = ("", "NONE", "MIGRATE_ON_HOST_MAINTENANCE")


@dataclass(frozen=True)
class Notice:
    """A maintenance that was announced, or is on."""

    window: str = ""  # when it begins, as the server writes it
    begins: float | None = None
    ongoing: bool = False

    @property
    def name(self) -> str:
        """Return what distinguishes one maintenance from the next."""
        return self.window or "now"


def parse_time(text: str) -> float | None:
    """Return the seconds of a time like 2026-11-22T05:00:00.123Z."""
    try:
        begins = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return None
    return begins.replace(tzinfo=timezone.utc).timestamp()


def notice(upcoming: Mapping[str, Any] | None, event: str) -> Notice | None:
    """Judge what `upcoming-maintenance` and `maintenance-event` say; None if nothing is ahead."""
    begun = event not in _QUIET
    if not upcoming:
        return Notice(ongoing=True) if begun else None
    window = str(upcoming.get("window_start_time") or upcoming.get("windowStartTime") or "")
    status = str(upcoming.get("maintenance_status") or upcoming.get("maintenanceStatus") or "")
    return Notice(window, parse_time(window), begun or status == "ONGOING")


def due(found: Notice | None, now: float, lead: float) -> str:
    """Say for which maintenance the program is to save now; empty while there is time."""
    if found is None:
        return ""
    near = found.begins is not None and found.begins - now <= lead
    return f"maintenance {found.name}" if found.ongoing or near else ""
