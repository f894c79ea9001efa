"""Whether the run's program gets its chips: what it printed when it failed, and what it opened."""

from __future__ import annotations

from ..decide import chips, last_error
from ..decide.config import Config
from . import chip_holders, preparation, terminal
from .hand import Hand

_AGAIN = 60.0
_BYTES = 64 * 1024


class ChipStarts:
    """Looks at one attempt after the other."""

    def __init__(self, config: Config, hand: Hand) -> None:
        self._config = config
        self._hand = hand
        self._next = 0.0
        self.opened: bool | None = None
        """Whether a late start has opened its chips; None while that is not known."""

    def begin(self) -> None:
        """Forget the attempt before."""
        self.opened, self._next = None, 0.0

    def look_at_late_start(self, now: float) -> None:
        """See whether a program that is late has opened its chips."""
        if now >= self._next and preparation.needs_tpu(self._config):
            self._next = now + _AGAIN
            uid = terminal.uid_of(self._config.user)
            self.opened = any(one.uid == uid for one in self._holders())

    def failure(self, attempt: int) -> str:
        """Return why the chips failed a program that has just ended; empty if they did not."""
        if not preparation.needs_tpu(self._config):
            return ""
        log = self._hand.tail(self._config.paths.log, _BYTES)
        said = chips.said(last_error.lines_of(log, attempt))
        uid = terminal.uid_of(self._config.user)
        # Another process that holds them is named where the next attempt waits for it.
        return "" if any(one.uid != uid for one in self._holders()) else said

    def _holders(self) -> list[chip_holders.Holder]:
        root = self._config.paths.root
        return chip_holders.holders(root)[0] if chip_holders.devices(root) else []
