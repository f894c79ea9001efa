"""Have the place where a program hangs written down, without holding the agent up."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ..decide.config import Config
from . import stacks
from .hand import Hand

_SECONDS = 15.0


class HangNote:
    """One note for each attempt that hangs."""

    def __init__(self, config: Config, hand: Hand) -> None:
        self._hand = hand
        self.result = ""
        self._config = config
        self._thread: threading.Thread | None = None
        self._begun = 0.0

    def forget(self) -> None:
        """Be ready for the next attempt."""
        self._thread, self.result = None, ""

    def done(self, attempt: int, pids: Sequence[int]) -> bool:
        """Begin at the first call; return whether it is written, or took too long."""
        if self._thread is None:
            target = self._config.paths.log.with_name(f"hang-{attempt}.txt")
            self.result = str(target)
            self._begun = time.monotonic()
            arguments = (attempt, list(pids), target)
            self._thread = threading.Thread(target=self._write, args=arguments, daemon=True)
            self._thread.start()
        return not self._thread.is_alive() or time.monotonic() - self._begun > _SECONDS

    def _write(self, attempt: int, pids: list[int], target: Path) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        config = self._config
        title = f"Run {config.run}, attempt {attempt}, worker {config.worker}, at {stamp}"
        try:
            stacks.write(config, self._hand, pids, target, title)
        except OSError as error:  # a full disk: the run goes on without
            self.result = f"not written: {error.strerror}"
