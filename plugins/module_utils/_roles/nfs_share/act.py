# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the exports and mounts of a host to their declared state. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from pathlib import Path

from ..._host.as_user import UserError, give_folder, refuse_foreign
from ..._host.mounts import guard, unit_name
from ..._host.state import write_atomically
from ..._host.work import Failed, Run, difference
from .look import NOTHING, exported, files_now, is_masked, masks
from .plan import DROP_IN, EXPORTS, MASKED, SETTINGS, UNITS, Export, Plan, Times, files

SERVER = "nfs-server.service"


class Work:
    """Carries out a plan; in check mode it only records the steps."""

    def __init__(self, run: Run, check: bool, wanted: Plan, times: Times) -> None:
        self.command = run
        self.check = check
        self.plan = wanted
        self.steps: list[str] = []
        self.diff: list[dict[str, str]] = []
        self.now = files_now()
        self.wanted = files(wanted, times)
        # Without the server's address, the present units are kept.
        for path in wanted.kept:
            for kind in ("mount", "automount"):
                unit = f"{UNITS}/{unit_name(path)}.{kind}"
                if unit in self.now:
                    self.wanted[unit] = self.now[unit]
                    self.wanted.setdefault(SETTINGS, self.now.get(SETTINGS, ""))
        self.changed = {
            path
            for path in {*self.now, *self.wanted}
            if self.now.get(path) != self.wanted.get(path)
        }

    def systemctl(self, *words: str, must: bool = True) -> bool:
        """Run systemctl; return whether it succeeded."""
        code, _out, error = self.command(["systemctl", *words])
        if code and must:
            raise Failed(f"systemctl {' '.join(words)}: {error.strip()}")
        return bool(code == 0)

    def do(self, step: str, *words: str) -> None:
        """Record a step, and run it unless this is check mode."""
        self.steps.append(step)
        if not self.check:
            self.systemctl(*words)

    def run(self) -> None:
        """Carry out all steps."""
        for mount in self.plan.mounts:
            self.refuse_foreign(mount.name, "path", mount.path)
        for export in self.plan.exports:
            self.refuse_foreign(export.name, "path", export.path)
            self.refuse_foreign(export.name, "export_path", export.folder)
        for export in self.plan.exports:
            self.folder(export)
        for path in [mount.path for mount in self.plan.mounts] + [
            export.path for export in self.plan.exports if export.folder != export.path
        ]:
            self.refuse_to_hide(path)
        self.stop_what_changed()
        self.write()
        masked = self.mask()
        if (self.changed or masked) and not self.check:
            self.systemctl("daemon-reload")
        self.serve(masked)
        self.mount()
        paths = [one.path for one in self.plan.exports]
        paths += [one.path for one in self.plan.mounts]
        self.steps += guard(self.command, paths, self.check)

    # -- files -----------------------------------------------------------------------------

    def refuse_foreign(self, name: str, field: str, path: str) -> None:
        """Raise Failed for a folder that users other than root could replace by a link."""
        try:
            refuse_foreign(Path(path).parent)
        except UserError as error:
            raise Failed(
                f"fleet_shares: share {name!r}: {field} = {path!r}: {error}. Nothing was "
                "changed. Use a folder that only root can write, such as /data"
            ) from None

    def folder(self, export: Export) -> None:
        """Create the exported folder, or correct its owner and permissions."""
        if export.disk and not os.path.ismount(export.disk) and not self.check:
            raise Failed(
                f"The share {export.name} is on {export.disk}, where no disk is mounted. Mount "
                "it, or run configure again when it is there"
            )
        place = Path(export.folder)
        try:
            uid = pwd.getpwnam(export.owner).pw_uid
            gid = grp.getgrnam(export.group).gr_gid
        except KeyError as error:
            if self.check:
                self.steps.append(f"make {place}")
                return
            raise Failed(
                f"The share {export.name} belongs to {export.owner}:{export.group}, but this host "
                f"does not know one of them: {error.args[0]}. Declare them in user_accounts"
            ) from error
        mode = int(export.mode, 8)
        if not place.exists():
            self.steps.append(f"make {place}")
            if not self.check:
                place.mkdir(parents=True)
        elif not place.is_dir():
            raise Failed(f"{place} is not a folder. Move it away, or export another one")
        else:
            seen = place.stat()
            if (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)) == (uid, gid, mode):
                return
            self.steps.append(f"give {place} to {export.owner}:{export.group} {export.mode}")
        if not self.check:
            try:
                give_folder(place, uid, gid, mode)
            except UserError as error:
                raise Failed(f"{error}. Export a folder where only root can write") from None

    def refuse_to_hide(self, path: str) -> None:
        """Refuse to mount over a folder with files, unless the mount is ours already."""
        ours = any(
            f"{UNITS}/{unit_name(path)}.{kind}" in self.now for kind in ("automount", "mount")
        )
        if ours or os.path.ismount(path) or not Path(path).is_dir():
            return
        if any(Path(path).iterdir()):
            raise Failed(
                f"{path} has files, which a share mounted there would hide. Move them away, or "
                "mount the share at another path"
            )

    def stop_what_changed(self) -> None:
        """Stop units that will change or go, the automounts first."""
        units = sorted(
            Path(path).name
            for path in self.changed & set(self.now)
            if is_unit(path) and not self.only_flags(path)
        )
        touched = {unit.rsplit(".", 1)[0] for unit in units}
        for stem in sorted(touched):
            for kind in ("automount", "mount"):
                unit = f"{stem}.{kind}"
                path = f"{UNITS}/{unit}"
                if path not in self.now:
                    continue
                if path not in self.wanted:
                    self.do(f"disable {unit}", "disable", "--now", unit)
                else:
                    self.do(f"stop {unit}", "stop", unit)

    def only_flags(self, path: str) -> bool:
        """Return whether only flags of a bind mount change, for which it need not be unmounted."""
        before, after = (
            [line for line in text.splitlines() if not line.startswith("Options=bind")]
            for text in (self.now[path], self.wanted.get(path, ""))
        )
        return before == after

    def write(self) -> None:
        """Write and remove the files."""
        for path in sorted(self.changed):
            before, after = self.now.get(path), self.wanted.get(path)
            self.steps.append(f"{'write' if after is not None else 'remove'} {path}")
            self.diff.append(difference(path, before or "", after or ""))
            if self.check:
                continue
            if after is None:
                Path(path).unlink()
                with contextlib.suppress(OSError):
                    if path == DROP_IN:
                        Path(path).parent.rmdir()
                continue
            if before is None and os.path.lexists(path):
                raise Failed(f"{path} exists and is not tpu.fleet's. Move it away")
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, after)

    def mask(self) -> bool:
        """Mask the units that only NFSv3 needs; return whether any was not masked before."""
        new = False
        for path, unit in masks().items():
            if SETTINGS in self.wanted and not os.path.lexists(path):
                self.steps.append(f"mask {unit}")
                new = True
                if not self.check:
                    Path(path).symlink_to(NOTHING)
            elif SETTINGS not in self.wanted and SETTINGS in self.now and is_masked(path):
                self.steps.append(f"unmask {unit}")
                if not self.check:
                    Path(path).unlink()
        if new and not self.check:
            self.systemctl("daemon-reload")
            self.systemctl("stop", *MASKED, must=False)
        return new

    # -- services --------------------------------------------------------------------------

    def serve(self, masked: bool) -> None:
        """Start the server with the declared exports."""
        if EXPORTS in self.wanted:
            if not self.systemctl("is-enabled", "--quiet", SERVER, must=False):
                self.do(f"enable {SERVER}", "enable", SERVER)
            if masked or self.changed & {SETTINGS, DROP_IN}:
                self.do(f"restart {SERVER}", "restart", SERVER)
            elif not self.systemctl("is-active", "--quiet", SERVER, must=False):
                self.do(f"start {SERVER}", "start", SERVER)
            elif EXPORTS in self.changed:
                self.exportfs()
            for export in self.plan.exports:
                if export.folder != export.path:
                    self.start(f"{unit_name(export.path)}.mount")
        elif EXPORTS in self.now:
            self.exportfs()
            if not self.check and not exported(self.command):
                self.do(f"disable {SERVER}", "disable", "--now", SERVER)

    def exportfs(self) -> None:
        """Make the running server read the exports again."""
        self.steps.append("exportfs -ra")
        if not self.check:
            code, _out, error = self.command(["exportfs", "-ra"])
            if code:
                raise Failed(f"exportfs -ra: {error.strip()}")

    def mount(self) -> None:
        """Start the automounts."""
        for mount in self.plan.mounts:
            self.start(f"{unit_name(mount.path)}.automount")

    def start(self, unit: str) -> None:
        """Enable and start a unit unless it is."""
        new = f"{UNITS}/{unit}" in self.changed
        if new or not self.systemctl("is-enabled", "--quiet", unit, must=False):
            self.do(f"enable {unit}", "enable", unit)
        if new or not self.systemctl("is-active", "--quiet", unit, must=False):
            self.do(f"start {unit}", "start", unit)


def is_unit(path: str) -> bool:
    """Return whether a file is a unit of a mount."""
    return path.endswith((".mount", ".automount"))
