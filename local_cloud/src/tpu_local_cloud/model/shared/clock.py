"""The time of the local cloud, which its user controls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

Mode = Literal["real", "immediate", "manual"]
MODES: tuple[str, ...] = get_args(Mode)
# From a millisecond to eleven days per real second.
SLOWEST, FASTEST = 0.001, 1e6

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANO = 1_000_000_000


class Clock:
    """The cloud's time of day, as seconds since 1970 UTC; it never runs backwards.

    real: transitions take their configured seconds; `speed` of them pass per real second.
    immediate: transitions are due immediately.
    manual: time stands still until the owner advances it.
    """

    def __init__(self, mode: Mode = "real", speed: float = 1.0, start: float | None = None) -> None:
        self._mode: Mode = mode
        self._speed = 1.0
        # The time at the real moment of the anchor, in whole nanoseconds, whose sums are exact.
        # It begins at a whole microsecond, because half of one would be rounded either way.
        self._base = round((time.time() if start is None else start) * 1e6) * 1000
        self._anchor = time.monotonic()
        self._local = threading.local()
        self._lock = threading.Lock()
        # Called after each change by hand, so that it can be saved.
        self.on_change: Callable[[], None] | None = None
        if speed != 1.0:
            self.set(speed=speed)

    @property
    def mode(self) -> Mode:
        """Return how time passes."""
        return self._mode

    @property
    def speed(self) -> float:
        """Return how many seconds pass in a real one."""
        return self._speed

    def set(self, mode: Mode | None = None, speed: float | None = None) -> None:
        """Change how time passes, without a jump."""
        if mode is not None and mode not in MODES:
            raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
        if speed is not None and not SLOWEST <= speed <= FASTEST:
            raise ValueError(f"speed {speed:g} is not between {SLOWEST:g} and {FASTEST:g}")
        with self._lock:
            self._base, self._anchor = self._exact(), time.monotonic()
            self._mode = mode or self._mode
            self._speed = float(speed or self._speed)
        self._changed()

    def _exact(self) -> int:
        if self._mode == "manual":
            return self._base
        return self._base + round((time.monotonic() - self._anchor) * self._speed * _NANO)

    def now(self) -> float:
        """Return the time of day, to the microsecond."""
        moment: float | None = getattr(self._local, "moment", None)
        # Rounded, so that sums of moments and delays meet exactly.
        return round(self._exact() / _NANO, 6) if moment is None else moment

    @contextmanager
    def at(self, moment: float) -> Iterator[None]:
        """Run something as of a past moment: events that were due then happen then."""
        before = getattr(self._local, "moment", None)
        self._local.moment = moment
        try:
            yield
        finally:
            self._local.moment = before

    def advance(self, seconds: float) -> None:
        """Advance the clock by a number of seconds."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        with self._lock:
            self._base += round(seconds * _NANO)
        self._changed()

    def due(self, delay: float) -> float:
        """Return the moment at which something that begins now ends."""
        return round(self.now() + (0.0 if self._mode == "immediate" else delay), 6)

    def real_seconds(self, seconds: float) -> float:
        """Convert the cloud's seconds to seconds outside."""
        return seconds / self._speed if self._mode == "real" else seconds

    def timestamp(self, plus_seconds: float = 0.0) -> str:
        """Return the time of day as the API writes it."""
        return timestamp(self.now() + plus_seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return the state to store for a restart."""
        with self._lock:
            return {
                "mode": self._mode,
                "speed": self._speed,
                "base": self._exact(),
                "wall": time.time(),
            }

    def restore(self, stored: dict[str, Any]) -> None:
        """Continue from the stored state; the time since then passes in its mode."""
        away = max(0.0, time.time() - stored["wall"])
        passed = 0.0 if stored["mode"] == "manual" else away * stored["speed"]
        with self._lock:
            self._mode, self._speed = stored["mode"], stored["speed"]
            self._base = stored["base"] + round(passed * _NANO)
            self._anchor = time.monotonic()

    def _changed(self) -> None:
        if self.on_change:
            self.on_change()


def timestamp(moment: float) -> str:
    """Return a moment as the API writes it: UTC, nine digits, Z."""
    day = _EPOCH + timedelta(microseconds=round(moment * 1e6))
    return day.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


def seconds_of(text: str) -> float:
    """Parse a timestamp of the API into seconds since 1970 UTC."""
    return (datetime.fromisoformat(text) - _EPOCH).total_seconds()
