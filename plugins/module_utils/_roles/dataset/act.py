# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let the agent of a machine stage what is declared, and remove what no longer is."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._host.as_user import PATH, account_of, foreign
from ..._host.dataset_place import ACCOUNT, RESERVE, UNIT, Place
from ..._host.state import read_text, write_atomically
from ..._host.work import Failed, Run, difference, new_account
from ..dataset_paths import ROOT
from .plan import RECORD, UNIT_FILE, files, here


class Stager:
    """Brings the data sets of one machine to what is declared."""

    def __init__(self, settings: Mapping[str, Any], run: Run, check: bool) -> None:
        self.settings, self.check = settings, check
        self._run = run
        self.datasets = here(settings)
        self.changes: list[dict[str, str]] = []

    def problems(self) -> list[str]:
        """Return why the data sets cannot be staged here, with field, value and remedy."""
        found = []
        for entry in self.datasets:
            wrong = self._obstacle(entry)
            if wrong:
                found.append(f"fleet_datasets: {entry['name']}: {wrong}")
        return found or self._without_room()

    def _obstacle(self, entry: Mapping[str, Any]) -> str:
        path, user = entry["path"], entry.get("user")
        wrong = Place(path).obstacle()
        if wrong:
            return f"path = {path!r} {wrong}. Move it away, or give it another path."
        part = foreign(Path(path).parent)
        if part is not None:
            return (
                f"path = {path!r}: {part} can be changed by other users than root. Use a folder "
                "that only root can write, such as /opt/tpu-fleet/datasets, a disk without user, "
                "or /dev/shm."
            )
        if user and account_of(user) is None and not self.check:
            return f"user = {user!r} is not a user of this host. Declare it in fleet_users."
        return ""

    def _without_room(self) -> list[str]:
        """Return which disks are too small for the data sets that are to come."""
        wanted: dict[int, list[Mapping[str, Any]]] = {}
        for entry in self.datasets:
            if not Place(entry["path"]).has(entry["id"]) and self._is_known(entry["path"]):
                device = _existing(entry["path"]).stat().st_dev
                wanted.setdefault(device, []).append(entry)
        return [text for entries in wanted.values() if (text := _too_much(entries))]

    def _is_known(self, path: str) -> bool:
        """Return whether the disk of a path is there; before check mode it may not be."""
        return not self.check or path.startswith(f"{ROOT}/") or Path(path).parent.is_dir()

    @property
    def is_needed(self) -> bool:
        """Return whether there is anything to stage."""
        return bool(self.datasets)

    def apply(self) -> list[str]:
        """Write what the agent reads, and remove what is not declared; return changed paths."""
        gone = self._gone()
        if (gone or not self.datasets) and not self.check:
            self._stop()
        if self.datasets and account_of(ACCOUNT) is None:
            self._add_account()
        for name, path in gone.items():
            self.changes.append(difference(path, f"the data set {name}\n", ""))
            if not self.check:
                Place(path).remove()
        changed = [path for path, file in files(self.settings).items() if self._write(path, *file)]
        if UNIT_FILE in changed and not self.check:
            self._command("systemctl", "daemon-reload")
        return changed

    def hash(self) -> str:
        """Return the hash of what is declared."""
        text = json.dumps([text for text, mode in files(self.settings).values() if mode == 0o644])
        return hashlib.sha256(text.encode()).hexdigest()

    def must_restart(self) -> bool:
        """Return whether the agent has ended, and a data set is not in its place."""
        if all(Place(one["path"]).has(one["id"]) for one in self.datasets):
            return False
        _code, state, _error = self._run(["systemctl", "show", "--property=SubState", UNIT])
        return state.strip() == "SubState=exited"

    def _gone(self) -> dict[str, str]:
        """Return the data sets that this role has made and that are no longer declared there."""
        try:
            made = json.loads(read_text(RECORD) or "{}")
        except ValueError:
            made = {}
        kept = {entry["path"] for entry in self.datasets}
        return {name: path for name, path in made.items() if path not in kept}

    def _stop(self) -> None:
        if Path(UNIT_FILE).exists():
            how = ("stop",) if self.datasets else ("disable", "--now")
            self._command("systemctl", *how, UNIT)

    def _command(self, *words: str) -> None:
        code, out, error = self._run(list(words))
        if code:
            raise Failed(f"{' '.join(words)}: {(error or out).strip()}")

    def _add_account(self) -> None:
        self.changes.append(difference("/etc/passwd", "", f"{ACCOUNT}\n"))
        if self.check:
            return
        code, out, error = self._run(new_account(ACCOUNT), environ_update={"PATH": PATH})
        if code and account_of(ACCOUNT) is None:
            raise Failed(f"Cannot add the user {ACCOUNT}: {(error or out).strip()}")

    def _write(self, path: str, wanted: str, mode: int) -> bool:
        """Write a file, or remove it if nothing is wanted; return whether it changed."""
        before = read_text(path) or ""
        if before == wanted:
            return False
        shown = (before, wanted) if mode == 0o644 else ("", "another key\n")
        self.changes.append(difference(path, *shown))
        if not self.check:
            if wanted:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, wanted, mode=mode)
            else:
                Path(path).unlink()
        return True


def _too_much(entries: list[Mapping[str, Any]]) -> str:
    """Return that data sets do not fit on their disk; empty if they do."""
    place = _existing(entries[0]["path"])
    disk = os.statvfs(place)
    free = max(0, disk.f_bavail * disk.f_frsize - RESERVE)
    if sum(entry["size"] for entry in entries) <= free:
        return ""  # whatever of it is there: it may be a million files
    left = sum(
        max(0, entry["size"] - _staged(Place(entry["path"]), entry["id"])) for entry in entries
    )
    if left <= free:
        return ""
    sizes = ", ".join(f"{entry['name']} size = {_gib(entry['size'])}" for entry in entries)
    return (
        f"fleet_datasets: {sizes}: {_gib(left)} are to come to {place}, which has room for "
        f"{_gib(free)}. Make room, lower size, or give another path, such as that of a data disk."
    )


def _staged(place: Place, content: str) -> int:
    """Return the bytes of a content that are on their way, or whole and not yet switched to."""
    return sum(_used(path) for path in (place.part(content), place.whole(content)))


def _used(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def _existing(path: str) -> Path:
    """Return the nearest folder of a path that exists."""
    return next(one for one in Path(path).parents if one.is_dir())


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
