"""Whether the loss of a program is in trouble: no number any more, or far above its best. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from .run_states import EXPLODED, EXPLOSION, loss_said
from .values import fields_of

STEPS = 100
"""Steps for which a loss is above the limit before that is called an explosion."""
LEAST = 1e-3
"""A loss below this has not exploded: the best values of a model that fits its data vary widely."""
SHARE = 0.1
"""A loss that has exploded is at least this part of the way back to its first value."""


@dataclass(frozen=True)
class Watch:
    """What is known of the losses of a run; it outlives attempts and agents."""

    step: int | None = None
    """The last step whose loss was judged."""
    first: float | None = None
    best: float | None = None
    good_step: int | None = None
    """The last step whose loss was good."""
    above_step: int | None = None
    """Since this step the loss is above the limit."""
    above_at: float | None = None
    trouble: dict[str, Any] | None = None
    """What is wrong, since which step and when; `run_states.loss_said` has the words."""

    @classmethod
    def from_json(cls, data: Any) -> Watch:
        """Read what to_json wrote."""
        return cls(**fields_of(cls, data if isinstance(data, Mapping) else {}))

    def to_json(self) -> dict[str, Any]:
        """Return the form in which it is kept."""
        return asdict(self)


def judged(watch: Watch, loss: float | str | None, step: int | None, now: float) -> Watch:
    """Return what is known after another step, with its loss: a number, or nan, inf, -inf."""
    if loss is None or step is None or step == watch.step:
        return watch
    watch = replace(watch, step=step)
    if isinstance(loss, str):
        begun = watch.trouble or {"step": step, "at": now}
        return replace(watch, trouble={**begun, "what": loss})
    first = loss if watch.first is None else watch.first
    best = loss if watch.best is None else min(watch.best, loss)
    watch = replace(watch, first=first, best=best)
    if best <= 0 or loss <= max(EXPLOSION * best, best + SHARE * (first - best), LEAST):
        return replace(watch, good_step=step, above_step=None, above_at=None, trouble=None)
    # An attempt that begins again can be at an earlier step.
    if watch.above_step is None or step < watch.above_step:
        watch = replace(watch, above_step=step, above_at=now)
    if watch.trouble is None and step - (watch.above_step or 0) >= STEPS:
        trouble = {"what": EXPLODED, "step": watch.above_step, "at": watch.above_at, "best": best}
        return replace(watch, trouble=trouble)
    return watch


def with_checkpoint(watch: Watch, steps: list[tuple[int, float]], saved_at: float | None) -> Watch:
    """Note the last checkpoint from before the trouble.

    `steps` has the step and time of the checkpoints whose names have a step, `saved_at` the time of
    the newest one.
    """
    trouble = watch.trouble
    if trouble is None:
        return watch
    last = watch.good_step if watch.good_step is not None else trouble["step"] - 1
    before = max(((step, at) for step, at in steps if step <= last), default=None)
    if before is not None and before[0] >= trouble.get("saved_step", 0):
        trouble = {**trouble, "saved_step": before[0], "saved_at": before[1]}
    elif not steps and saved_at and trouble.get("saved_at", 0) < saved_at < trouble["at"]:
        trouble = {**trouble, "saved_at": saved_at}
    return replace(watch, trouble=trouble)


def news(told: Mapping[str, Any] | None, watch: Watch, is_complete: bool) -> dict[str, Any] | None:
    """Return the event that a trouble began or is over; None if the event log has it already.

    `is_complete` says that the last checkpoint from before the trouble is known by now.
    """
    trouble = watch.trouble
    if trouble is None:
        if told is None:
            return None
        return {"event": "loss-good", "step": watch.good_step}
    if (told is not None and told.get("step") == trouble["step"]) or not is_complete:
        return None
    return {"event": "loss-trouble", "step": trouble["step"], "what": loss_said(trouble)}
