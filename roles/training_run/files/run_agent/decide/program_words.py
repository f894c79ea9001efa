"""What a program says of its progress: its step, its loss, other numbers, its checkpoints.

It may write `{"step": N, "loss": X}`, and FIGURES beside them, in the file that TPU_FLEET_PROGRESS
names; otherwise its log is searched. Both files are the user's, so what they say is read with
care and is only ever shown.
"""

from __future__ import annotations

import math
import re
from re import Pattern
from typing import Any

from .values import is_number, is_whole, json_object

LINE = 500
_LINES = 1000
_MOST_STEPS = 10**15
_MOST_NUMBERS = 4
_LARGEST = 1e30
TOKENS, MFU = "tokens_per_second", "mfu"
FIGURES = {TOKENS: 1e15, MFU: 1.0}
"""What a program may say of its speed, and its largest value: tokens of the whole run a second, and
the share of the chips' arithmetic that its model uses (model FLOPs utilisation)."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,63}")
_LOSS = re.compile(
    rb"\bloss['\"]?[ =:]{1,3}([+-]?(?:nan|inf|\d[\d.]{0,30}(?:e[+-]?\d{1,3})?))", re.IGNORECASE
)

Loss = float | str | None
"""A number, or what JSON has no number for: nan, inf, -inf."""


def said(data: bytes) -> int | None:
    """Return the step that a program wrote down itself."""
    step = (json_object(data) or {}).get("step")
    return _step(step) if is_whole(step) else None


def numbers(data: bytes) -> dict[str, float]:
    """Return the numbers that a program wrote down beside its step, such as the loss."""
    found = {
        name: float(value)
        for name, value in (json_object(data) or {}).items()
        if name != "step"
        and _NAME.fullmatch(name)
        and is_number(value)
        and -_LARGEST < value < _LARGEST
    }
    return dict(list(found.items())[:_MOST_NUMBERS])


def said_figure(data: bytes, name: str) -> float | None:
    """Return one of FIGURES that a program wrote down; None if it is no number in its bounds."""
    value = (json_object(data) or {}).get(name)
    return float(value) if is_number(value) and 0 <= value <= FIGURES[name] else None


def said_loss(data: bytes) -> Loss:
    """Return the loss that a program wrote down itself."""
    loss = (json_object(data) or {}).get("loss")
    return _loss(loss) if is_number(loss) else None


def _loss(number: float) -> Loss:
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)
    # Of a large whole number, the nearest float may be one more than the limit allows.
    return float(number) if abs(number) < 10**30 and abs(float(number)) < _LARGEST else None


def last_loss(text: bytes) -> Loss:
    """Return the loss in the last line that names one."""
    for line in reversed(re.split(rb"[\r\n]", text)[-_LINES:]):
        found = _LOSS.findall(line[:LINE])
        if found:
            try:
                return _loss(float(found[-1]))
            except ValueError:
                return None
    return None


def saved_at(saved: Any) -> float | None:
    """Return when the newest checkpoint was written, as the guard saw it; 0 if there is none."""
    return saved / 1e9 if is_whole(saved) and 0 <= saved < 10**20 else None


def saved_steps(steps: Any) -> list[tuple[int, float]]:
    """Return step and time of the checkpoints that the guard named; what is none is left out."""
    found = []
    for one in steps[:100] if isinstance(steps, list) else []:
        pair = one if isinstance(one, list) and len(one) == 2 else [None, None]
        at = saved_at(pair[1])
        if isinstance(pair[0], int) and _step(pair[0]) is not None and at:
            found.append((pair[0], at))
    return found


def _step(number: int) -> int | None:
    return number if -_MOST_STEPS <= number <= _MOST_STEPS else None


def last_step(text: bytes, pattern: Pattern[bytes]) -> int | None:
    """Return the step in the last line that names one; progress bars end lines with `\\r`."""
    for line in reversed(re.split(rb"[\r\n]", text)[-_LINES:]):
        found = list(pattern.finditer(line[:LINE]))
        if found:
            try:
                return _step(int(found[-1].group(1)))
            except (ValueError, TypeError):
                return None
    return None


def first_step(text: bytes, pattern: Pattern[bytes]) -> int | None:
    """Return the step in the first line that names one."""
    for line in re.split(rb"[\r\n]", text):
        found = pattern.search(line[:LINE])
        if found:
            return last_step(line, pattern)
    return None


def compiled(pattern: str) -> tuple[Pattern[bytes] | None, str]:
    """Return a pattern, and what is wrong with it."""
    try:
        made = re.compile(pattern.encode(), re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        return None, f"step_pattern {pattern!r}: {error}"
    if made.groups != 1:
        return None, f"step_pattern {pattern!r} needs one group, the step"
    return made, ""
