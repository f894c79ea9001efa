"""Has the fence looked at as the run's user, beside the agent's own loop.

A share whose server is away blocks every reader: that is a thread of the hand. A bucket may be
slow: that is a child, and a thread that waits for it. The agent itself goes on, and says what it
waits for.
"""

from __future__ import annotations

import json
import time
from typing import Any

from ..decide.config import Config
from ..decide.values import is_whole, one_line
from .folder_facts import PLACES
from .hand import Hand
from .helper import Helper

_SECONDS = 3600.0  # a share may come back


class _Look:
    """One look at a time; the answer is there some time later."""

    _is_old = False

    def forget(self) -> None:
        """Take no answer to what was asked by now."""
        self._is_old = True

    def _taken(self, found: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if found is None or self._is_old else _typed(found)


class FolderLook(_Look):
    """One at a folder, by the hand."""

    def __init__(self, hand: Hand, about: str) -> None:
        self._hand, self._about = hand, about
        self._asked: tuple[int, dict[str, Any]] | None = None

    def close(self) -> None:
        """Leave a look that is being done: the hand answers the next question after it."""
        self._asked = None

    def begin(self, asked: dict[str, Any]) -> None:
        """Have a question, unless the answer to another has not been taken."""
        if self._asked is None:
            self._asked, self._is_old = (time.monotonic_ns(), asked), False

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """Return what was found, waiting a little; None when it is not known yet."""
        if self._asked is None:
            return None
        try:
            found = self._hand.look(*self._asked, seconds)
        except OSError as error:
            found = {"error": f"{self._about} cannot be looked at: {error.strerror}"}
        if found is None:
            return None
        self._asked = None
        return self._taken(found)


class BucketLook(_Look):
    """One at a bucket, by a helper."""

    def __init__(self, config: Config, about: str) -> None:
        about = f"{about} cannot be looked at: "
        self._helper = Helper(config.user, _SECONDS, 65536, about)

    def close(self) -> None:
        """End a look that is being done."""
        self._helper.close()

    def begin(self, asked: dict[str, Any]) -> None:
        """Start to look, unless it is being done, or an answer waits to be taken."""
        if not self._helper.is_busy:
            self._is_old = False
            self._helper.ask("fence", json.dumps(asked))

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """Return what was found, waiting a little; None when it is not known yet."""
        return self._taken(self._helper.answer(seconds))


def _typed(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what a look found: its answer is the user's."""
    mark, free = answer.get("mark"), answer.get("free")
    return {
        "mark": mark if isinstance(mark, dict) else None,
        "free": free if is_whole(free) else None,
        "error": one_line(str(answer.get("error") or "")),
        "alone": answer.get("alone") is True,
        "place": answer.get("place") if answer.get("place") in PLACES else "",
    }
