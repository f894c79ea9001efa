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
import stat
import tempfile
from pathlib import Path


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
    with contextlib.suppress(FileNotFoundError):
        move_away(path)
    path.mkdir(mode=0o700)
    os.chown(str(path), uid, gid, follow_symlinks=False)


def take_file(path: Path, uid: int, gid: int) -> None:
    """Replace a file by an empty one of a user; a folder in its place is moved away."""
    try:
        path.unlink()
    except FileNotFoundError:
        pass
    except IsADirectoryError:
        move_away(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(str(path), flags, 0o600)
    try:
        os.fchown(descriptor, uid, gid)
    finally:
        os.close(descriptor)


def tmux_folder(uid: int) -> str:
    """Return the folder in which tmux has the sockets of a user."""
    return f"/tmp/tmux-{uid}"  # noqa: S108 - tmux's own choice
