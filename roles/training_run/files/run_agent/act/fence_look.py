"""Has the fence looked at as the run's user, beside the agent's own loop.

A share whose server is away blocks every reader, and a bucket may be slow: here that is a child,
and a thread that waits for it. The agent itself goes on, and says what it waits for.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from ..decide.config import Config
from ..decide.values import is_whole, json_object, one_line
from . import as_user, installed, terminal
from .folder_facts import PLACES

_SECONDS = 3600.0  # a share may come back


class FenceLook:
    """One look at a time; the answer is there some time later."""

    def __init__(self, config: Config, helper: str, about: str) -> None:
        self._config = config
        self._helper, self._about = helper, about
        self._thread: threading.Thread | None = None
        self._answer: dict[str, Any] | None = None
        self._unwanted = threading.Event()
        self._is_old = False

    def close(self) -> None:
        """End a look that is being done."""
        self._unwanted.set()

    def begin(self, asked: dict[str, Any]) -> None:
        """Start to look, unless it is being done, or an answer waits to be taken."""
        if self._thread is not None:
            return
        self._answer, self._is_old = None, False
        self._thread = threading.Thread(target=self._run, args=(json.dumps(asked),), daemon=True)
        self._thread.start()

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """Return what was found, waiting a little; None when it is not known yet."""
        if self._thread is None:
            return None
        self._thread.join(seconds)
        if self._thread.is_alive():
            return None
        self._thread = None
        return None if self._is_old else self._answer

    def forget(self) -> None:
        """Take no answer to what was asked by now."""
        self._is_old = True

    def _run(self, text: str) -> None:
        user = self._config.user
        try:
            done = as_user.run_as(
                user,
                installed.command(self._helper, text),
                terminal.user_environment(user),
                seconds=_SECONDS,
                most_bytes=65536,
                unwanted=self._unwanted,
            )
            self._answer = _typed(json_object(done.out))
        except (OSError, as_user.UserError, terminal.CannotStart) as error:
            self._answer = {"error": f"{self._about} cannot be looked at: {one_line(str(error))}"}


def _typed(answer: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a look found: its answer is the user's."""
    if answer is None:
        return {"error": "no answer"}
    mark, free = answer.get("mark"), answer.get("free")
    return {
        "mark": mark if isinstance(mark, dict) else None,
        "free": free if is_whole(free) else None,
        "error": one_line(str(answer.get("error") or "")),
        "alone": answer.get("alone") is True,
        "place": answer.get("place") if answer.get("place") in PLACES else "",
    }
