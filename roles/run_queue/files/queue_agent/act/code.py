"""The frozen code of submitted runs, each version in a folder of the run's user.

Root alone can change what is around that folder. It opens nothing in it: a process with the user's
rights unpacks the archive. Runs of two users never share a folder, although a name and an archive
may be the same: who can write to the bucket can have both.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import sys
import time
from pathlib import Path

from run_agent.act import as_user, shared_places

from ..shared._queue.store import Queue

KEPT = 10
"""Folders of code that stay on a machine, of runs that have ended there."""
_SECONDS = 300.0
_FOR_OLD, _FOR_ONE = 20.0, 5.0
"""Seconds that a start waits for old code to go, and for one folder: its owner can stop that."""
_PROGRAM = Path(__file__).resolve().parents[2] / "tpu_fleet_queue.py"


class CannotInstall(Exception):
    """Why a run cannot be started here; `final` says whether no slice could start it."""

    def __init__(self, why: str, final: bool) -> None:
        super().__init__(why)
        self.final = final


def folder_of(place: Path, run: str, sha: str, user: str) -> Path:
    """Return where the code of a run is, for a user."""
    return place / run / f"{user}-{sha[:16]}"


def install(place: Path, run: str, sha: str, account: pwd.struct_passwd, queue: Queue) -> Path:
    """Return the folder of a run's code, fetched unless it is there; raise CannotInstall."""
    folder = folder_of(place, run, sha, account.pw_name)
    if not shared_places.is_folder_of(folder, account.pw_uid):
        data = _fetched(queue, sha)
        if os.path.lexists(folder):
            shared_places.move_away(folder)
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        _unpacked(data, folder, account)
    return folder


def _fetched(queue: Queue, sha: str) -> bytes:
    data = queue.code(sha)
    if data is None:
        raise CannotInstall(f"code: {sha[:12]} is not in the bucket: submit the run again", True)
    if hashlib.sha256(data).hexdigest() != sha:
        raise CannotInstall(f"code: the archive is not {sha[:12]}: submit the run again", True)
    return data


def _unpacked(data: bytes, folder: Path, account: pwd.struct_passwd) -> None:
    """Unpack an archive as the user; the folder gets its name when it is whole."""
    new, archive = folder.with_name(f"{folder.name}.new"), folder.with_name(f"{folder.name}.tar")
    remove(new)
    try:
        _give_file(archive, data, account)
        new.mkdir(mode=0o700)
        as_user.give_folder(new, account.pw_uid, account.pw_gid, 0o750)
        words = [sys.executable, "-I", "-S", str(_PROGRAM), "unpack", str(archive), str(new)]
        done = as_user.run_as(account, words, seconds=_SECONDS)
        if done.code:
            said = done.err.decode("utf-8", "replace").strip().splitlines()
            raise CannotInstall(f"code: {said[-1] if said else 'it cannot be unpacked'}", True)
        new.rename(folder)
    except as_user.UserError as error:
        raise CannotInstall(f"code: {error}", False) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            archive.unlink()


def _give_file(path: Path, data: bytes, account: pwd.struct_passwd) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o400), "wb") as stream:
        os.fchown(stream.fileno(), account.pw_uid, account.pw_gid)
        stream.write(data)


def remove(folder: Path, seconds: float = _SECONDS) -> bool:
    """Remove a folder: what is in it as the user whose it is, and the folder itself as root.

    Return whether its owner did not stop that.
    """
    try:
        owner = pwd.getpwuid(folder.lstat().st_uid)
    except (FileNotFoundError, KeyError):
        return True
    words = ["/bin/rm", "-rf", "--one-file-system", "--", str(folder)]
    try:
        # In the folder around it the user can remove nothing, so this fails at the end.
        as_user.run_as(owner, words, seconds=seconds)
        folder.rmdir()
    except as_user.TimeLimitError:
        return False
    except (OSError, as_user.UserError):
        pass
    return True


def prune(place: Path, in_use: str) -> None:
    """Remove the oldest code of runs that are not on this machine any more, but for a few.

    What a user keeps from being removed stays, and with it all else of that user, until the next
    start.
    """
    until, stopped = time.monotonic() + _FOR_OLD, set[int]()
    found = [path for path in place.glob("*/*") if path.parent.name != in_use]
    by_age = sorted(found, key=lambda path: path.lstat().st_mtime, reverse=True)
    for path in by_age[KEPT:]:
        owner = path.lstat().st_uid
        if owner in stopped or time.monotonic() > until:
            continue
        if not remove(path, _FOR_ONE):
            stopped.add(owner)
        with contextlib.suppress(OSError):
            path.parent.rmdir()
