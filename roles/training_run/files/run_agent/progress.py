"""How far the program is, and when it last gave a sign of life.

The program may say `{"step": N, "loss": X}` in the file that TPU_FLEET_PROGRESS names; otherwise
its log is searched. Both files are the user's, so what they say is read with care and is only ever
shown.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Pattern, Tuple, Union

from .config import Config
from .hand import Glance, Hand

_AT_ONCE = 256 * 1024
_LINE = 500
_LINES = 1000
_MOST_STEPS = 10**15
_MOST_NUMBERS = 4
_LARGEST = 1e30
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,63}")
_LOSS = re.compile(
    rb"\bloss['\"]?[ =:]{1,3}([+-]?(?:nan|inf|\d[\d.]{0,30}(?:e[+-]?\d{1,3})?))", re.IGNORECASE
)

Loss = Union[float, str, None]
"""A number, or what JSON has no number for: nan, inf, -inf."""


def _written(data: bytes) -> Dict[str, Any]:
    """Return what a program wrote into its file; nothing, if it is no object."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def said(data: bytes) -> Optional[int]:
    """Return the step that a program wrote down itself."""
    step = _written(data).get("step")
    return _step(step) if isinstance(step, int) and not isinstance(step, bool) else None


def numbers(data: bytes) -> Dict[str, float]:
    """Return the numbers that a program wrote down beside its step, such as the loss."""
    found = {
        name: float(value)
        for name, value in _written(data).items()
        if name != "step"
        and _NAME.fullmatch(name)
        and isinstance(value, (int, float))
        and not isinstance(value, bool)
        and -_LARGEST < value < _LARGEST
    }
    return dict(list(found.items())[:_MOST_NUMBERS])


def said_loss(data: bytes) -> Loss:
    """Return the loss that a program wrote down itself."""
    loss = _written(data).get("loss")
    return _loss(loss) if isinstance(loss, (int, float)) and not isinstance(loss, bool) else None


def _loss(number: float) -> Loss:
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)
    # Of a large whole number, the nearest float may be one more than the limit allows.
    return float(number) if abs(number) < 10**30 and abs(float(number)) < _LARGEST else None


def last_loss(text: bytes) -> Loss:
    """Return the loss in the last line that names one."""
    for line in reversed(re.split(rb"[\r\n]", text)[-_LINES:]):
        found = _LOSS.findall(line[:_LINE])
        if found:
            try:
                return _loss(float(found[-1]))
            except ValueError:
                return None
    return None


def saved_at(saved: Any) -> Optional[float]:
    """Return when the newest checkpoint was written, as the guard saw it; 0 if there is none."""
    good = isinstance(saved, int) and not isinstance(saved, bool) and 0 <= saved < 10**20
    return saved / 1e9 if good else None


def saved_steps(steps: Any) -> List[Tuple[int, float]]:
    """Return step and time of the checkpoints that the guard named; what is none is left out."""
    found = []
    for one in steps[:100] if isinstance(steps, list) else []:
        pair = one if isinstance(one, list) and len(one) == 2 else [None, None]
        at = saved_at(pair[1])
        if isinstance(pair[0], int) and _step(pair[0]) is not None and at:
            found.append((pair[0], at))
    return found


def _step(number: int) -> Optional[int]:
    return number if -_MOST_STEPS <= number <= _MOST_STEPS else None


def last_step(text: bytes, pattern: Pattern[bytes]) -> Optional[int]:
    """Return the step in the last line that names one; progress bars end lines with `\\r`."""
    for line in reversed(re.split(rb"[\r\n]", text)[-_LINES:]):
        found = list(pattern.finditer(line[:_LINE]))
        if found:
            try:
                return _step(int(found[-1].group(1)))
            except (ValueError, TypeError):
                return None
    return None


def first_step(text: bytes, pattern: Pattern[bytes]) -> Optional[int]:
    """Return the step in the first line that names one."""
    for line in re.split(rb"[\r\n]", text):
        found = pattern.search(line[:_LINE])
        if found:
            return last_step(line, pattern)
    return None


def compiled(pattern: str) -> Tuple[Optional[Pattern[bytes]], str]:
    """Return a pattern, and what is wrong with it."""
    try:
        made = re.compile(pattern.encode(), re.IGNORECASE)
    except re.error as error:
        return None, f"step_pattern {pattern!r}: {error}"
    if made.groups != 1:
        return None, f"step_pattern {pattern!r} needs one group, the step"
    return made, ""


class _LogReader:
    """Reads what was added to a log that rotates."""

    def __init__(self, path: Path, hand: Hand) -> None:
        self.path = path
        self._hand = hand
        self._inode = 0
        self._offset = 0
        self._rest = b""

    def skip(self) -> None:
        """Pass over what is there already."""
        with_size = self._hand.stamp(self.path)
        if with_size is not None:
            self._inode, self._offset = with_size[0], with_size[1]

    def added(self, found: Optional[List[int]]) -> bytes:
        """Return the whole lines that are new in a file that looks like this."""
        if found is None:
            return b""
        inode, size = found[0], found[1]
        if inode != self._inode or size < self._offset:
            self._inode, self._offset, self._rest = inode, 0, b""
        if size == self._offset:
            return b""
        start = max(self._offset, size - _AT_ONCE)
        data = self._hand.read(self.path, size - start, start)
        self._offset = size
        text = self._rest + data
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        self._rest = text[end:][-_LINE:]
        return text[:end]


class Progress:
    """Looks at one attempt after the other."""

    def __init__(self, config: Config, now: float, hand: Hand) -> None:
        self._hand = hand
        folder = config.paths.user
        self.file = folder / "progress.json"
        self.step: Optional[int] = None  # of this attempt
        self.first: Optional[int] = None  # the first of this attempt
        self.numbers: Dict[str, float] = {}
        self.loss: Loss = None  # of this attempt
        self.saved_at: Optional[float] = None  # as in the status
        self.saved_steps: List[Tuple[int, float]] = []  # of the last checkpoints
        self.error = ""
        self._pattern, self.error = compiled(config.step_pattern)
        self._log = _LogReader(config.paths.log, hand)
        self._signs: List[Any] = []
        self._alive_at = now

    def begin(self, now: float) -> None:
        """Begin to look at an attempt that starts now."""
        self.step, self.first, self._signs, self._alive_at = None, None, [], now
        self.numbers = {}
        self.loss = None
        self._log.skip()

    def look(self, now: float, glance: Glance) -> None:
        """Take in what is new."""
        newest, said_at = glance.checkpoints.get("newest"), glance.said
        self.saved_at = saved_at(glance.checkpoints.get("saved"))
        self.saved_steps = saved_steps(glance.checkpoints.get("steps"))
        signs = [glance.log, glance.dropped_bytes, newest, said_at]
        if signs == self._signs:
            return
        wrote = self._hand.read(self.file, _LINE) if said_at is not None else b""
        told, loss = said(wrote), said_loss(wrote)
        self.numbers = numbers(wrote)
        begun_at = told
        if told is None and self._pattern is not None:
            added = self._log.added(glance.log)
            loss = last_loss(added) if loss is None else loss
            told = last_step(added, self._pattern)
            begun_at = None if told is None else first_step(added, self._pattern)
        if told is not None:
            self.step = told
            self.first = begun_at if self.first is None else self.first
        self.loss = self.loss if loss is None else loss
        if isinstance(self.loss, float):
            self.numbers.setdefault("loss", self.loss)
        self._signs, self._alive_at = signs, now

    def quiet(self, now: float) -> float:
        """Return for how long the program gave no sign of life."""
        return now - self._alive_at
