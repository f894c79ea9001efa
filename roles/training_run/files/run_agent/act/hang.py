"""Have the place where a program hangs written down, without holding the agent up."""

from __future__ import annotations

import json
import threading
import time

from ..decide.config import Config
from . import evidence
from .hand import Hand

_SECONDS = 15.0
_KEPT = 5


class Note:
    """One note for each attempt: `KIND-ATTEMPT.txt` for people, `.json` for `tpu-fleet why`."""

    def __init__(self, config: Config, hand: Hand, kind: str = "hang") -> None:
        self._hand = hand
        self._kind = kind
        self.result = ""
        self._config = config
        self._thread: threading.Thread | None = None
        self._begun = 0.0

    def forget(self) -> None:
        """Be ready for the next attempt."""
        self._thread, self.result = None, ""

    def done(self, attempt: int) -> bool:
        """Begin at the first call; return whether it is written, or took too long."""
        if self._thread is None:
            self.result = str(self._config.paths.log.with_name(f"{self._kind}-{attempt}.txt"))
            self._begun = time.monotonic()
            self._thread = threading.Thread(target=self._write, args=(attempt,), daemon=True)
            self._thread.start()
        return not self._thread.is_alive() or time.monotonic() - self._begun > _SECONDS

    def _write(self, attempt: int) -> None:
        folder = self._config.paths.log.parent
        found = evidence.gather(self._config, self._hand)
        data = json.dumps(found.evidence).encode("utf-8", "replace")
        try:
            for ending, content in (("txt", found.text.encode("utf-8", "replace")), ("json", data)):
                self._hand.create(folder / f"{self._kind}-{attempt}.{ending}", content)
                self._hand.keep_newest(folder, f"{self._kind}-*.{ending}", _KEPT)
        except OSError as error:  # a full disk: the run goes on without
            self.result = f"not written: {error.strerror}"
