"""A process with the rights of the run's user, and a thread that waits for what it answers.

Whatever it asks, a bucket or a share, may be slow or away: that delays neither the agent nor the
run. Its answer is the user's, and read with care.
"""

from __future__ import annotations

import threading
from typing import Any

from ..decide.values import json_object, one_line
from . import as_user, installed, terminal


class Helper:
    """Does one thing at a time, for a run's user."""

    def __init__(self, user: str, seconds: float, most_bytes: int, about: str = "") -> None:
        """It takes at most so many seconds, and answers so many bytes.

        An error begins with what it is `about`.
        """
        self._user, self._about = user, about
        self._seconds, self._most = seconds, most_bytes
        self._thread: threading.Thread | None = None
        self._answer: dict[str, Any] | None = None
        self._unwanted = threading.Event()

    @property
    def is_busy(self) -> bool:
        """Return whether it was asked for something whose answer was not taken."""
        return self._thread is not None

    def ask(self, *words: str, given: bytes = b"") -> None:
        """Start a command of the agent, with this as its input."""
        self._answer = None
        self._thread = threading.Thread(target=self._run, args=(words, given), daemon=True)
        self._thread.start()

    def answer(self, seconds: float = 0.0) -> dict[str, Any] | None:
        """Take the answer, waiting a little; None while there is none. An `error` may be in it."""
        if self._thread is None:
            return None
        self._thread.join(max(0.0, seconds))
        if self._thread.is_alive():
            return None
        self._thread = None
        return self._answer or {"error": "no answer"}

    def close(self) -> None:
        """End what is being done."""
        self._unwanted.set()

    def _run(self, words: tuple[str, ...], given: bytes) -> None:
        try:
            done = as_user.run_as(
                self._user,
                installed.command(*words),
                terminal.user_environment(self._user),
                seconds=self._seconds,
                most_bytes=self._most,
                unwanted=self._unwanted,
                given=given,
            )
            self._answer = json_object(done.out)
        except (OSError, as_user.UserError, terminal.CannotStart) as error:
            self._answer = {"error": f"{self._about}{one_line(str(error))}"}
