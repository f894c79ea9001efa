# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what to do with the data disks of a host: (wanted, seen) to steps or refusals. Pure."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import unpack_from
from typing import Any

from ..._host.mounts import GUARDS
from ..here import on_slice

# A UUID made from the disk's name marks this role's file systems on any host.
_NAMESPACE = uuid.UUID("5d2b6a1e-9c1f-5f0e-8a6e-7b1f0c4f3d21")
BY_ID = "/dev/disk/by-id"
OURS = "x-tpu-fleet.disk="
MOUNTABLE = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs"})
GROWS = frozenset({"ext2", "ext3", "ext4", "xfs"})
# A file system does not use less than this at the end of a device.
SLACK = 32 << 20
# The superblocks that are read below end here.
HEADER = 4096
# The keys that say on which workers a disk is.
_WHERE = ("slices", "workers")
_NUMBERED = re.compile(r"google-persistent-disk-(\d+)")


@dataclass(frozen=True)
class Wanted:
    """A declared disk."""

    name: str
    path: str
    device: str | None = None
    filesystem: str = "ext4"
    read_only: bool = False
    user: str = "root"
    group: str | None = None
    permissions: str = "0755"
    options: tuple[str, ...] = ()
    adopt: bool = False

    @property
    def uuid(self) -> str:
        """Return the UUID for a file system that this role creates on the disk."""
        return str(uuid.uuid5(_NAMESPACE, self.name))


def wanted_here(entries: Iterable[Mapping[str, Any]], slice_name: str, worker: int) -> list[Wanted]:
    """Return the disks that are declared for one worker."""
    found = []
    for entry in on_slice(entries, slice_name):
        if not entry["workers"] or worker in entry["workers"]:
            disk = {key: value for key, value in entry.items() if key not in _WHERE}
            found.append(Wanted(**{**disk, "options": tuple(disk["options"])}))
    return found


@dataclass(frozen=True)
class Device:
    """A block device and its content."""

    path: str
    number: str
    """Major and minor number, in the kernel's form."""
    size: int
    read_only: bool = False
    type: str = ""
    """The type from its signature: ext4, xfs, gpt, crypto_LUKS ...; empty without one."""
    uuid: str = ""
    partitions: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    """Devices that are built on this one."""
    blank: bool = False
    """Whether all samples were zeros."""
    filesystem_size: int | None = None


@dataclass(frozen=True)
class Mount:
    """A mounted file system."""

    number: str
    target: str
    type: str
    read_only: bool
    guarded: bool = True
    """Whether it has the options that each mount of the fleet has."""


@dataclass(frozen=True)
class Line:
    """A line of fstab; `disk` is set if this role wrote the line."""

    source: str
    target: str
    text: str
    disk: str | None


@dataclass(frozen=True)
class Folder:
    """What is at a mount point: nothing, a folder, or something else."""

    kind: str = "absent"
    empty: bool = True


@dataclass(frozen=True)
class Seen:
    """The state of the host."""

    devices: Mapping[str, Device]
    """By the name of the declared disk; a disk that was not found is missing."""
    mounts: Sequence[Mount] = ()
    fstab: Sequence[Line] = ()
    folders: Mapping[str, Folder] = field(default_factory=dict)
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The role's records of work in progress."""
    attached: Sequence[str] = ()
    """Names in /dev/disk/by-id."""


@dataclass(frozen=True)
class Step:
    """One step of the plan."""

    kind: str
    disk: str
    text: str
    argument: str = ""


@dataclass
class Plan:
    """The steps, or the problems because of which nothing is done."""

    steps: list[Step] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """The wanted lines of this role in fstab."""


# -- which device ------------------------------------------------------------------------------


def device_links(
    wanted: Wanted, links: Iterable[str], attached: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the paths that may be the disk's device, the best first.

    The device's link has the disk's name, or only a number; the number counts only if as many
    devices exist as are attached according to the API.
    """
    if wanted.device:
        whole = wanted.device.startswith("/")
        return [wanted.device if whole else f"{BY_ID}/{wanted.device}"]
    found = [f"{BY_ID}/google-{wanted.name}"]
    numbers = sorted(
        int(match.group(1)) for link in links for match in [_NUMBERED.fullmatch(link)] if match
    )
    # The boot disk has the number 0, if it is listed.
    numbers = [number for number in numbers if number > 0]
    names = [str(disk.get("sourceDisk", "")).rpartition("/")[2] for disk in attached]
    if wanted.name in names and len(numbers) == len(names):
        found.append(f"{BY_ID}/google-persistent-disk-{numbers[names.index(wanted.name)]}")
    return found


def superblock_size(header: bytes, kind: str) -> int | None:
    """Return the size of a file system in bytes, read from its first 4096 bytes."""
    if len(header) < HEADER:
        return None
    if kind in ("ext2", "ext3", "ext4") and header[1080:1082] == b"\x53\xef":
        (blocks,) = unpack_from("<I", header, 1024 + 0x04)
        (log_size,) = unpack_from("<I", header, 1024 + 0x18)
        (incompatible,) = unpack_from("<I", header, 1024 + 0x60)
        if incompatible & 0x80:
            blocks += unpack_from("<I", header, 1024 + 0x150)[0] << 32
        return int(blocks) << (10 + int(log_size))
    if kind == "xfs" and header[:4] == b"XFSB":
        block, blocks = unpack_from(">IQ", header, 4)
        return int(block) * int(blocks)
    return None


# -- fstab -------------------------------------------------------------------------------------


def read_fstab(text: str) -> list[Line]:
    """Return the lines of fstab that mount something."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4 or words[0].startswith("#"):
            continue
        ours = [word[len(OURS) :] for word in words[3].split(",") if word.startswith(OURS)]
        found.append(Line(words[0], _unescaped(words[1]), line, ours[0] if ours else None))
    return found


def write_fstab(text: str, lines: Sequence[str]) -> str:
    """Return fstab with exactly these lines of the role; other lines stay unchanged."""
    kept = []
    open_lines = list(lines)
    for line in text.splitlines():
        entry = read_fstab(line)
        if not entry or entry[0].disk is None:
            kept.append(line)
            continue
        for wanted in open_lines:
            if read_fstab(wanted)[0].disk == entry[0].disk:
                kept.append(wanted)
                open_lines.remove(wanted)
                break
    return "".join(f"{line}\n" for line in kept + open_lines)


def fstab_line(wanted: Wanted, device: Device, kind: str, identity: str) -> str:
    """Return the line that mounts a disk at boot, if it is attached."""
    options = [*mount_options(wanted, device, kind), "nofail", "x-systemd.device-timeout=30s"]
    options.append(f"{OURS}{wanted.name}")
    # A read-only file system is not checked, and xfs has no check at boot.
    check = "2" if kind.startswith("ext") and not wanted.read_only else "0"
    return f"UUID={identity} {wanted.path} {kind} {','.join(options)} 0 {check}"


def mount_options(wanted: Wanted, device: Device, kind: str) -> list[str]:
    """Return the options for mount."""
    options = ["ro"] if wanted.read_only else ["rw"]
    if wanted.read_only and device.read_only:
        # Another host may have it mounted, so its journal must not be replayed.
        options += {"ext3": ["noload"], "ext4": ["noload"], "xfs": ["norecovery"]}.get(kind, [])
    # Last, so that no other option undoes them.
    return [*dict.fromkeys([*options, *wanted.options]), *GUARDS]


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), word)


# -- what to do --------------------------------------------------------------------------------


def plan(wanted: Sequence[Wanted], seen: Seen) -> Plan:
    """Return the steps; only the problems if there are any."""
    result = Plan()
    taken: dict[str, str] = {}
    for disk in wanted:
        device = seen.devices.get(disk.name)
        if device is None:
            result.problems.append(_not_attached(disk, seen))
            continue
        if device.number in taken:
            result.problems.append(
                f"fleet_disks: disks {taken[device.number]!r} and {disk.name!r} are both "
                f"{device.path}. Set another device for one of them."
            )
            continue
        taken[device.number] = disk.name
        problem = _refusal(disk, device, seen) or _at_the_mount_point(disk, device, seen)
        if problem:
            result.problems.append(f"fleet_disks: disk {disk.name!r}: {problem}")
    _plan_removals(wanted, seen, result)
    for disk in wanted:
        device = seen.devices.get(disk.name)
        if device is not None:
            _plan_disk(disk, device, seen, result)
    if result.problems:
        result.steps = []
    return result


def _not_attached(disk: Wanted, seen: Seen) -> str:
    there = ", ".join(name for name in seen.attached if name.startswith("google-")) or "none"
    looked = disk.device or f"google-{disk.name}"
    return (
        f"fleet_disks: disk {disk.name!r} is not attached to this host: there is no "
        f"{looked}. Attached are: {there}. tpu-fleet apply attaches it, if slices says so; else "
        "set its device, or set slices to those that have it."
    )


def will_format(disk: Wanted, device: Device, seen: Seen) -> bool:
    """Return whether a file system is created: on an empty disk, or after an interruption."""
    if device.read_only or device.partitions or device.holders or _mounts_of(device, seen):
        return False
    if not device.type and device.blank:
        return True
    note = seen.notes.get(disk.name, {})
    begun = note.get("making") == {"size": device.size, "uuid": disk.uuid}
    # It has only what an interrupted mkfs has left.
    return begun and (not device.type or device.uuid == disk.uuid)


def _refusal(disk: Wanted, device: Device, seen: Seen) -> str | None:
    """Return why a device cannot be used, or None."""
    if will_format(disk, device, seen):
        if disk.read_only:
            return (
                f"{device.path} is empty, but read_only is set. Attach it to one host without "
                "read_only first and write data to it."
            )
        return None
    if device.partitions:
        return (
            f"{device.path} has partitions ({', '.join(device.partitions)}) that this role did not "
            "create. It was not changed. To use one of them, set device to it, with adopt: true."
        )
    if device.holders:
        return f"{device.path} is part of {', '.join(device.holders)}. It was not changed."
    if not device.type:
        if device.blank and device.read_only:
            return (
                f"{device.path} is empty and attached read-only, so it cannot be formatted. "
                "Attach it read_write to one host first."
            )
        return (
            f"{device.path} has data of an unknown kind, which this role did not write. It was not "
            f"changed. If the data is not needed, empty it: wipefs --all {device.path}; "
            f"blkdiscard --zeroout {device.path}"
        )
    if device.type not in MOUNTABLE:
        return (
            f"{device.path} has {device.type}, which this role did not create and cannot mount. It "
            f"was not changed. If it is not needed: wipefs --all {device.path}; "
            f"blkdiscard --zeroout {device.path}"
        )
    if device.uuid != disk.uuid and not disk.adopt:
        return (
            f"{device.path} has a file system ({device.type}, UUID {device.uuid}) that this role "
            "did not create for it. It was not changed. To mount it as it is, set adopt: true."
        )
    if device.read_only and not disk.read_only:
        return (
            f"{device.path} is attached read-only. Set read_only: true, or attach it read_write "
            "to this slice alone."
        )
    return None


def _mounts_of(device: Device, seen: Seen) -> list[Mount]:
    return [mount for mount in seen.mounts if mount.number == device.number]


def _at_the_mount_point(disk: Wanted, device: Device, seen: Seen) -> str | None:
    """Return why the disk cannot be mounted at its mount point, or None."""
    for line in seen.fstab:
        if line.target == disk.path and line.disk is None:
            return (
                f"/etc/fstab has another line for {disk.path}: {' '.join(line.text.split())}. "
                "Remove it, or choose another folder."
            )
    over = [mount for mount in seen.mounts if mount.target == disk.path]
    if over:
        going = any(line.disk and line.target == disk.path for line in seen.fstab)
        if over[-1].number != device.number and not going:
            return (
                f"Something else is mounted at {disk.path} (device {over[-1].number}, "
                f"{over[-1].type}). Unmount it, or choose another folder."
            )
        return None
    folder = seen.folders.get(disk.path, Folder())
    if folder.kind not in ("absent", "folder"):
        return f"{disk.path} is a {folder.kind}. Move it away, or choose another folder."
    if not folder.empty:
        return (
            f"{disk.path} has files, which the mounted disk would hide. Move them away, or "
            "choose another folder."
        )
    return None


def _plan_removals(wanted: Sequence[Wanted], seen: Seen, result: Plan) -> None:
    places = {disk.name: disk.path for disk in wanted}
    for line in seen.fstab:
        if line.disk is None or places.get(line.disk) == line.target:
            continue
        name = line.disk
        if any(mount.target == line.target for mount in seen.mounts):
            text = f"unmount {name} from {line.target}"
            result.steps.append(Step("unmount", name, text, line.target))
        if seen.notes.get(name, {}).get("folder") == line.target:
            result.steps.append(
                Step("rmdir", name, f"remove the folder {line.target}", line.target)
            )
        if name not in places:
            result.steps.append(Step("forget", name, f"remove {name} from /etc/fstab", line.target))


def _plan_disk(disk: Wanted, device: Device, seen: Seen, result: Plan) -> None:
    def step(kind: str, text: str, argument: str = "") -> None:
        result.steps.append(Step(kind, disk.name, text, argument))

    fresh = will_format(disk, device, seen)
    kind = disk.filesystem if fresh else device.type
    identity = disk.uuid if fresh else device.uuid
    line = fstab_line(disk, device, kind, identity)
    result.lines.append(line)
    if fresh:
        step("format", f"make {kind} on {device.path} for {disk.name}", kind)
    here = [mount for mount in _mounts_of(device, seen) if mount.target == disk.path]
    if not here and seen.folders.get(disk.path, Folder()).kind == "absent":
        step("mkdir", f"create the folder {disk.path}", disk.path)
    old = [entry for entry in seen.fstab if entry.disk == disk.name]
    stale = [entry.text.split() for entry in old] != [line.split()]
    if stale:
        step("fstab", f"write {disk.name} into /etc/fstab", line)
    if not here:
        step("mount", f"mount {disk.name} at {disk.path}", kind)
    elif here[-1].read_only != disk.read_only or not here[-1].guarded or (stale and old):
        step("remount", f"mount {disk.name} again with other options", kind)
    if fresh or seen.notes.get(disk.name, {}).get("making"):
        group = disk.group or f"{disk.user}'s"
        step(
            "own",
            f"give {disk.path} to {disk.user} (group {group}, permissions {disk.permissions})",
        )
    size = device.filesystem_size
    can = kind in GROWS and not disk.read_only and not fresh and size is not None
    if can and size is not None and device.size - size >= SLACK:
        text = f"grow {disk.name} from {size / 2**30:.1f} to {device.size / 2**30:.1f} GiB"
        step("grow", text, kind)
