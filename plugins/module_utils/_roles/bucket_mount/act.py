# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mount the buckets of a host as declared. Private to tpu.fleet."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..._host.as_user import PATH, UserError, refuse_foreign
from ..._host.mounts import guard, point_of
from ..._host.state import read_text, write_atomically
from ..._host.work import Failed, Run, difference, units_shown
from . import units as buckets


class Mounter:
    """Brings the bucket mounts of one host to their declared state."""

    def __init__(
        self, params: dict[str, Any], run: Run, check: bool, warn: Callable[[str], None]
    ) -> None:
        self.params = params
        self.command = run
        self.check = check
        self.warn = warn
        self.changes: list[dict[str, str]] = []

    def run(self, *argv: str) -> tuple[int, str]:
        """Run a program; return its exit code and its output."""
        code, out, err = self.command(list(argv))
        return code, (out + err).strip()

    def version(self) -> str:
        """Return the version of gcsfuse; empty if it is not installed."""
        program = shutil.which("gcsfuse", path=PATH)
        helper = shutil.which("mount.gcsfuse", path=PATH)
        if not program or not helper:
            return ""
        _code, said = self.run(program, "--version")
        found = re.search(r"\d+(\.\d+)+", said)
        return found.group() if found else "unknown"

    def ids(self, entry: dict[str, Any]) -> tuple[int, int]:
        """Return uid and gid of a mount."""
        owner, group = entry["user"] or "root", entry["group"]
        try:
            own = pwd.getpwuid(int(owner)) if owner.isdigit() else pwd.getpwnam(owner)
            uid, gid = own.pw_uid, own.pw_gid
        except KeyError:
            if not owner.isdigit() and not self.check:
                self.fail(entry, f"user = {owner!r} is not a user of this host")
            uid = gid = int(owner) if owner.isdigit() else 0
        if group:
            try:
                gid = int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
            except KeyError:
                if not self.check:
                    self.fail(entry, f"group = {group!r} is not a group of this host")
        return uid, gid

    def fail(self, entry: dict[str, Any], why: str) -> None:
        """Raise Failed with the name of the bucket."""
        raise Failed(f"fleet_buckets: bucket {entry['bucket']!r}: {why}.")

    def file(self, path: str, wanted: str) -> bool:
        """Write a file, or remove it if `wanted` is empty; return whether it changed."""
        before = read_text(path) or ""
        if before == wanted:
            return False
        self.changes.append(difference(path, before, wanted))
        if not self.check:
            if wanted:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, wanted)
            else:
                Path(path).unlink()
        return True

    def refuse_foreign(self, entry: dict[str, Any]) -> None:
        """Fail for folders that users other than root could replace by a link."""
        for key in ("path", "cache_dir"):
            try:
                if entry[key]:
                    refuse_foreign(Path(entry[key]).parent)
            except UserError as error:
                self.fail(
                    entry,
                    f"{key} = {entry[key]!r}: {error}. Use a folder that only root can write, "
                    "such as /data",
                )

    def place(self, entry: dict[str, Any]) -> None:
        """Create the folder; fail if it has files, which the mount would hide."""
        path = entry["path"].rstrip("/")
        # Reading a folder with an automount would mount it.
        if path in mounted():
            return
        folder = Path(path)
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            self.fail(entry, f"path = {path!r} is not a folder. Move it away")
        if folder.is_dir() and any(folder.iterdir()):
            self.fail(entry, f"path = {path!r} has files, which the mount would hide. Move them")
        for needed in filter(None, (path, entry["cache_dir"])):
            if not Path(needed).is_dir():
                self.changes.append(difference(needed, "", "directory\n"))
                if not self.check:
                    Path(needed).mkdir(parents=True, exist_ok=True)

    def units(self, automount: bool) -> list[buckets.Unit]:
        """Return all wanted units, after creating their folders."""
        found = []
        for entry in self.params["buckets"]:
            self.place(entry)
            uid, gid = self.ids(entry)
            found += buckets.mount_units(
                entry, uid, gid, timeout=self.params["timeout"], automount=automount
            )
        return found

    def bring_about(self, wanted: list[buckets.Unit], automount: bool) -> None:
        """Write the units, and start and stop units as needed."""
        ours = [
            path
            for kind in ("mount", "automount")
            for path in sorted(Path(buckets.UNITS).glob(f"*.{kind}"))
            if (read_text(path) or "").startswith(buckets.MANAGED)
        ]
        names = {unit.name for unit in wanted}
        gone = [path for path in ours if path.name not in names]
        if gone and not self.check:
            # The automount first, otherwise it would mount again what is unmounted.
            for path in sorted(gone, key=lambda path: path.suffix):
                self.run("systemctl", "disable", "--now", path.name)
        for path in gone:
            self.file(str(path), "")
        touched = [unit.name for unit in wanted if self.file(unit.path, unit.text)]
        if self.check:
            return
        if gone or touched:
            self.run("systemctl", "daemon-reload")
        for name in touched:
            self.run("systemctl", "stop", name)
        lead = [unit.name for unit in wanted if not automount or unit.name.endswith(".automount")]
        states = self.states(lead)
        # One that is in use was not unmounted.
        paths = [entry["path"] for entry in self.params["buckets"]]
        self.changes += [
            difference(step, "", "done\n") for step in guard(self.command, paths, False)
        ]
        idle = [name for name in lead if states.get(name) != ("active", "enabled")]
        if not idle:
            return
        if not gone and not touched:
            self.changes += [difference(name, "", "started\n") for name in idle]
        self.run("systemctl", "enable", *idle)
        code, said = self.run("systemctl", "start", *idle)
        if code:
            failed = [name for name in idle if self.states([name])[name][0] != "active"]
            self.warn(
                f"Not mounted: {', '.join(failed)}. {said.splitlines()[0] if said else ''} "
                f"See: systemctl status {' '.join(failed)}"
            )

    def states(self, names: list[str]) -> dict[str, tuple[str, str]]:
        """Return for each unit whether it is active and whether it is enabled."""
        show = ("systemctl", "show", "-p", "Id", "-p", "ActiveState", "-p", "UnitFileState")
        shown = units_shown(self.run(*show, *names)[1]) if names else {}
        found = {name: shown.get(name, {}) for name in names}
        return {
            name: (unit.get("ActiveState", ""), unit.get("UnitFileState", ""))
            for name, unit in found.items()
        }


def mounted() -> set[str]:
    """Return all mount points."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {point_of(line) for line in lines}


def can_automount() -> bool:
    """Return whether systemd can automount here, which many containers do not allow."""
    try:
        os.close(os.open("/dev/autofs", os.O_RDWR))
    except OSError:
        return False
    return True


def codename() -> str:
    """Return the name of the distribution's release."""
    found = re.search(r'^VERSION_CODENAME="?([\w-]+)', read_text("/etc/os-release") or "", re.M)
    return found.group(1) if found else ""
