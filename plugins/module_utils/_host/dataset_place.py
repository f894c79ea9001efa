# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a data set is on a machine: its folder, the link to it, what it says of itself.

    PATH -> .NAME.dataset/current -> ID      the link that root made, and the one that is switched
    .NAME.dataset/ID                         a whole data set
    .NAME.dataset/ID.part                    one that is on its way
    .NAME.dataset/ID.list                    the files of a whole one, for the other workers

The folder belongs to an account that owns nothing else, so no user can change a data set. Below
/dev/shm every user can take both names after a boot: what another user has there does not count,
and the agent moves it away. The agent that stages data sets and the run agent use this file too:
standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import stat
from pathlib import Path
from typing import Any

from .as_user import UserError, account_of, give_folder, read_plain, refuse_foreign
from .shared_places import take_folder, take_link

ACCOUNT = "tpu-fleet-data"
UNIT = "tpu-fleet-datasets.service"
STATUS = Path("/run/tpu-fleet/datasets")
RESERVE = 256 << 20
"""Bytes of a disk that the rest of the machine keeps."""
CURRENT = "current"
PART = ".part"
_MOST_OF_STATUS = 1 << 16


class Place:
    """The folder of one data set."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.folder = self.path.with_name(f".{self.path.name}.dataset")
        self.link = f"{self.folder.name}/{CURRENT}"

    def whole(self, content: str) -> Path:
        """Return where a content is when it is whole."""
        return self.folder / content

    def part(self, content: str) -> Path:
        """Return where a content is while it comes."""
        return self.folder / f"{content}{PART}"

    def listing(self, content: str) -> Path:
        """Return where the files of a whole content are listed."""
        return self.folder / f"{content}.list"

    def has(self, content: str) -> bool:
        """Return whether a content is there as a whole, and the path leads to it."""
        account = account_of(ACCOUNT)
        try:
            leads = str(self.path.readlink()) == self.link and not _others(self.path, account)
            is_current = str((self.folder / CURRENT).readlink()) == content
            return (
                leads
                and is_current
                and not _others(self.folder, account)
                and self.whole(content).is_dir()
            )
        except OSError:
            return False

    def obstacle(self) -> str:
        """Return what else is at the path; empty if nothing is."""
        if self.path.is_symlink():
            target = str(self.path.readlink())
            return "" if target == self.link else f"is a link to {target}, which is not ours"
        if self.path.exists():
            return "is there already, and no data set of this fleet"
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            return f"needs {self.folder}, which is no folder"
        return ""

    def prepare(self, account: pwd.struct_passwd, gid: int | None) -> None:
        """Make the folder and the link to it, as root; raise UserError or OSError.

        With a group, no other users can read it.
        """
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        refuse_foreign(self.path.parent)
        if _is_open_to_all(self.path.parent):
            self._take_names(account)
        wrong = self.obstacle()
        if wrong:
            raise UserError(f"{self.path} {wrong}")
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._refuse_others(account)
        mode = 0o755 if gid is None else 0o2750
        give_folder(self.folder, account.pw_uid, account.pw_gid if gid is None else gid, mode)
        if not self.path.is_symlink():
            self.path.symlink_to(self.link)

    def _take_names(self, account: pwd.struct_passwd) -> None:
        """Move away what another user has put at a name; root's own stays an obstacle."""
        if os.path.lexists(self.folder) and _others(self.folder, account):
            take_folder(self.folder, account.pw_uid, account.pw_gid)
        if os.path.lexists(self.path) and _others(self.path, account):
            take_link(self.path, self.link)

    def _refuse_others(self, account: pwd.struct_passwd) -> None:
        if not self.folder.is_dir() or self.folder.is_symlink() or _others(self.folder, account):
            raise UserError(f"{self.folder} belongs to another user: move it away")

    def switch(self, content: str) -> None:
        """Let the path lead to a content, in one step, and remove all others."""
        trial = self.folder / f"{CURRENT}.new"
        with contextlib.suppress(FileNotFoundError):
            trial.unlink()
        trial.symlink_to(content)
        trial.replace(self.folder / CURRENT)
        self.keep(content)

    def keep(self, content: str) -> None:
        """Remove all but a whole content."""
        kept = {content, self.listing(content).name, CURRENT}
        for path in self.folder.iterdir():
            if path.name in kept:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the data set with its link, as root; what others put there stays."""
        refuse_foreign(self.path.parent)
        if self.path.is_symlink() and str(self.path.readlink()) == self.link:
            self.path.unlink()
        if self.folder.is_dir() and not self.folder.is_symlink():
            shutil.rmtree(self.folder)


def _others(path: Path, account: pwd.struct_passwd | None) -> bool:
    """Return whether what is at a path belongs to another user than root and the account."""
    own = {0, os.geteuid(), *([account.pw_uid] if account else [])}
    return path.lstat().st_uid not in own


def _is_open_to_all(folder: Path) -> bool:
    """Return whether every user can create files in a folder, and rename only their own."""
    mode = folder.stat().st_mode
    return bool(mode & stat.S_ISVTX and mode & 0o022)


def status_of(name: str, folder: Path = STATUS) -> dict[str, Any]:
    """Return what the agent says of a data set; empty if it says nothing that can be read."""
    try:
        found = json.loads(read_plain(str(folder / f"{name}.json"), _MOST_OF_STATUS) or b"{}")
    except (OSError, ValueError, UserError):
        return {}
    return found if isinstance(found, dict) else {}


def lacking(name: str, path: str, content: str, status: Path = STATUS) -> str:
    """Return why a data set is not there yet; empty when it is."""
    if Place(path).has(content):
        return ""
    found = status_of(name, status)
    said = str(found.get("says") or "") if found.get("id") == content else ""
    text = f"data set {name}: {said or 'it is not staged yet'}"
    return "".join(letter if letter.isprintable() else " " for letter in text)[:400]
