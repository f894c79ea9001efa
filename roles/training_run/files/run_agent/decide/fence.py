"""The fence around a checkpoint folder: a file that names the attempt which may write there.

Inside a slice the gang sees to it that one attempt has ended before the next begins. The file is
for owners that cannot reach each other: a recreated slice, or a run that moved, finds in it
how far the numbers went, puts its own name there, and waits until the other, if it still lives,
has seen it and ended its program. It works where both see one folder: a disk or NFS, no bucket.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .gang_state import MOST_ATTEMPTS
from .values import is_whole, one_line

_LOOKS_UNTIL_SURE = 6
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
GO, TAKE_OVER, ELSEWHERE = "go", "take over", "elsewhere"


@dataclass(frozen=True)
class Mark:
    """What the file says."""

    attempt: int
    owner: str
    run_id: str = ""
    where: str = ""
    reserved: bool = False  # the owner waits for the attempt before to end
    at: float = 0.0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Mark | None:
        """Read a file's content, which is the user's and not trusted."""
        attempt, owner = data.get("attempt"), data.get("owner")
        if not is_whole(attempt) or not isinstance(owner, str):
            return None
        if not 0 <= attempt <= MOST_ATTEMPTS or len(owner) > 100 or not owner.isprintable():
            return None
        where, run_id = one_line(str(data.get("where", "")), 100), data.get("run_id", "")
        if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
            run_id = ""
        return cls(attempt, owner, run_id, where, data.get("reserved") is True)


def path_of(checkpoint_dir: str, name: str) -> Path | None:
    """Return the file's path; None where there is no folder that we can see."""
    if not checkpoint_dir.startswith("/"):
        return None
    return Path(checkpoint_dir) / f".tpu-fleet-attempt.{name}"


def judge(found: Mark | None, owner: str, claimed: bool) -> str:
    """Say whether a gang may start: it has been there, or is new and heir to what it finds."""
    if found is None or found.owner == owner:
        return GO
    return ELSEWHERE if claimed else TAKE_OVER


def heir(found: Mark, owner: str, where: str, now: float) -> Mark:
    """Return what a new gang writes over the mark of the one before."""
    return Mark(found.attempt + 1, owner, found.run_id, where, reserved=True, at=now)


def floor(found: Mark | None) -> int:
    """Return the last attempt that was ever begun."""
    if found is None:
        return 0
    return found.attempt - 1 if found.reserved else found.attempt


def shuts_out(found: Mark | None, owner: str, attempt: int) -> str:
    """Say by whom an attempt is shut out of the folder; empty when it may write."""
    if found is None or found.attempt < attempt:
        return ""
    if found.attempt == attempt and found.owner == owner:
        return ""
    place = f" on {found.where}" if found.where else ""
    return f"attempt {found.attempt}{place} has the checkpoint folder"


class Patience:
    """How long an heir waits: who is shut out looks several times meanwhile."""

    def __init__(self, every: float) -> None:
        self._seconds = _LOOKS_UNTIL_SURE * every
        self._attempt = 0
        self._since = 0.0

    def left(self, mark: Mark, now: float) -> float:
        """Return for how long to wait yet; a mark that had to be renewed begins again."""
        if not mark.reserved:
            return 0.0
        if mark.attempt != self._attempt:
            self._attempt, self._since = mark.attempt, now
        return max(0.0, self._seconds - (now - self._since))
