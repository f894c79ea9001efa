"""Looks now and then at the monitoring port of the run's program, on a machine with chips.

A thread asks: a port that does not answer never delays the agent. What a port of another user says
does not count.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from ..decide import chip_use
from . import chip_holders, chip_monitor, terminal


class ChipWatch:
    """What the runtime reported of this worker's chips at the last look."""

    def __init__(
        self, user: str, seconds: float, root: Path = Path("/"), port: int = chip_monitor.PORT
    ) -> None:
        """`user` is the run's, `seconds` the time between two looks."""
        self._user, self._seconds, self._port = user, seconds, port
        self._there = bool(chip_holders.devices(root))
        self._thread: threading.Thread | None = None
        self._due = 0.0
        self.found: dict[str, Any] | None = None
        self.error = ""
        """What a core of the chips reported as its error; empty without one."""

    def look(self, now: float, running: bool) -> None:
        """Begin a look when it is due; forget what was seen of a program that has ended."""
        if not running:
            self.found, self.error, self._due = None, "", 0.0
        elif self._there and now >= self._due and not self._busy:
            self._due = now + self._seconds
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    @property
    def _busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Wait for a look that is being done."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        uid = terminal.uid_of(self._user)
        uids = {0} if uid is None else {0, uid}
        seen = chip_monitor.look(uids, self._port, hlo=False)
        self.found = chip_use.use_of(seen.get("metrics") or {})
        self.error = chip_use.error_of(seen.get("cores") or [])
