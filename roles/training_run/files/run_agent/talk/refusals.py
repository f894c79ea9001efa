"""What was refused of other workers: noted once for each sender and kind, and never a flood."""

from __future__ import annotations

import sys
import threading
import time

_MOST = 32
_SHOWN_SECONDS = 3600.0


class Refusals:
    """The senders that were refused, why, and when last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], float] = {}

    def note(self, address: str, why: str) -> None:
        """Note a message that was refused; the journal gets the first of each kind."""
        with self._lock:
            now = time.monotonic()
            new = (address, why) not in self._last
            if new and len(self._last) >= _MOST:
                oldest = min(self._last, key=lambda known: self._last[known])
                if now - self._last[oldest] <= _SHOWN_SECONDS:
                    return
                del self._last[oldest]
            self._last[(address, why)] = now
        if new:
            print(text_of(address, why), file=sys.stderr, flush=True)

    def shown(self) -> list[str]:
        """Return what the status says: what was refused within the last hour."""
        now = time.monotonic()
        with self._lock:
            known = sorted(self._last.items())
        return [text_of(*who) for who, last in known if now - last <= _SHOWN_SECONDS]


def text_of(address: str, why: str) -> str:
    """Say it in words."""
    return f"a message from {address} was refused: {why}"
