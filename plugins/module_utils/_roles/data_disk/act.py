# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the plan for the disks of a host. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
from pathlib import Path
from typing import Any

from ..._host.as_user import UserError, give_folder
from ..._host.state import as_json, read_text, write_atomically
from ..._host.work import Failed, Run
from .look import FSTAB, NOTES, users_of
from .plan import Plan, Seen, Step, Wanted, mount_options, write_fstab


class Host:
    """Carries out steps on this host."""

    def __init__(self, run: Run, disks: list[Wanted], seen: Seen, todo: Plan) -> None:
        self.command = run
        self.disks = {disk.name: disk for disk in disks}
        self.seen = seen
        self.todo = todo
        self.notes: dict[str, dict[str, Any]] = {
            name: dict(note) for name, note in seen.notes.items()
        }

    def run(self, *argv: str, remedy: str = "") -> str:
        """Run a command and return its output; raise Failed if it fails."""
        code, out, err = self.command(list(argv))
        if code != 0:
            told = " ".join((err or out).split())
            raise Failed(f"{' '.join(argv)} failed: {told}{remedy and '. ' + remedy}")
        return str(out)

    def note(self, name: str, **facts: Any) -> None:
        """Record work in progress, for the next apply if this one is interrupted."""
        note = {**self.notes.get(name, {}), **facts}
        self.notes[name] = {key: value for key, value in note.items() if value is not None}
        if not self.notes[name]:
            del self.notes[name]
        Path(NOTES).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(NOTES, as_json(self.notes))

    def do(self, step: Step) -> None:
        """Carry out one step."""
        getattr(self, f"_{step.kind}")(step)

    def _format(self, step: Step) -> None:
        disk, device = self.disks[step.disk], self.seen.devices[step.disk]
        self.note(disk.name, making={"size": device.size, "uuid": disk.uuid})
        if device.type or not device.blank:
            # Left by an interrupted attempt.
            self.run("wipefs", "--all", "--quiet", device.path)
        label = disk.name[:12]
        if step.argument == "xfs":
            self.run("mkfs.xfs", "-q", "-f", "-L", label, "-m", f"uuid={disk.uuid}", device.path)
        else:
            self.run("mkfs.ext4", "-q", "-m", "1", "-L", label, "-U", disk.uuid, device.path)

    def _mkdir(self, step: Step) -> None:
        Path(step.argument).mkdir(parents=True, exist_ok=True)
        self.note(step.disk, folder=step.argument)

    def _fstab(self, _step: Step) -> None:
        path = os.path.realpath(FSTAB)
        before = read_text(path) or ""
        after = write_fstab(before, self.todo.lines)
        if before != after:
            write_atomically(path, after)
            # systemd generates mount units from these lines.
            self.command(["systemctl", "daemon-reload"])

    def _forget(self, step: Step) -> None:
        self._fstab(step)
        self.note(step.disk, folder=None, making=None)

    def _mount(self, step: Step) -> None:
        disk, device = self.disks[step.disk], self.seen.devices[step.disk]
        options = ",".join(mount_options(disk, device, step.argument))
        remedy = f"Check it with: fsck -n {device.path}; dmesg | tail"
        self.run("mount", "-t", step.argument, "-o", options, device.path, disk.path, remedy=remedy)

    def _remount(self, step: Step) -> None:
        disk, device = self.disks[step.disk], self.seen.devices[step.disk]
        options = ",".join(["remount", *mount_options(disk, device, step.argument)])
        self.run(
            "mount", "-o", options, disk.path,
            remedy=f"{self._in_use(disk.path)}Run this again when no process writes there",
        )  # fmt: skip

    def _own(self, step: Step) -> None:
        disk = self.disks[step.disk]
        try:
            owner = pwd.getpwnam(disk.user)
            group = grp.getgrnam(disk.group).gr_gid if disk.group else owner.pw_gid
        except KeyError as error:
            raise Failed(
                f"the user {disk.user!r} or group {disk.group!r} is not known on this host. "
                "Declare it in fleet_users or fleet_groups"
            ) from error
        try:
            give_folder(disk.path, owner.pw_uid, group, int(disk.permissions, 8))
        except UserError as error:
            raise Failed(f"{error}. Mount {disk.name} where only root can write") from None
        self.note(disk.name, making=None)

    def _grow(self, step: Step) -> None:
        disk, device = self.disks[step.disk], self.seen.devices[step.disk]
        if step.argument == "xfs":
            self.run("xfs_growfs", disk.path)
            return
        code, _out, err = self.command(["resize2fs", device.path])
        if code == 0:
            return
        # Without CAP_SYS_RESOURCE, as in containers, the kernel grows only unmounted file systems:
        # x-systemd.growfs fails there. Nor does it say whether there is something to grow.
        remedy = f"{self._in_use(disk.path)}It cannot grow while it is mounted: {err.strip()}"
        self.run("umount", disk.path, remedy=remedy)
        try:
            self.run("e2fsck", "-f", "-p", device.path)
            self.run("resize2fs", device.path)
        finally:
            self._mount(step)

    def _unmount(self, step: Step) -> None:
        self.run(
            "umount", step.argument,
            remedy=f"{self._in_use(step.argument)}It is no longer declared. Run this again when "
            "no process uses it",
        )  # fmt: skip

    def _rmdir(self, step: Step) -> None:
        with contextlib.suppress(OSError):
            Path(step.argument).rmdir()
        self.note(step.disk, folder=None)

    @staticmethod
    def _in_use(target: str) -> str:
        users = users_of(target)
        return f"{target} is used by {'; '.join(users[:5])}. " if users else ""
