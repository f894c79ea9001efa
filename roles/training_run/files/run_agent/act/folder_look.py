"""Looks at the fence in the checkpoint folder, in the hand: with the rights of the run's user.

A share whose server is away blocks every reader, so the look is done by a thread beside the hand's
other work.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from ..decide import fence
from ..decide.fence import Claim, Mark
from . import fence_file
from .folder_facts import free_bytes, kind_of, place_of

# On a disk of its own no other machine can still be writing. All other kinds may be shared.
_OF_ONE_MACHINE = ("ext3", "ext4", "xfs", "btrfs", "overlay")


class Looks:
    """One look at a time; the answer is there some time later."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._number = 0
        self._answer: dict[str, Any] | None = None

    def answer(self, number: int, asked: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the answer to a question, waiting a little; None while it is not known.

        The first call with a number begins the look, unless an earlier one is still being done.
        """
        if self._number != number and (self._thread is None or not self._thread.is_alive()):
            self._number, self._answer = number, None
            self._thread = threading.Thread(target=self._run, args=(asked,), daemon=True)
            self._thread.start()
        if self._thread is not None:
            self._thread.join(seconds)
        return self._answer if self._number == number else None

    def _run(self, asked: dict[str, Any]) -> None:
        try:
            self._answer = look(asked)
        except OSError as error:
            self._answer = {"error": error.strerror or type(error).__name__}


def look(asked: dict[str, Any]) -> dict[str, Any]:
    """Look, and take the folder over from another gang if asked to; return what was found."""
    path = Path(asked["path"])
    found = fence_file.read(path)
    error = ""
    mark = _take_over(found, asked["claim"] or {})
    if mark is not None:
        try:
            fence_file.write(path, mark)
            found = mark
        except OSError as trouble:
            error = f"{path}: {trouble.strerror}"
    shown = found._asdict() if found else None
    told = {"mark": shown, "free": free_bytes(path.parent), "error": error}
    told["place"] = place_of(path.parent)
    return {**told, "alone": kind_of(path.parent) in _OF_ONE_MACHINE}


def _take_over(found: Mark | None, claim: dict[str, object]) -> Mark | None:
    """Return the mark of a gang that takes over; every other one the program's parent writes."""
    given = claim.get("mark")
    mine = Mark.from_json(given) if isinstance(given, dict) else None
    if found is None or mine is None or found.owner == mine.owner:
        return None
    mine = mine._replace(at=time.time())
    return fence.claimed(found, Claim(mine, claim.get("is_new") is True, is_sure=False))
