"""The time of the local cloud, which its user controls."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

Mode = Literal["real", "immediate", "manual"]
MODES: tuple[str, ...] = get_args(Mode)


class Clock:
    """Seconds since the start, plus what was added by hand.

    real: transitions take their configured seconds. immediate: they are due at once.
    manual: time stands still until somebody advances it.
    """

    def __init__(self, mode: Mode = "real", offset: float = 0.0) -> None:
        self._mode: Mode = mode
        self._offset = offset
        self._frozen_at = time.monotonic()

    @property
    def mode(self) -> Mode:
        """Return how time passes."""
        return self._mode

    def set_mode(self, mode: Mode) -> None:
        """Change how time passes, without a jump."""
        now = self.now()
        self._mode = mode
        self._frozen_at = time.monotonic()
        self._offset = now - (0.0 if mode == "manual" else self._frozen_at)

    def now(self) -> float:
        """Return seconds that never run backwards."""
        return self._offset + (0.0 if self._mode == "manual" else time.monotonic())

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass at once."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._offset += seconds

    def due(self, delay: float) -> float:
        """Return the moment at which something begun now is over."""
        return self.now() + (0.0 if self._mode == "immediate" else delay)


def timestamp(plus_seconds: float = 0.0) -> str:
    """Return the time of day as the API writes it: UTC, nine digits, Z."""
    moment = datetime.now(UTC) + timedelta(seconds=plus_seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"
