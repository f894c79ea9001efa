# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the shells of a host to their declared state. Private to tpu.fleet."""

from __future__ import annotations

import io
import json
import os
import pwd
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..._host.as_user import UserError, account_of, as_user
from ..._host.state import as_json, read_text, write_atomically
from ..._host.unpack import Unfit, link_target, tree_id, unpack
from ..._host.work import Failed
from .dotfiles import SECONDS, Dotfiles, Wish, checked_record
from .plan import (
    CURRENT,
    ETC,
    OHMYZSH,
    SYSCTL,
    WATCHES,
    ZSHRC,
    Person,
    files,
    people_here,
    source_line,
    with_block,
)

MOST_BYTES = 64 << 20
TRIES = 3
PAUSE = 3.0
# The system's shell files on Debian and Ubuntu, and ours for each. zprofile is for logins.
READ_BY = {
    "/etc/bash.bashrc": "interactive.bash",
    "/etc/zsh/zprofile": "login.zsh",
    "/etc/zsh/zshrc": "interactive.zsh",
}


class Shells:
    """The shells of this host, and their changes."""

    def __init__(
        self,
        params: dict[str, Any],
        dry: bool,
        records: str,
        fetch: Callable[[str, int], bytes],
    ) -> None:
        self.params = params
        # The folder of records about each user's dotfiles.
        self.records = records
        # Returns the first bytes at a URL, up to a limit.
        self.fetch = fetch
        self.dry = dry
        self.changes: list[str] = []
        self.notes: list[str] = []
        self.dotfiles: dict[str, str] = {}
        self.people = people_here(params)

    def bring_about(self) -> None:
        """Apply everything; what needs a network, and may fail, comes first."""
        self._ohmyzsh()
        self._files()
        self._watches()
        problems = []
        for person in self.people:
            # A problem of one user must not keep the others from their shells.
            try:
                self._person(person)
            except Failed as error:
                problems.append(str(error))
        if problems:
            raise Failed("; ".join(problems))

    def _did(self, what: str) -> bool:
        self.changes.append(what)
        return not self.dry

    # The host's shells

    def _ohmyzsh(self) -> None:
        if not any(person.ohmyzsh for person in self.people):
            if os.path.lexists(OHMYZSH) and self._did("remove oh-my-zsh"):
                shutil.rmtree(OHMYZSH)
            return
        tree = self.params["ohmyzsh_tree"]
        place = Path(OHMYZSH) / tree
        if not place.is_dir() or tree_id(place) != tree:
            commit = self.params["ohmyzsh_commit"]
            if not self._did(f"unpack oh-my-zsh {commit[:12]}"):
                return
            self._unpack(self._download(commit), place, tree)
        current = Path(CURRENT)
        before = link_target(current) if current.is_symlink() else ""
        if before != tree and self._did(f"switch to oh-my-zsh {tree[:12]}"):
            trial = current.with_name(f".current.{os.getpid()}")
            trial.symlink_to(tree)
            trial.replace(current)
        for left in sorted(Path(OHMYZSH).iterdir()):
            # A user who is logged in may still read the earlier one.
            if left.name not in (tree, before, "current") and not self.dry:
                shutil.rmtree(str(left))

    def _download(self, commit: str) -> bytes:
        url = self.params["ohmyzsh_url"].replace("{commit}", commit)
        if url.startswith("/"):
            try:
                return Path(url).read_bytes()
            except OSError as error:
                raise Failed(f"fleet_ohmyzsh_url = {url!r} cannot be read: {error}") from None
        for attempt in range(1, TRIES + 1):
            try:
                data = self.fetch(url, MOST_BYTES + 1)
            except Exception as error:
                if attempt == TRIES:
                    raise Failed(
                        f"fleet_ohmyzsh_url = {url!r} cannot be fetched: {error}. Set a "
                        "mirror or a path on the host, or do not use oh-my-zsh (ohmyzsh: false "
                        "in fleet_shells)"
                    ) from None
                time.sleep(PAUSE)
            else:
                break
        if len(data) > MOST_BYTES:
            raise Failed(f"{url} is larger than {MOST_BYTES >> 20} MiB")
        return data

    def _unpack(self, data: bytes, place: Path, tree: str) -> None:
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        trial = place.with_name(f".{tree}.{os.getpid()}")
        try:
            trial.mkdir(mode=0o755)
            unpack(io.BytesIO(data), trial, strip=1)
            found = tree_id(trial)
            if found != tree:
                raise Failed(
                    f"The archive at fleet_ohmyzsh_url has the tree {found}, not "
                    f"fleet_ohmyzsh_tree = {tree}. Nothing of it is used"
                )
            if place.exists():
                shutil.rmtree(str(place))
            trial.rename(place)
        except Unfit as error:
            raise Failed(f"The archive at fleet_ohmyzsh_url is unusable: {error}") from None
        finally:
            shutil.rmtree(str(trial), ignore_errors=True)

    def _files(self) -> None:
        wanted = files(self.params, self.people)
        there = {str(path) for path in Path(ETC).rglob("*") if path.is_file()}
        for path in sorted({*wanted, *there}):
            self._file(path, wanted.get(path))
        for path, name in READ_BY.items():
            text = read_text(path)
            ours = f"{ETC}/{name}"
            # Without zsh the file does not exist, and the package would conflict with ours.
            if text is not None:
                line = source_line(ours) if ours in wanted else ""
                self._file(path, with_block(text, line))

    def _file(self, path: str, content: str | None) -> None:
        now = read_text(path)
        if now == content or not self._did(f"{'remove' if content is None else 'write'} {path}"):
            return
        if content is None:
            Path(path).unlink()
            return
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_atomically(path, content)

    def _watches(self) -> None:
        wanted = f"fs.inotify.max_user_watches = {WATCHES}\n" if self.params["vscode"] else None
        self._file(SYSCTL, wanted)
        # A container shares the limit of its computer.
        if wanted is None or Path("/run/systemd/container").exists():
            return
        limit = Path("/proc/sys/fs/inotify/max_user_watches")
        if int(limit.read_text(encoding="ascii")) < WATCHES and self._did("allow more watches"):
            limit.write_text(f"{WATCHES}\n", encoding="ascii")

    # The users' shells

    def _person(self, person: Person) -> None:
        account = account_of(person.user)
        if account is None:
            if not self.dry:
                raise Failed(
                    f"{person.user} has no account on this host. Apply the role user_accounts first"
                )
            self.changes.append(f"set up the shell of {person.user}, who has no account yet")
            return
        wish = self._wish(person)
        dry = self.dry
        kept = Path(self.records, f"{person.user}.json")
        text = read_text(kept)
        before = checked_record(json.loads(text or "{}"))

        def work() -> dict[str, Any]:
            home = account.pw_dir
            done = Dotfiles(home, wish, dry, before).apply() if wish else {}
            changes = list(done.get("changes", []))
            if person.zsh:
                changes += own_files(Path(home), person.ohmyzsh, dry)
            return {**done, "changes": changes}

        try:
            done = as_user(account, work, seconds=SECONDS, umask=0o077)
        except UserError as error:
            raise Failed(f"The shell of {person.user} cannot be set up: {error}") from None
        if wish and not dry:
            self._keep(account, kept, text, checked_record(done.get("record")))
        self.changes += [f"{person.user}: {change}" for change in done["changes"]]
        self.notes += [f"{person.user}: {note}" for note in done.get("notes", [])]
        if done.get("version"):
            self.dotfiles[person.user] = done["version"]

    def _keep(
        self, account: pwd.struct_passwd, path: Path, before: str | None, record: dict[str, Any]
    ) -> None:
        """Record facts about the dotfiles where their owner cannot change them."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if before != as_json(record):
            write_atomically(path, as_json(record), mode=0o600)

    def _wish(self, person: Person) -> Wish | None:
        dotfiles = person.dotfiles
        if not dotfiles:
            return None
        common = {
            "subfolder": dotfiles.get("subfolder", ""),
            "install": dotfiles.get("install", ""),
        }
        if dotfiles.get("repo"):
            version = dotfiles.get("version", "HEAD")
            return Wish(repo=dotfiles["repo"], version=version, **common)
        snapshot = self.params["snapshots"].get(person.user)
        if not snapshot:
            if self.dry:
                return None
            raise Failed(
                f"There is no snapshot of the folder of {person.user} in user_shell_snapshots; "
                "the playbook tpu.fleet.configure makes it"
            )
        return Wish(digest=snapshot["digest"], archive=snapshot["archive"], **common)


def own_files(home: Path, ohmyzsh: bool, dry: bool) -> list[str]:
    """Write the files that a user of zsh does not have yet; return the changes."""
    changes = []
    rc, link = home / ".zshrc", home / ".oh-my-zsh"
    if not os.path.lexists(rc):
        changes.append("write ~/.zshrc")
        if not dry:
            write_atomically(rc, ZSHRC, uid=os.getuid(), gid=os.getgid())
    # The usual ~/.zshrc looks for it there.
    if ohmyzsh and not os.path.lexists(link):
        changes.append("link ~/.oh-my-zsh")
        if not dry:
            link.symlink_to(CURRENT)
    return changes
