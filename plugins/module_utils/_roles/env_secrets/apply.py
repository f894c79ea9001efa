# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the declared sets of secrets of a host. Private to tpu.fleet."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from ..._host.as_user import UserError, account_of, as_user, read_plain
from ..._host.services import FETCHED_DIR
from ..._host.state import as_json, read_text, write_atomically
from ..here import on_slice
from . import plan as rules
from .act import look_at, remove_file, write_file

FOLDER = Path("/etc/tpu-fleet/secrets")
PROFILE = Path("/etc/profile.d/tpu-fleet-secrets.sh")


class Apply:
    """One apply of the module."""

    def __init__(
        self,
        settings: dict[str, Any],
        dry: bool,
        folder: Path = FOLDER,
        profile: Path = PROFILE,
    ) -> None:
        self.dry = dry
        self.folder = folder
        self.endpoint = settings["google_endpoint"]
        self.profile = profile
        self.sets = [
            rules.resolve(entry, settings["google_project"])
            for entry in on_slice(settings["sets"], settings["slice"])
        ]
        self.steps: list[str] = []
        self.kept: list[str] = []
        self.problems: list[str] = []
        # Files that stay unchanged because of a problem.
        self.blocked: set[str] = set()
        kept = json.loads(read_text(self.folder / "fingerprints") or "{}")
        # With a new key no file is recognised, so nothing is overwritten or removed.
        self.key = bytes.fromhex(kept.get("key") or os.urandom(32).hex())
        self.known: dict[str, list[str]] = kept.get("files") or {}
        self.before = self._described()

    def _described(self) -> dict[str, dict[str, Any]]:
        found = {}
        for path in sorted(self.folder.glob("*.json")):
            found[path.stem] = json.loads(read_text(path) or "{}")
        return found

    def plan(self) -> list[tuple[str, str, str, str]]:
        """Look at all files of users; return (action, owner, path, content)."""
        todo = []
        wanted: dict[str, tuple[str, str]] = {}
        for one in self.sets:
            account = account_of(one.owner)
            if account is None:
                if not self.dry:
                    self.problems.append(f"Set {one.name}: no user {one.owner} is on this host")
                continue
            for path, content in one.files.items():
                full = account.pw_dir + path[1:] if path.startswith("~/") else path
                if full in wanted:
                    self._block(full, f"Set {one.name}: {full} is a file of another set, too")
                wanted[full] = (one.owner, content)
        gone = {
            path: description["owner"]
            for description in self.before.values()
            for path in description.get("files", [])
            if path not in wanted
        }
        for full, (owner, content) in wanted.items():
            todo.append(self._look(owner, full, content))
        for full, owner in gone.items():
            todo.append(self._look(owner, full, None))
        return [
            step for step in todo if step[0] in ("write", "remove") and step[2] not in self.blocked
        ]

    def _look(self, owner: str, path: str, content: str | None) -> tuple[str, str, str, str]:
        account = account_of(owner)
        if account is None:
            self.kept.append(f"{path} stays: its owner {owner} no longer exists")
            return "same", owner, path, ""
        key, known = self.key, self.known.get(path, [])
        try:
            found = as_user(account, lambda: look_at(path, key))
        except UserError as error:
            self._block(path, f"{owner} cannot read {path}: {error}")
            return "same", owner, path, ""
        want = None if content is None else rules.fingerprint(key, content.encode())
        what = rules.verdict(rules.Seen(**found), want, known, account.pw_uid)
        if what == "keep":
            self.kept.append(f"{path} stays: it was changed since it was written")
        elif what not in ("same", "write", "remove"):
            self._block(path, f"{path} of {owner}: {what}")
        return what, owner, path, content or ""

    def _block(self, path: str, why: str) -> None:
        self.blocked.add(path)
        self.problems.append(why)

    def carry_out(self, todo: list[tuple[str, str, str, str]]) -> None:
        """Write and remove the files."""
        wanted = self._all_files()
        final = {
            path: [rules.fingerprint(self.key, content.encode())]
            for path, content in wanted.items()
            if path not in self.blocked
        }
        final.update({path: self.known[path] for path in self.blocked & set(self.known)})
        if not self.dry:
            self.folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o711, exist_ok=True)
            # Recorded first, so that an interrupted apply recognises its files.
            both = {
                path: sorted({*self.known.get(path, []), *final.get(path, [])})
                for path in {*self.known, *final}
            }
            self._remember(both)
        if self.folder.is_dir() and stat.S_IMODE(self.folder.stat().st_mode) != 0o711:
            self._step(f"set the mode of {self.folder}")
            if not self.dry:
                self.folder.chmod(0o711)
        for what, owner, path, content in todo:
            self._step(f"{what} {path} of {owner}")
            if self.dry:
                continue
            account = account_of(owner)
            if account is None:
                continue
            try:
                if what == "remove":
                    as_user(account, lambda p=path: remove_file(p))  # type: ignore[misc]
                else:
                    as_user(account, lambda p=path, c=content: write_file(p, c))  # type: ignore[misc]
            except UserError as error:
                self._block(path, f"{path} of {owner}: {error}")
        self._write_sets()
        if not self.dry:
            self._remember(final)

    def _all_files(self) -> dict[str, str]:
        found = {}
        for one in self.sets:
            account = account_of(one.owner)
            home = account.pw_dir if account else f"/home/{one.owner}"
            for path, content in one.files.items():
                found[home + path[1:] if path.startswith("~/") else path] = content
        return found

    def _remember(self, files: dict[str, list[str]]) -> None:
        text = as_json({"key": self.key.hex(), "files": files})
        if read_text(self.folder / "fingerprints") != text:
            write_atomically(self.folder / "fingerprints", text, mode=0o600)

    def _write_sets(self) -> None:
        for one in self.sets:
            account = account_of(one.owner)
            if account is None and not self.dry:
                continue
            uid, gid = (account.pw_uid, account.pw_gid) if account else (-1, -1)
            home = account.pw_dir if account else f"/home/{one.owner}"
            paths = [home + p[1:] if p.startswith("~/") else p for p in one.files]
            text = rules.env_file(one.variables)
            names = ", ".join(sorted(one.variables)) or "no variables"
            self._own(self.folder / f"{one.name}.env", text, 0o600, uid, gid, f" ({names})")
            public = rules.description(one, self.endpoint, paths)
            self._own(self.folder / f"{one.name}.json", public, 0o644, 0, 0)
        for name in sorted(set(self.before) - {one.name for one in self.sets}):
            for path in (self.folder / f"{name}.env", self.folder / f"{name}.json"):
                self._gone(path)
            if not self.dry:
                # Files that tpu-fleet-secrets has fetched for a service.
                for fetched in [Path(FETCHED_DIR, f"{name}.env"), *_fetched(name)]:
                    fetched.unlink(missing_ok=True)
        text = rules.profile(self.sets, str(self.folder))
        if text:
            self._own(self.profile, text, 0o644, 0, 0)
        else:
            self._gone(self.profile)

    def _own(self, path: Path, text: str, mode: int, uid: int, gid: int, names: str = "") -> None:
        """Write a file in a folder that belongs to root."""
        if path.is_file() and not path.is_symlink():
            now = path.stat()
            same = _holds(path, now.st_size, text) and stat.S_IMODE(now.st_mode) == mode
            if same and (now.st_uid, now.st_gid) == (uid, gid):
                return
        self._step(f"write {path}{names}")
        if not self.dry:
            write_atomically(path, text, mode=mode, uid=uid, gid=gid)

    def _gone(self, path: Path) -> None:
        if path.exists() or path.is_symlink():
            self._step(f"remove {path}")
            if not self.dry:
                path.unlink()

    def _step(self, text: str) -> None:
        self.steps.append(text)

    def hash(self) -> str:
        """Return a keyed hash of all that was applied; the key stays on this host."""
        parts = [
            [one.name, one.owner, one.login, dict(one.variables), dict(one.files), dict(one.google)]
            for one in sorted(self.sets, key=lambda one: one.name)
        ]
        return rules.fingerprint(self.key, json.dumps(parts, sort_keys=True).encode())


def _holds(path: Path, size: int, text: str) -> bool:
    """Return whether a file, which may belong to a user and be large, has this text."""
    wanted = text.encode("utf-8", "surrogateescape")
    try:
        return size == len(wanted) and read_plain(str(path), len(wanted)) == wanted
    except UserError:
        return False


def _fetched(name: str) -> list[Path]:
    return sorted(Path(FETCHED_DIR).glob(f"*/{name}.env"))
