"""What the metadata server says of maintenance, and when the program is to save before it."""

from __future__ import annotations

import calendar
import http.client
import json
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Tuple
from urllib.parse import urlsplit

_ROOT = "/computeMetadata/v1/instance/"
_TIMEOUT = 5.0
_QUIET = ("", "NONE", "MIGRATE_ON_HOST_MAINTENANCE")


@dataclass(frozen=True)
class Notice:
    """A maintenance that was announced, or is on."""

    window: str = ""  # when it begins, as the server writes it
    begins: Optional[float] = None
    ongoing: bool = False

    @property
    def name(self) -> str:
        """Return what distinguishes one maintenance from the next."""
        return self.window or "now"


def parse_time(text: str) -> Optional[float]:
    """Return the seconds of a time like 2026-11-22T05:00:00.123Z."""
    try:
        return float(calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def notice(upcoming: Optional[Mapping[str, Any]], event: str) -> Optional[Notice]:
    """Judge what `upcoming-maintenance` and `maintenance-event` say; None if nothing is ahead."""
    begun = event not in _QUIET
    if not upcoming:
        return Notice(ongoing=True) if begun else None
    window = str(upcoming.get("window_start_time") or upcoming.get("windowStartTime") or "")
    status = str(upcoming.get("maintenance_status") or upcoming.get("maintenanceStatus") or "")
    return Notice(window, parse_time(window), begun or status == "ONGOING")


def due(found: Optional[Notice], now: float, lead: float) -> str:
    """Say for which maintenance the program is to save now; empty while there is time."""
    if found is None:
        return ""
    near = found.begins is not None and found.begins - now <= lead
    return f"maintenance {found.name}" if found.ongoing or near else ""


def ask(url: str) -> Tuple[Optional[Dict[str, Any]], str]:
    """Return what both keys say; raises OSError when there is no such server."""
    event = (_get(url + _ROOT + "maintenance-event") or "").strip()
    text = _get(url + _ROOT + "upcoming-maintenance?alt=json")
    try:
        upcoming = json.loads(text or "{}")
    except ValueError:
        upcoming = {}
    return (upcoming if isinstance(upcoming, dict) else {}), event


def _get(url: str) -> Optional[str]:
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    # No proxy, and none of urllib, which alone is a fifth of the agent's memory.
    connection = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT)
    try:
        connection.request("GET", path, headers={"Metadata-Flavor": "Google"})
        answer = connection.getresponse()
        text = answer.read(65536).decode("utf-8", "replace")
        return text if answer.status == 200 else None  # 503 and 404: nothing is announced
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(str(error)) from None
    finally:
        connection.close()


class Watch:
    """Asks every few seconds, in a thread: a server that does not answer blocks nothing."""

    def __init__(
        self,
        url: str,
        every: float,
        look: Callable[[str], Tuple[Optional[Dict[str, Any]], str]] = ask,
    ) -> None:
        self.notice: Optional[Notice] = None
        self.known = False  # whether the server ever answered
        self._url, self._every, self._look = url, every, look
        if url:
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        pause = self._every
        while True:
            try:
                self.notice = notice(*self._look(self._url))
                self.known = True
                pause = self._every
            except OSError:
                # Not a machine of Google's, or one whose network is away: seldom, but for ever.
                pause = min(pause * 2, 60 * self._every)
            time.sleep(pause)
