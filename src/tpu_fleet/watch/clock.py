"""The monotonic clock of a watcher, independent of the computer's clock setting.

Its reading is stored with the memory, so pauses and limits continue after a restart. It stands
still while the computer is off: pauses then last longer, and no limit is exceeded. People are shown
the time of day.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import boottime
from ansible_collections.tpu.fleet.plugins.module_utils._host.state import boot_id


class SteadyClock:
    """Seconds that never decrease: within a boot, during sleep, and across restarts."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self._boot = boot_id()
        self.other_boot = bool(kept) and kept.get("boot") != self._boot
        """Whether the computer was off since the stored reading."""
        if self.other_boot:
            self._ahead = float(kept["now"]) - boottime()
        elif kept:
            self._ahead = float(kept["ahead"])
        else:
            # A state stored without a reading uses the time of day.
            self._ahead = time.time() - boottime()

    def now(self) -> float:
        """Return the reading."""
        return boottime() + self._ahead

    def time_of_day(self, reading: float) -> float:
        """Convert to seconds since 1970; as accurate as the computer's clock."""
        return time.time() - (self.now() - reading)

    def kept(self) -> dict[str, Any]:
        """Return the state that the next watcher needs."""
        return {"boot": self._boot, "ahead": self._ahead, "now": self.now()}
