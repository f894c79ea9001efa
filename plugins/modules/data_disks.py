#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: data_disks
short_description: Format empty data disks and mount them by UUID
version_added: 0.1.0
description:
  - Brings all data disks of a host to the declared state in one step. Finds each by its id, makes a
    file system on an empty one, mounts it by UUID with C(nofail), and grows the file system when
    the disk has grown.
  - A disk is empty when it has no signature, no partition, no user, and nothing but zeros where the
    module looks. Everything else is refused, unless this module made it (its UUID is made of the
    disk's name), or O(disks[].adopt) is set. Then nothing at all is changed.
  - Lines of C(/etc/fstab) with the option C(x-tpu-fleet.disk) that are not declared any more are
    removed, and their disks unmounted. Data are never deleted.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  disks:
    description: The disks of this host.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the disk. Its device is C(/dev/disk/by-id/google-NAME).
        type: str
        required: true
      mount:
        description: Where to mount it.
        type: str
        required: true
      device:
        description: Another device, as a name below C(/dev/disk/by-id) or a whole path.
        type: str
      filesystem:
        description: File system for an empty disk.
        type: str
        choices: [ext4, xfs]
        default: ext4
      read_only:
        description: Whether to mount it read-only.
        type: bool
        default: false
      owner:
        description: Owner of the top folder of a new file system.
        type: str
        default: root
      group:
        description: Its group; the owner's by default.
        type: str
      mode:
        description: Its permissions.
        type: str
        default: "0755"
      options:
        description: More mount options.
        type: list
        elements: str
        default: []
      adopt:
        description: Whether to mount a file system that was made by others.
        type: bool
        default: false
  attached:
    description:
      - What the API says is attached, in this order, each with C(sourceDisk). Finds a disk where
        its device carries no name, only the number of its place.
    type: list
    elements: dict
    default: []
  timeout:
    description: Seconds to wait for devices that are not there yet.
    type: int
    default: 30
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Lists the steps, and the lines of C(/etc/fstab) before and after.
    support: full
"""

EXAMPLES = r"""
- name: Mount the checkpoints
  tpu.fleet.data_disks:
    disks:
      - name: checkpoints
        mount: /mnt/checkpoints
        owner: alice
"""

RETURN = r"""
steps:
  description: What was done, in order.
  type: list
  elements: str
  returned: always
missing_packages:
  description: Packages that are needed first. If there are any, nothing was done.
  type: list
  elements: str
  returned: always
"""

import contextlib
import grp
import json
import os
import pwd
import re
import shutil
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import UserError, give_folder, refuse_foreign
from ..module_utils._host.state import STATE_DIR, as_json, read_text, write_atomically
from ..module_utils._roles.data_disk.plan import (
    BY_ID,
    HEADER,
    SLACK,
    Device,
    Folder,
    Mount,
    Plan,
    Seen,
    Step,
    Wanted,
    declared_problems,
    device_links,
    mount_options,
    plan,
    read_fstab,
    superblock_size,
    write_fstab,
)

FSTAB = "/etc/fstab"
NOTES = f"{STATE_DIR}/data_disks.json"
# Which program a file system needs, and what package it comes in.
TOOLS = {"ext4": ("mkfs.ext4", "e2fsprogs"), "xfs": ("mkfs.xfs", "xfsprogs")}
SAMPLE = 65536
SAMPLES = 64
ENDS = 4 << 20

DISK_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "mount": {"type": "str", "required": True},
    "device": {"type": "str"},
    "filesystem": {"type": "str", "choices": ["ext4", "xfs"], "default": "ext4"},
    "read_only": {"type": "bool", "default": False},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str"},
    "mode": {"type": "str", "default": "0755"},
    "options": {"type": "list", "elements": "str", "default": []},
    "adopt": {"type": "bool", "default": False},
}


class Failed(Exception):
    """A step did not succeed."""


# -- look --------------------------------------------------------------------------------------


def is_blank(path: str, size: int) -> bool:
    """Tell whether a device reads as zeros: at both ends, and at places in between."""
    places = [(0, min(ENDS, size)), (max(0, size - ENDS), min(ENDS, size))]
    places += [(size * index // SAMPLES, SAMPLE) for index in range(1, SAMPLES)]
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for offset, length in places:
            data = os.pread(descriptor, length, offset)
            if data.count(0) != len(data):
                return False
    finally:
        os.close(descriptor)
    return True


def signature(module: AnsibleModule, path: str) -> tuple[str, str]:
    """Return what is on a device and its UUID, as two probes see it."""
    # What it remembers from earlier is not asked for, only what is there.
    code, out, _err = module.run_command(["blkid", "-p", "-o", "export", path])
    if code == 8:
        return "several signatures", ""
    found = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    kind = found.get("TYPE") or found.get("PTTYPE") or ""
    if not kind:
        code, out, _err = module.run_command(["wipefs", "--no-act", "--parsable", path])
        lines = [line for line in out.splitlines() if line and not line.startswith("#")]
        kind = lines[0].split(",")[3] if lines and lines[0].count(",") >= 3 else "".join(lines)
    return kind, found.get("UUID", "")


def xfs_size(module: AnsibleModule, target: str) -> int | None:
    """Ask xfs how large it is; on the device that is written only when it sees fit."""
    _code, out, _err = module.run_command(["xfs_growfs", "-n", target])
    found = re.search(r"^data\s.*bsize=(\d+)\s+blocks=(\d+)", out, re.MULTILINE)
    return int(found.group(1)) * int(found.group(2)) if found else None


def look_at(module: AnsibleModule, link: str, mounts: list[Mount]) -> Device:
    """Look at a device."""
    path = os.path.realpath(link)
    number = Path(path).stat().st_rdev
    text = f"{os.major(number)}:{os.minor(number)}"
    folder = Path("/sys/dev/block") / text
    # Sectors of 512 bytes, whatever the device's own are.
    size = int(read_text(folder / "size") or 0) * 512
    kind, identity = signature(module, path)
    header = b""
    with contextlib.suppress(OSError), open(path, "rb") as stream:
        header = stream.read(HEADER)
    used = superblock_size(header, kind)
    here = [mount.target for mount in mounts if mount.number == text]
    if kind == "xfs" and here and used is not None and size - used >= SLACK:
        used = xfs_size(module, here[0]) or used
    return Device(
        path=path,
        number=text,
        size=size,
        read_only=(read_text(folder / "ro") or "0").strip() == "1",
        type=kind,
        uuid=identity,
        partitions=tuple(sorted(found.parent.name for found in folder.glob("*/partition"))),
        holders=tuple(sorted(found.name for found in folder.glob("holders/*"))),
        blank=not kind and size > 0 and is_blank(path, size),
        filesystem_size=used,
    )


def read_mounts(text: str) -> list[Mount]:
    """Read /proc/self/mountinfo."""
    found = []
    for line in text.splitlines():
        left, _dash, right = line.partition(" - ")
        words, kind = left.split(), right.split()
        if len(words) < 6 or not kind:
            continue
        target = words[4].replace("\\040", " ")
        read_only = "ro" in words[5].split(",") or "ro" in kind[2].split(",")
        found.append(Mount(words[2], target, kind[0], read_only))
    return found


def folder_at(path: str) -> Folder:
    """See what is at a mount point."""
    place = Path(path)
    if place.is_symlink():
        return Folder("symbolic link")
    if not place.exists():
        return Folder()
    if not place.is_dir():
        return Folder("file")
    return Folder("folder", empty=not any(place.iterdir()))


def places_of_others(wanted: list[Wanted]) -> list[str]:
    """Say which disks would be mounted where somebody else could lead root elsewhere."""
    found = []
    for disk in wanted:
        try:
            refuse_foreign(Path(disk.mount).parent)
        except UserError as error:
            found.append(
                f"data_disk_disks: disk {disk.name!r}: mount = {disk.mount!r}: {error}. Nothing "
                "was changed. Mount it in a folder that only root can write, such as /data."
            )
    return found


def users_of(target: str) -> list[str]:
    """Name the processes that keep a file system from being unmounted."""
    device = Path(target).stat().st_dev
    found = []
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        with contextlib.suppress(OSError):
            places = [process / "cwd", process / "root", *(process / "fd").iterdir()]
            for place in places:
                if os.path.realpath(place).startswith("/") and place.stat().st_dev == device:
                    command = (read_text(process / "cmdline") or "").replace("\0", " ").strip()
                    found.append(f"process {process.name}: {command[:80]}")
                    break
    return found


def links() -> list[str]:
    """List the names of the devices."""
    folder = Path(BY_ID)
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def find_devices(
    module: AnsibleModule, wanted: list[Wanted], attached: list[dict[str, Any]], timeout: float
) -> dict[str, str]:
    """Find the device of each disk; wait for those that were just attached."""
    deadline = time.monotonic() + timeout
    while True:
        names = links()
        found = {}
        for disk in wanted:
            for path in device_links(disk, names, attached):
                if Path(path).is_block_device():
                    found[disk.name] = path
                    break
        if len(found) == len(wanted) or time.monotonic() >= deadline:
            return found
        time.sleep(0.5)


# -- act ---------------------------------------------------------------------------------------


class Host:
    """Does the steps."""

    def __init__(self, module: AnsibleModule, disks: list[Wanted], seen: Seen, todo: Plan) -> None:
        self.module = module
        self.disks = {disk.name: disk for disk in disks}
        self.seen = seen
        self.todo = todo
        self.notes: dict[str, dict[str, Any]] = {
            name: dict(note) for name, note in seen.notes.items()
        }

    def run(self, *argv: str, remedy: str = "") -> str:
        """Run a command that must succeed."""
        code, out, err = self.module.run_command(list(argv))
        if code != 0:
            told = " ".join((err or out).split())
            raise Failed(f"{' '.join(argv)} failed: {told}{remedy and '. ' + remedy}")
        return str(out)

    def note(self, name: str, **facts: Any) -> None:
        """Write down, for a run that comes after a crash, what is under way."""
        note = {**self.notes.get(name, {}), **facts}
        self.notes[name] = {key: value for key, value in note.items() if value is not None}
        if not self.notes[name]:
            del self.notes[name]
        Path(NOTES).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(NOTES, as_json(self.notes))

    def do(self, step: Step) -> None:
        """Do one step."""
        getattr(self, f"_{step.kind}")(step)

    def _format(self, step: Step) -> None:
        disk, device = self.disks[step.disk], self.seen.devices[step.disk]
        self.note(disk.name, making={"size": device.size, "uuid": disk.uuid})
        if device.type or not device.blank:
            # What an interrupted attempt left.
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
            # It makes units of these lines.
            self.module.run_command(["systemctl", "daemon-reload"])

    def _forget(self, step: Step) -> None:
        self._fstab(step)
        self.note(step.disk, folder=None, making=None)

    def _mount(self, step: Step) -> None:
        disk, device = self.disks[step.disk], self.seen.devices[step.disk]
        options = ",".join(mount_options(disk, device, step.argument))
        remedy = f"Look at it with: fsck -n {device.path}; dmesg | tail"
        self.run(
            "mount", "-t", step.argument, "-o", options, device.path, disk.mount, remedy=remedy
        )

    def _remount(self, step: Step) -> None:
        disk, device = self.disks[step.disk], self.seen.devices[step.disk]
        options = ",".join(["remount", *mount_options(disk, device, step.argument)])
        self.run(
            "mount", "-o", options, disk.mount,
            remedy=f"{self._in_use(disk.mount)}Run again when nobody writes there",
        )  # fmt: skip

    def _own(self, step: Step) -> None:
        disk = self.disks[step.disk]
        try:
            owner = pwd.getpwnam(disk.owner)
            group = grp.getgrnam(disk.group).gr_gid if disk.group else owner.pw_gid
        except KeyError as error:
            raise Failed(
                f"the owner {disk.owner!r} or group {disk.group!r} is not known on this host. "
                "Declare it in user_accounts_users or user_accounts_groups"
            ) from error
        try:
            give_folder(disk.mount, owner.pw_uid, group, int(disk.mode, 8))
        except UserError as error:
            raise Failed(f"{error}. Mount {disk.name} where only root can write") from None
        self.note(disk.name, making=None)

    def _grow(self, step: Step) -> None:
        disk, device = self.disks[step.disk], self.seen.devices[step.disk]
        if step.argument == "xfs":
            self.run("xfs_growfs", disk.mount)
            return
        code, _out, err = self.module.run_command(["resize2fs", device.path])
        if code == 0:
            return
        # Without CAP_SYS_RESOURCE, as in containers, the kernel lets it only be done unmounted.
        remedy = f"{self._in_use(disk.mount)}It cannot grow while it is mounted: {err.strip()}"
        self.run("umount", disk.mount, remedy=remedy)
        try:
            self.run("e2fsck", "-f", "-p", device.path)
            self.run("resize2fs", device.path)
        finally:
            self._mount(step)

    def _unmount(self, step: Step) -> None:
        self.run(
            "umount", step.argument,
            remedy=f"{self._in_use(step.argument)}It is not declared any more. Run again when "
            "nobody uses it",
        )  # fmt: skip

    def _rmdir(self, step: Step) -> None:
        with contextlib.suppress(OSError):
            Path(step.argument).rmdir()
        self.note(step.disk, folder=None)

    @staticmethod
    def _in_use(target: str) -> str:
        with contextlib.suppress(OSError):
            users = users_of(target)
            if users:
                return f"{target} is used by {'; '.join(users[:5])}. "
        return ""


def missing_packages(steps: list[Step]) -> list[str]:
    """Name the packages without which the steps cannot be done."""
    kinds = {step.argument for step in steps if step.kind in ("format", "grow")}
    return sorted(
        package
        for kind, (program, package) in TOOLS.items()
        if kind in kinds and shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin") is None
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "disks": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": DISK_SPEC,
            },
            "attached": {"type": "list", "elements": "dict", "default": []},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    params = module.params
    wanted = [Wanted(**{**entry, "options": tuple(entry["options"])}) for entry in params["disks"]]
    problems = declared_problems(wanted) or places_of_others(wanted)
    if problems:
        module.fail_json(msg="\n".join(problems))
    found = find_devices(module, wanted, params["attached"], params["timeout"])
    fstab = read_text(FSTAB) or ""
    lines = read_fstab(fstab)
    try:
        notes = json.loads(read_text(NOTES) or "{}")
    except ValueError:
        notes = {}
    mounts = read_mounts(read_text("/proc/self/mountinfo") or "")
    devices = {}
    for name, path in found.items():
        try:
            devices[name] = look_at(module, path, mounts)
        except OSError as error:
            module.fail_json(
                msg=f"data_disk_disks: disk {name!r}: {path} cannot be read ({error.strerror}). "
                "Nothing was changed. See dmesg on the host; detach the disk and attach it again, "
                "or take it out of data_disk_disks until it is mended."
            )
    seen = Seen(
        devices=devices,
        mounts=mounts,
        fstab=lines,
        folders={disk.mount: folder_at(disk.mount) for disk in wanted},
        notes=notes if isinstance(notes, dict) else {},
        attached=links(),
    )
    todo = plan(wanted, seen)
    if todo.problems:
        module.fail_json(msg="\n".join(todo.problems))
    missing = missing_packages(todo.steps)
    texts = [step.text for step in todo.steps]
    mine = [line.text for line in lines if line.disk]
    difference = {
        "before_header": FSTAB,
        "after_header": FSTAB,
        "before": "".join(f"{line}\n" for line in mine),
        "after": "".join(f"{line}\n" for line in todo.lines),
        "prepared": "".join(f"{text}\n" for text in texts),
    }
    if missing and not module.check_mode:
        module.exit_json(changed=False, steps=[], missing_packages=missing)
    if not module.check_mode:
        host = Host(module, wanted, seen, todo)
        for done, step in enumerate(todo.steps):
            try:
                host.do(step)
            except (OSError, Failed) as error:
                module.fail_json(
                    msg=f"data_disk_disks: disk {step.disk!r}: cannot {step.text}: {error}.",
                    steps=texts[:done],
                )
    module.exit_json(
        changed=bool(todo.steps), steps=texts, missing_packages=missing, diff=difference
    )


if __name__ == "__main__":
    main()
