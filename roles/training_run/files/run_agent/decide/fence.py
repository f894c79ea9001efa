"""The fence around a checkpoint folder: a mark that names the attempt which may write there.

Inside a slice the gang sees to it that one attempt has ended before the next begins. The mark is
for owners that cannot reach each other: a recreated slice, or a run that moved, finds in it
how far the numbers went, puts its own name there, and waits until the other, if it still lives,
has seen it and ended its program.

On a disk or NFS the mark is a file, which the program's parent writes when an attempt begins. In a
bucket it is an object, which the leader writes before that, over the very generation that it has
read: of two leaders one succeeds, and no attempt begins that the object does not name. A leader
that is told to stop writes there that its attempt has ended on all workers. Then an heir need not
wait; its own gang, if it comes back, begins the next attempt and never this one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .values import MOST_ATTEMPTS, is_whole, one_line

LOOKS_UNTIL_SURE = 6
"""Looks of a live owner while an heir waits: what an NFS client has in its cache may be old."""
LOOKS_UNTIL_SURE_OF_BUCKET = 2
"""The same in a bucket, which answers with its last state."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_ATTEMPT_FOLDER = re.compile(r"attempt-([1-9]\d{0,9})")
GO, TAKE_OVER, ELSEWHERE = "go", "take over", "elsewhere"


class Mark(NamedTuple):
    """What the file or the object says."""

    attempt: int
    owner: str
    run_id: str = ""
    where: str = ""
    reserved: bool = False  # the owner waits for the attempt before to end
    at: float = 0.0
    slice: str = ""
    restore: str | None = None  # the folder from which to restore; None where none has a whole one
    ended: bool = False  # nothing of the attempt is alive, and nothing of it starts again

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Mark | None:
        """Read the content, which is the user's and not trusted."""
        attempt, owner = data.get("attempt"), data.get("owner")
        if not is_whole(attempt) or not isinstance(owner, str):
            return None
        if not 0 <= attempt <= MOST_ATTEMPTS or len(owner) > 100 or not owner.isprintable():
            return None
        where, run_id = one_line(str(data.get("where", "")), 100), data.get("run_id", "")
        if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
            run_id = ""
        restore = data.get("restore")
        if restore != "" and number_of(restore) is None:
            restore = None
        return cls(
            attempt,
            owner,
            run_id,
            where,
            data.get("reserved") is True,
            slice=one_line(str(data.get("slice", "")), 100),
            restore=restore,
            ended=data.get("ended") is True,
        )


class Claim(NamedTuple):
    """What a leader wants before an attempt: that the mark names this attempt of its gang."""

    mark: Mark
    is_new: bool
    """Whether the gang never had the folder, and takes it over from any other."""
    is_sure: bool
    """Whether it has waited for the attempt before to end."""


def path_of(checkpoint_dir: str, name: str) -> Path | None:
    """Return the file's path; None where there is no folder that we can see."""
    if not checkpoint_dir.startswith("/"):
        return None
    # Not at the top, as the program's parent, which a start waits for, needs neither.
    from .checkpoints import FENCE

    return Path(checkpoint_dir) / f"{FENCE}.{name}"


def object_of(checkpoint_dir: str, name: str) -> tuple[str, str] | None:
    """Return bucket and name of the object; None where the checkpoints are in no bucket."""
    from .checkpoints import FENCE, bucket_and_folder

    place = bucket_and_folder(checkpoint_dir)
    return place and (place[0], f"{place[1]}{FENCE}.{name}")


def folder_of(attempt: int) -> str:
    """Return the name of the folder of one attempt, where each has its own."""
    return f"attempt-{attempt}"


def number_of(folder: Any) -> int | None:
    """Return the attempt to which a folder belongs."""
    found = _ATTEMPT_FOLDER.fullmatch(folder) if isinstance(folder, str) else None
    return int(found.group(1)) if found else None


def judge(found: Mark | None, owner: str, claimed: bool) -> str:
    """Say whether a gang may start: it has been there, or is new and heir to what it finds."""
    if found is None or found.owner == owner:
        return GO
    return ELSEWHERE if claimed else TAKE_OVER


def heir(found: Mark, claim: Mark) -> Mark:
    """Return what a new gang writes over the mark of the one before."""
    number = max(found.attempt + 1, claim.attempt)
    return claim._replace(
        attempt=number,
        run_id=found.run_id,
        reserved=not found.ended,
        restore=found.restore,
    )


def claimed(found: Mark | None, claim: Claim) -> Mark | None:
    """Return the mark to write before an attempt; None where nothing is to do."""
    if found is None:
        return claim.mark
    if found.owner != claim.mark.owner:
        return heir(found, claim.mark) if claim.is_new else None
    if found.attempt < claim.mark.attempt or found.ended:
        number = max(found.attempt + found.ended, claim.mark.attempt)
        run_id = found.run_id or claim.mark.run_id
        return claim.mark._replace(attempt=number, run_id=run_id, restore=found.restore)
    if found.reserved and claim.is_sure:
        return claim.mark._replace(attempt=found.attempt, run_id=found.run_id,
                       restore=found.restore)  # fmt: skip
    return None


def released(found: Mark | None, owner: str, attempt: int) -> Mark | None:
    """Return the mark to write when an attempt has ended on all workers; None if it is not there.

    Only the owner writes it, which knows that.
    """
    if found is None or (found.owner, found.attempt) != (owner, attempt):
        return None
    return None if found.reserved or found.ended else found._replace(ended=True)


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
        return f"attempt {attempt} has ended, as the fence says" if found.ended else ""
    of_slice = f" of slice {found.slice}" if found.slice else ""
    place = f" on {found.where}" if found.where else ""
    return f"fenced by attempt {found.attempt}{of_slice}{place}"


class Patience:
    """How long an heir waits: who is shut out looks several times meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._attempt = 0
        self._since = 0.0

    def left(self, mark: Mark, now: float) -> float:
        """Return for how long to wait yet; a mark that had to be renewed begins again."""
        if not mark.reserved:
            return 0.0
        if mark.attempt != self._attempt:
            self._attempt, self._since = mark.attempt, now
        return max(0.0, self._seconds - (now - self._since))
