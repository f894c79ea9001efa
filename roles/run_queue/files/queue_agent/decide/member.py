"""What one worker does next, on worker 0 and on all others."""

from __future__ import annotations

from dataclasses import dataclass

from .messages import HOLD, INSTALLED, NONE, NOTHING, RUN, STARTED, STOP, Order

WAIT, INSTALL, START, END, REMOVE = "wait", "install", "start", "end", "remove"


@dataclass(frozen=True)
class Here:
    """The submitted run that is on this worker."""

    run: str = ""
    claim: int = 0
    is_whole: bool = False
    """Whether all files of it are written."""
    is_active: bool = False
    """Whether its unit is active."""

    @property
    def state(self) -> str:
        """Return its state for a report."""
        if not self.is_whole:
            return NOTHING
        return STARTED if self.is_active else INSTALLED


def decide(order: Order | None, here: Here) -> str:
    """Return the one thing to do."""
    if order is None or order.phase == HOLD:
        return WAIT
    if order.phase == NONE or (here.run, here.claim) != (order.run, order.claim):
        if here.run:
            return REMOVE
        return INSTALL if order.phase == RUN else WAIT
    if order.phase == STOP:
        return END if here.is_active else WAIT
    if not here.is_whole:
        return INSTALL
    return WAIT if here.is_active else START
