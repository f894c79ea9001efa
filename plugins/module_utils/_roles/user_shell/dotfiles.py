# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install a user's dotfiles into the home, with only the user's rights.

Files in the way are moved into a folder of backups, and changes that the user made in the dotfiles
are never overwritten.
"""

from __future__ import annotations

import base64
import filecmp
import io
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..._host.as_user import UserError
from ..._host.unpack import Unfit, link_target, unpack
from ..._schema.values import COMMIT

KEEP = ".local/share/tpu-fleet"
# Files for the repository and not for a home.
_NOT_FOR_HOMES = {
    ".git",
    ".github",
    ".gitattributes",
    ".gitignore",
    ".gitlab-ci.yml",
    ".gitmodules",
}
_MARKER = ".tpu-fleet-snapshot.json"
GIT_SECONDS = 300
INSTALL_SECONDS = 900
# The sum of several calls of git, and the install command.
SECONDS = 5.0 * GIT_SECONDS + INSTALL_SECONDS


@dataclass(frozen=True)
class Wish:
    """The dotfiles that a user declares."""

    repo: str = ""
    version: str = "HEAD"
    subfolder: str = ""
    install: str = ""
    # For a folder of the controller: its digest, and its archive in base64.
    digest: str = ""
    archive: str = ""


@dataclass
class Outcome:
    """What was done, or would be done."""

    changes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    version: str = ""
    # The record for the next time. It is kept where the user cannot change it.
    record: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "changes": self.changes,
            "notes": self.notes,
            "version": self.version,
            "record": self.record,
        }


class Dotfiles:
    """The dotfiles of the user whose rights this process has."""

    def __init__(self, home: str, wish: Wish, dry: bool, record: Mapping[str, Any]) -> None:
        self.home = Path(home)
        self.keep = self.home / KEEP
        self.place = self.keep / "dotfiles"
        self.record = record
        self.wish = wish
        self.dry = dry
        self.done = Outcome()
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        self.backups = self.keep / "backup" / stamp

    def apply(self) -> dict[str, Any]:
        """Get the files, then link them or run the install command."""
        record = self.record
        source = self._from_git() if self.wish.repo else self._from_folder()
        self.done.version = source
        installed = {"version": source, "install": self.wish.install}
        links: list[str] = []
        if self.wish.install:
            if record.get("installed") != installed:
                self._install()
        elif self.place.is_dir() and (not self.dry or not self.done.changes):
            links = self._link()
        elif self.dry:
            links = list(record.get("links", []))
        self._unlink(sorted(set(record.get("links", [])) - set(links)))
        self.done.record = {
            "version": source,
            "links": sorted(links),
            **({"installed": installed} if self.wish.install else {}),
        }
        return self.done.as_dict()

    def _did(self, what: str) -> bool:
        """Record a change; return whether to make it."""
        self.done.changes.append(what)
        if not self.dry:
            self.keep.mkdir(mode=0o755, parents=True, exist_ok=True)
        return not self.dry

    # Where the files come from

    def _git(self, *words: str, folder: Path | None = None) -> str:
        env = {
            **os.environ,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh") + " -o BatchMode=yes",
            "LC_ALL": "C.UTF-8",
        }
        where = ["-C", str(folder)] if folder else []
        try:
            # This process has a user's rights, and no AnsibleModule.
            # pylint: disable-next=ansible-bad-function
            done = subprocess.run(
                ["git", *where, *words],
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=GIT_SECONDS,
                check=False,
                encoding="utf-8",
                errors="replace",
            )
        except FileNotFoundError:
            raise UserError("git is not installed") from None
        except subprocess.TimeoutExpired:
            raise UserError(f"git {words[0]} took more than {GIT_SECONDS} seconds") from None
        if done.returncode != 0:
            raise UserError(f"git {words[0]}: {' '.join(done.stderr.split()[-40:])}")
        return done.stdout.strip()

    def _from_git(self) -> str:
        wish = self.wish
        there = (self.place / ".git").is_dir() and not self.place.is_symlink()
        has = self._git("rev-parse", "HEAD", folder=self.place) if there else ""
        if there and COMMIT.fullmatch(wish.version) and has == wish.version:
            return has
        try:
            wanted = self._resolve()
        except UserError as error:
            if not there:
                raise
            self.done.notes.append(f"dotfiles stay at {has[:12]}: {error}")
            return has
        if has == wanted:
            return has
        if there and self._has_own_changes():
            self.done.notes.append(
                f"dotfiles stay at {has[:12]}: {self.place} has changes that are in no repository. "
                "Commit and push them, or discard them"
            )
            return has
        if not self._did(f"bring dotfiles {wanted[:12]} of {wish.repo}"):
            return wanted
        if there:
            self._git("remote", "set-url", "origin", wish.repo, folder=self.place)
            self._git("fetch", "--quiet", "--tags", "--force", "origin", folder=self.place)
            self._check_out(self.place, wanted)
            return wanted
        trial = self.keep / f".dotfiles.{os.getpid()}"
        try:
            self._git("clone", "--quiet", "--no-checkout", "--", wish.repo, str(trial))
            self._check_out(trial, wanted)
            self._put_aside(self.place)
            trial.rename(self.place)
        finally:
            shutil.rmtree(str(trial), ignore_errors=True)
        return wanted

    def _check_out(self, folder: Path, commit: str) -> None:
        self._git("checkout", "--quiet", "--detach", commit, folder=folder)
        if (folder / ".gitmodules").exists():
            self._git("submodule", "update", "--quiet", "--init", "--recursive", folder=folder)

    def _resolve(self) -> str:
        """Return the commit that the version means in the repository."""
        version = self.wish.version
        if COMMIT.fullmatch(version):
            return version
        names = ["HEAD"]
        if version != "HEAD":
            tag = f"refs/tags/{version}"
            # git lists the commit of an annotated tag under a separate name.
            names = [f"refs/heads/{version}", tag + "^{}", tag]
        listed = self._git("ls-remote", "--", self.wish.repo, *names)
        found = {
            line.split("\t")[1]: line.split("\t")[0] for line in listed.splitlines() if "\t" in line
        }
        for name in names:
            if name in found:
                return found[name]
        raise UserError(f"{self.wish.repo} has no branch or tag {version}")

    def _has_own_changes(self) -> bool:
        listed = self._git("status", "--porcelain", "--untracked-files=no", folder=self.place)
        words = ("rev-list", "--count", "HEAD", "--not", "--remotes", "--tags")
        return bool(listed) or self._git(*words, folder=self.place) != "0"

    def _from_folder(self) -> str:
        """Unpack a snapshot beside earlier ones, which may have changes, and switch to it."""
        digest = self.wish.digest[:16]
        release = self.keep / f"dotfiles-{digest}"
        if self.place.is_symlink() and link_target(self.place) == release.name:
            return digest
        if not self._did(f"bring dotfiles {digest} of a folder"):
            return digest
        if not release.is_dir():
            trial = self.keep / f".dotfiles.{os.getpid()}"
            try:
                trial.mkdir(mode=0o755)
                unpack(io.BytesIO(base64.b64decode(self.wish.archive)), trial)
                (trial / _MARKER).unlink()
                trial.rename(release)
            except FileNotFoundError:
                raise UserError("the snapshot of the folder is incomplete") from None
            except Unfit as error:
                raise UserError(f"the snapshot of the folder is unusable: {error}") from None
            finally:
                shutil.rmtree(str(trial), ignore_errors=True)
        if not self.place.is_symlink():
            self._put_aside(self.place)
        self._point(self.place, release.name)
        return digest

    # Installation in the home

    def _install(self) -> None:
        if not self._did(f"run {self.wish.install}"):
            return
        try:
            # No run_command, as above. The command and its rights are the user's own.
            # pylint: disable-next=ansible-bad-function
            done = subprocess.run(
                ["/bin/sh", "-c", self.wish.install],
                cwd=str(self.place / self.wish.subfolder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=INSTALL_SECONDS,
                check=False,
                encoding="utf-8",
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            raise UserError(
                f"{self.wish.install} took more than {INSTALL_SECONDS} seconds"
            ) from None
        if done.returncode != 0:
            last = " ".join(done.stdout.split()[-40:])
            raise UserError(f"{self.wish.install} ended with {done.returncode}: {last}")

    def _link(self) -> list[str]:
        """Link every file into the home; return their names there."""
        top = self.place / self.wish.subfolder
        if not top.is_dir():
            raise UserError(f"the dotfiles have no folder {self.wish.subfolder}")
        linked = []
        for name in files_for_home(top, everything=bool(self.wish.subfolder)):
            target = str(top / name)
            place = self.home / name
            linked.append(name)
            if place.is_symlink() and link_target(place) == target:
                continue
            if not self._did(f"link ~/{name}"):
                continue
            self._make_room(place.parent)
            if not _same(place, Path(target)):
                self._put_aside(place)
            self._point(place, target)
        return linked

    def _make_room(self, folder: Path) -> None:
        """Create the folders above a link; a file in their place is moved to the backups."""
        for parent in reversed([folder, *folder.parents]):
            if self.home in parent.parents and not parent.is_dir():
                self._put_aside(parent)
                parent.mkdir(mode=0o755)

    def _put_aside(self, path: Path) -> None:
        """Move a file into the folder of backups."""
        if not os.path.lexists(path):
            return
        target = self.backups / path.relative_to(self.home)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.move(str(path), str(target))
        self.done.notes.append(f"{path} is kept as {target}")

    def _point(self, place: Path, target: str) -> None:
        trial = place.with_name(f".{place.name}.{os.getpid()}.new")
        trial.symlink_to(target)
        trial.replace(place)

    def _unlink(self, names: Iterable[str]) -> None:
        """Remove links whose file is gone from the dotfiles, and nothing else."""
        for name in names:
            place = self.home / name
            ours = place.is_symlink() and link_target(place).startswith(f"{self.place}/")
            if ours and self._did(f"remove the link ~/{name}"):
                place.unlink()


def checked_record(data: Any) -> dict[str, Any]:
    """Return the valid part of a record: strings, and names that stay in the home."""
    if not isinstance(data, dict):
        return {}
    names = data.get("links")
    found: dict[str, Any] = {
        "version": data["version"] if isinstance(data.get("version"), str) else "",
        "links": sorted(
            name
            for name in (names if isinstance(names, list) else [])
            if isinstance(name, str) and name and name[0] != "/" and ".." not in name.split("/")
        ),
    }
    installed = data.get("installed")
    if isinstance(installed, dict) and set(map(type, installed.values())) == {str}:
        found["installed"] = installed
    return found


def files_for_home(top: Path, everything: bool) -> list[str]:
    """Return the files that go into a home, relative to it."""
    found = []
    for parent, folders, files in os.walk(top):
        here = Path(parent).relative_to(top)
        at_top = Path(parent) == top
        for name in (*files, *(n for n in folders if Path(parent, n).is_symlink())):
            if name != _MARKER and (not at_top or _counts(name, everything)):
                found.append(str(here / name))
        folders[:] = [
            name for name in folders if name != ".git" and (not at_top or _counts(name, everything))
        ]
    return sorted(found)


def _counts(name: str, everything: bool) -> bool:
    return name not in _NOT_FOR_HOMES and (everything or name.startswith("."))


def _same(place: Path, target: Path) -> bool:
    """Return whether a file in the way has the same content as the one that replaces it."""
    if place.is_symlink() or not place.is_file() or not target.is_file():
        return False
    return filecmp.cmp(str(place), str(target), shallow=False)
