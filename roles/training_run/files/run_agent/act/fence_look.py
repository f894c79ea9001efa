"""Has the fence looked at as the run's user, beside the agent's own loop.

A share whose server is away blocks every reader, and a bucket may be slow: here that is a child,
and a thread that waits for it. The agent itself goes on, and says what it waits for.
"""

from __future__ import annotations

import json
from typing import Any

from ..decide.config import Config
from ..decide.values import is_whole, one_line
from .folder_facts import PLACES
from .helper import Helper

_SECONDS = 3600.0  # a share may come back


class FenceLook:
    """One look at a time; the answer is there some time later."""

    def __init__(self, config: Config, command: str, about: str) -> None:
        self._command = command
        about = f"{about} cannot be looked at: "
        self._helper = Helper(config.user, _SECONDS, 65536, about)
        self._is_old = False

    def close(self) -> None:
        """End a look that is being done."""
        self._helper.close()

    def begin(self, asked: dict[str, Any]) -> None:
        """Start to look, unless it is being done, or an answer waits to be taken."""
        if not self._helper.is_busy:
            self._is_old = False
            self._helper.ask(self._command, json.dumps(asked))

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """Return what was found, waiting a little; None when it is not known yet."""
        found = self._helper.answer(seconds)
        return None if found is None or self._is_old else _typed(found)

    def forget(self) -> None:
        """Take no answer to what was asked by now."""
        self._is_old = True


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
