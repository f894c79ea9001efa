"""How far the program is, and when it last gave a sign of life."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..decide import program_words, times
from ..decide.config import Config
from .hand import Glance, Hand

_AT_ONCE = 256 * 1024


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

    def added(self, found: list[int] | None) -> bytes:
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
        self._rest = text[end:][-program_words.LINE :]
        return text[:end]


class Progress:
    """Looks at one attempt after the other."""

    def __init__(self, config: Config, now: float, hand: Hand) -> None:
        self._hand = hand
        folder = config.paths.user
        self.file = folder / "progress.json"
        self.step: int | None = None  # of this attempt
        self.first: int | None = None  # the first of this attempt
        self.numbers: dict[str, float] = {}
        self.loss: program_words.Loss = None  # of this attempt
        self.figures: dict[str, float | None] = {}  # of this attempt, by the names of FIGURES
        self.seconds: times.Seconds = {}  # of this attempt, as its program says
        self.saved_at: float | None = None  # as in the status
        self.saved_steps: list[tuple[int, float]] = []  # of the last checkpoints
        self.error = ""
        self._pattern, self.error = program_words.compiled(config.step_pattern)
        self._log = _LogReader(config.paths.log, hand)
        self._signs: list[Any] = []
        self._alive_at = now

    def begin(self, now: float) -> None:
        """Begin to look at an attempt that starts now."""
        self.step, self.first, self._signs, self._alive_at = None, None, [], now
        self.numbers = {}
        self.figures = {}
        self.loss = None
        self.seconds = {}
        self._log.skip()

    def see_checkpoints(self, found: dict[str, Any]) -> None:
        """Take in what the guard, or a look at the bucket, found of the checkpoints."""
        self.saved_at = program_words.saved_at(found.get("saved"))
        self.saved_steps = program_words.saved_steps(found.get("steps"))

    def look(self, now: float, glance: Glance, checkpoints: dict[str, Any]) -> None:
        """Take in what is new."""
        newest, said_at = checkpoints.get("newest"), glance.said
        self.see_checkpoints(checkpoints)
        signs = [glance.log, glance.dropped_bytes, newest, said_at]
        if signs == self._signs:
            return
        wrote = self._hand.read(self.file, program_words.LINE) if said_at is not None else b""
        told, loss = program_words.said(wrote), program_words.said_loss(wrote)
        self.figures = {
            name: program_words.said_figure(wrote, name) for name in program_words.FIGURES
        }
        self.numbers, self.seconds = program_words.numbers(wrote), times.said(wrote)
        begun_at = told
        if told is None and self._pattern is not None:
            added = self._log.added(glance.log)
            loss = program_words.last_loss(added) if loss is None else loss
            told = program_words.last_step(added, self._pattern)
            begun_at = None if told is None else program_words.first_step(added, self._pattern)
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
