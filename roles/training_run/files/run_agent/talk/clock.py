"""The clock by which a gang counts failures and pauses: no user can set it, and it goes on.

It counts the seconds since the machine's boot, and goes on after a reboot where it was last written
down. Wall time is for people only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any


def since_boot() -> float:
    """Return the seconds since the boot, also those in which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class GangClock:
    """The leader's clock for what is kept over reboots."""

    def __init__(self, kept: Mapping[str, Any], boot_id: str) -> None:
        self._boot_id = boot_id
        last, ahead = kept.get("clock"), kept.get("clock_ahead")
        same = kept.get("clock_boot") == boot_id and isinstance(ahead, (int, float))
        self.known = isinstance(last, (int, float))
        if same:
            self._ahead = float(ahead or 0.0)
        else:
            self._ahead = (float(last or 0.0) if self.known else 0.0) - since_boot()

    def now(self) -> float:
        """Return the gang's time in seconds."""
        return since_boot() + self._ahead

    def to_json(self) -> dict[str, Any]:
        """Return what is kept."""
        return {"clock": self.now(), "clock_ahead": self._ahead, "clock_boot": self._boot_id}
