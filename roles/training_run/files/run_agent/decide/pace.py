"""How long the steps of a program take, and what it reported at which step. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .stand_out import EVERY

_KEPT = 8
_STEPS = 5


@dataclass
class Pace:
    """One attempt's steps on one worker."""

    seconds: float = 0.0
    """Seconds for a step, over the last minute; 0 while that is not known."""
    losses: list[list[Any]] = field(default_factory=list)
    """The last steps, each with the loss that was reported at it."""
    _from: tuple[float, int] | None = None
    _step: int | None = None

    def look(self, now: float, step: int | None, loss: float | str | None) -> None:
        """Take in the program's present step and loss."""
        if step is None or step == self._step:
            return
        if self._from is None or (self._step is not None and step < self._step):
            self._from = (now, step)
        self._step = step
        if loss is not None:
            said = loss if isinstance(loss, str) else f"{loss:.6g}"
            self.losses = [*self.losses, [step, said]][-_KEPT:]
        begun, first = self._from
        if now - begun >= EVERY and step - first >= _STEPS:
            self.seconds = (now - begun) / (step - first)
            self._from = (now, step)
