"""Have the place where a program hangs written down, without holding the agent up."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from ..decide import bounds
from ..decide.config import Config
from ..decide.values import json_object
from . import evidence, store
from .hand import Hand

_SECONDS = 15.0
_KEPT = 5
_LOOKED = 20  # attempts in which a note is looked for
KINDS = ("hang", "start")
"""What an attempt can have a note of: that it hung, that its start did not end."""


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


def newest(config: Config, hand: Hand) -> evidence.Found | None:
    """Return the note of the last attempt that has one; None without any that can be read.

    The run's user can have written it.
    """
    status = store.status_of(config.paths)
    last = (status.load() or {}).get("attempt")
    for attempt in range(last if isinstance(last, int) else 0, 0, -1)[:_LOOKED]:
        for kind in KINDS:
            found = _read(config.paths.log.with_name(f"{kind}-{attempt}.json"), hand)
            if found is not None:
                return found
    return None


def _read(path: Path, hand: Hand) -> evidence.Found | None:
    told = json_object(hand.read(path, bounds.EVIDENCE))
    if told is None:
        return None
    text = hand.read(path.with_suffix(".txt"), bounds.RAW).decode("utf-8", "replace")
    return evidence.Found(told, text[: bounds.RAW])
