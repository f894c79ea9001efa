# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the buckets' mounts of a host about. Private to tpu.fleet."""

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
from ..._host.state import read_text, write_atomically
from ..._host.work import Failed, Run, difference
from . import units as buckets


class Mounter:
    """Brings one host to what is declared."""

    def __init__(
        self, params: dict[str, Any], run: Run, check: bool, warn: Callable[[str], None]
    ) -> None:
        self.params = params
        self.command = run
        self.check = check
        self.warn = warn
        self.changes: list[dict[str, str]] = []

    def run(self, *argv: str) -> tuple[int, str]:
        """Run a program; return its exit code and what it said."""
        code, out, err = self.command(list(argv))
        return code, (out + err).strip()

    def version(self) -> str:
        """Return the version of gcsfuse, or nothing."""
        program = shutil.which("gcsfuse", path=PATH)
        helper = shutil.which("mount.gcsfuse", path=PATH)
        if not program or not helper:
            return ""
        _code, said = self.run(program, "--version")
        found = re.search(r"\d+(\.\d+)+", said)
        return found.group() if found else "unknown"

    def ids(self, entry: dict[str, Any]) -> tuple[int, int]:
        """Return the numbers of owner and group."""
        owner, group = entry["owner"] or "root", entry["group"]
        try:
            own = pwd.getpwuid(int(owner)) if owner.isdigit() else pwd.getpwnam(owner)
            uid, gid = own.pw_uid, own.pw_gid
        except KeyError:
            if not owner.isdigit() and not self.check:
                self.fail(entry, f"owner = {owner!r} is no user of this host")
            uid = gid = int(owner) if owner.isdigit() else 0
        if group:
            try:
                gid = int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
            except KeyError:
                if not self.check:
                    self.fail(entry, f"group = {group!r} is no group of this host")
        return uid, gid

    def fail(self, entry: dict[str, Any], why: str) -> None:
        """End, naming the bucket."""
        raise Failed(f"bucket_mount_buckets: bucket {entry['bucket']!r}: {why}.")

    def file(self, path: str, wanted: str) -> bool:
        """Write a file, or remove it when nothing is wanted; say whether it changed."""
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
        """Refuse folders that somebody else could lead elsewhere."""
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
        """Make the folder; one that holds files would hide them below the mount."""
        path = entry["path"].rstrip("/")
        # Looking into a folder with an automount would mount it.
        if path in mounted():
            return
        folder = Path(path)
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            self.fail(entry, f"path = {path!r} is no folder. Move it away")
        if folder.is_dir() and any(folder.iterdir()):
            self.fail(entry, f"path = {path!r} holds files, which the mount would hide. Move them")
        for needed in filter(None, (path, entry["cache_dir"])):
            if not Path(needed).is_dir():
                self.changes.append(difference(needed, "", "directory\n"))
                if not self.check:
                    Path(needed).mkdir(parents=True, exist_ok=True)

    def units(self, automount: bool) -> list[buckets.Unit]:
        """Return all units that are to be there."""
        found = []
        for entry in self.params["buckets"]:
            self.place(entry)
            uid, gid = self.ids(entry)
            found += buckets.mount_units(
                entry, uid, gid, timeout=self.params["timeout"], automount=automount
            )
        return found

    def bring_about(self, wanted: list[buckets.Unit], automount: bool) -> None:
        """Write units, and start and stop what that asks for."""
        ours = [
            path
            for kind in ("mount", "automount")
            for path in sorted(Path(buckets.UNITS).glob(f"*.{kind}"))
            if (read_text(path) or "").startswith(buckets.MANAGED)
        ]
        names = {unit.name for unit in wanted}
        gone = [path for path in ours if path.name not in names]
        if gone and not self.check:
            # The trap first, or it would mount again what is unmounted.
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
        """Return for each unit whether it is active and enabled."""
        found = {}
        if names:
            show = ("systemctl", "show", "-p", "Id", "-p", "ActiveState", "-p", "UnitFileState")
            _code, said = self.run(*show, *names)
            for block in said.split("\n\n"):
                values = dict(line.partition("=")[::2] for line in block.splitlines())
                state = (values.get("ActiveState", ""), values.get("UnitFileState", ""))
                found[values.get("Id", "")] = state
        return {name: found.get(name, ("", "")) for name in names}


def mounted() -> set[str]:
    """Return the places at which something is mounted."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {line.split()[4].encode().decode("unicode_escape") for line in lines}


def can_automount() -> bool:
    """Say whether systemd can set a trap: containers often may not."""
    try:
        os.close(os.open("/dev/autofs", os.O_RDWR))
    except OSError:
        return False
    return True


def codename() -> str:
    """Return the name of the distribution's release."""
    found = re.search(r'^VERSION_CODENAME="?([\w-]+)', read_text("/etc/os-release") or "", re.M)
    return found.group(1) if found else ""
