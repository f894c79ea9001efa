# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read, write and remove one secret file, with the rights of this process. Private."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Any

from ..._host.as_user import UserError, read_plain, write_plain
from .plan import fingerprint

_MOST = 1 << 20


def look_at(path: str, key: bytes) -> dict[str, Any]:
    """Return what is at a path; a link is not followed."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return {"kind": "absent"}
    if stat.S_ISLNK(status.st_mode):
        return {"kind": "link"}
    if stat.S_ISDIR(status.st_mode):
        return {"kind": "directory"}
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST:
        return {"kind": "other"}
    content = read_plain(path, _MOST) or b""
    return {
        "kind": "file",
        "fingerprint": fingerprint(key, content),
        "mode": stat.S_IMODE(status.st_mode),
        "uid": status.st_uid,
    }


def write_file(path: str, content: str) -> None:
    """Replace a file in one step; missing folders are created for the owner alone."""
    target = Path(path)
    missing = []
    folder = target.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        one.mkdir(mode=0o700)
    refuse_unsafe(target.parent)
    write_plain(path, content.encode(), 0o600)


def remove_file(path: str) -> None:
    """Remove a file; its folder stays."""
    Path(path).unlink()


def refuse_unsafe(folder: Path) -> None:
    """Raise UserError for a folder in which another user could replace the file."""
    real = Path(os.path.realpath(folder))
    for one in (real, *real.parents):
        status = one.stat()
        if status.st_uid not in (0, os.geteuid()):
            raise UserError(f"folder {one} belongs to another user")
        if status.st_mode & stat.S_IWOTH:
            raise UserError(f"folder {one} can be written by all users; run chmod o-w {one}")
        if status.st_mode & stat.S_IWGRP and not _own_group(status.st_gid):
            raise UserError(f"folder {one} can be written by its group; run chmod g-w {one}")


def _own_group(gid: int) -> bool:
    """Return whether this user (or root) is the only member of a group."""
    try:
        members = set(grp.getgrgid(gid).gr_mem)
    except KeyError:
        return False
    members |= {entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == gid}
    return members <= {"root", pwd.getpwuid(os.geteuid()).pw_name}
