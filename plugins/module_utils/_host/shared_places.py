# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take names in folders where every user can create files, before another user takes them.

In /tmp, programs use fixed names: tmux `/tmp/tmux-UID`, libtpu `/tmp/libtpu_lockfile`. Only
root and its owner can rename or remove what is there, because such a folder has the sticky bit.

The run agent uses this file too, so it needs only Python 3.8.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

_TRIES = 100


def move_away(path: Path) -> None:
    """Move what is at a path into a folder beside it that only root can enter."""
    away = Path(tempfile.mkdtemp(prefix=f".{path.name}-moved-away-", dir=str(path.parent)))
    try:
        path.rename(away / path.name)
    except OSError:
        away.rmdir()
        raise


def is_folder_of(path: Path, uid: int) -> bool:
    """Return whether a path is a folder that a user owns, and no link."""
    try:
        seen = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == uid


def take_folder(path: Path, uid: int, gid: int) -> None:
    """Create a folder that only its owner can enter; what another user put there is moved away."""
    if is_folder_of(path, uid):
        return
    made = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=str(path.parent)))
    try:
        os.chown(str(made), uid, gid, follow_symlinks=False)
        _put(made, path, lambda: is_folder_of(path, uid))
    finally:
        with contextlib.suppress(FileNotFoundError):
            made.rmdir()


def take_file(path: Path, uid: int, gid: int) -> None:
    """Replace a file by an empty one of a user; a folder in its place is moved away."""
    handle, made = tempfile.mkstemp(prefix=f".{path.name}-", dir=str(path.parent))
    try:
        try:
            os.fchown(handle, uid, gid)
        finally:
            os.close(handle)
        _put(Path(made), path, lambda: False)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(made).unlink()


def take_link(path: Path, target: str) -> None:
    """Create a link; what another user put there is moved away."""
    made = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    made.symlink_to(target)
    try:
        with contextlib.suppress(FileNotFoundError):
            move_away(path)
        _put(made, path, lambda: False)
    finally:
        with contextlib.suppress(FileNotFoundError):
            made.unlink()


def _put(made: Path, path: Path, is_there: Callable[[], bool]) -> None:
    """Rename what was made to its place, unless the same is there.

    Other users, and the agents of other runs, create and remove at the same time what is there.
    """
    for left in reversed(range(_TRIES)):
        try:
            made.replace(path)
        except OSError:
            if is_there():
                return
            if not left:
                raise
            with contextlib.suppress(FileNotFoundError):
                move_away(path)
        else:
            return


def tmux_folder(uid: int) -> str:
    """Return the folder in which tmux has the sockets of a user."""
    return f"/tmp/tmux-{uid}"  # noqa: S108 - tmux's own choice
