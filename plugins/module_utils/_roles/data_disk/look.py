# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the state of a host's disks, their contents and their users. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from ..._host.as_user import PATH, UserError, refuse_foreign
from ..._host.mounts import GUARDS, point_of
from ..._host.open_paths import TooMuchError, users_below
from ..._host.state import STATE_DIR, read_text
from ..._host.work import Failed, Run
from .plan import (
    BY_ID,
    HEADER,
    SLACK,
    Device,
    Folder,
    Mount,
    Seen,
    Step,
    Wanted,
    device_links,
    read_fstab,
    superblock_size,
)

FSTAB = "/etc/fstab"
NOTES = f"{STATE_DIR}/data_disks.json"
# The program that each file system needs, and its package.
TOOLS = {"ext4": ("mkfs.ext4", "e2fsprogs"), "xfs": ("mkfs.xfs", "xfsprogs")}
SAMPLE = 65536
SAMPLES = 64
ENDS = 4 << 20


def is_blank(path: str, size: int) -> bool:
    """Return whether a device has only zeros, at both ends and at samples in between."""
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


def signature(run: Run, path: str) -> tuple[str, str]:
    """Return type and UUID of what is on a device, if two probes agree."""
    # Without blkid's cache, which may be out of date.
    code, out, _err = run(["blkid", "-p", "-o", "export", path])
    if code == 8:
        return "several signatures", ""
    found = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    kind = found.get("TYPE") or found.get("PTTYPE") or ""
    if not kind:
        code, out, _err = run(["wipefs", "--no-act", "--parsable", path])
        lines = [line for line in out.splitlines() if line and not line.startswith("#")]
        kind = lines[0].split(",")[3] if lines and lines[0].count(",") >= 3 else "".join(lines)
    return kind, found.get("UUID", "")


def xfs_size(run: Run, target: str) -> int | None:
    """Return the size of a mounted xfs, because its superblock on the device may be old."""
    _code, out, _err = run(["xfs_growfs", "-n", target])
    found = re.search(r"^data\s.*bsize=(\d+)\s+blocks=(\d+)", out, re.MULTILINE)
    return int(found.group(1)) * int(found.group(2)) if found else None


def look_at(run: Run, link: str, mounts: list[Mount]) -> Device:
    """Return the state of a device."""
    path = os.path.realpath(link)
    number = Path(path).stat().st_rdev
    text = f"{os.major(number)}:{os.minor(number)}"
    folder = Path("/sys/dev/block") / text
    # sysfs counts sectors of 512 bytes, whatever the device's sector size is.
    size = int(read_text(folder / "size") or 0) * 512
    kind, identity = signature(run, path)
    header = b""
    with contextlib.suppress(OSError), open(path, "rb") as stream:
        header = stream.read(HEADER)
    used = superblock_size(header, kind)
    here = [mount.target for mount in mounts if mount.number == text]
    if kind == "xfs" and here and used is not None and size - used >= SLACK:
        used = xfs_size(run, here[0]) or used
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
    """Return the mounts in /proc/self/mountinfo."""
    found = []
    for line in text.splitlines():
        left, _dash, right = line.partition(" - ")
        words, kind = left.split(), right.split()
        if len(words) < 6 or not kind:
            continue
        options = words[5].split(",")
        read_only = "ro" in options or "ro" in kind[2].split(",")
        guarded = set(GUARDS) <= set(options)
        found.append(Mount(words[2], point_of(line), kind[0], read_only, guarded))
    return found


def folder_at(path: str) -> Folder:
    """Return what is at a mount point."""
    place = Path(path)
    if place.is_symlink():
        return Folder("symbolic link")
    if not place.exists():
        return Folder()
    if not place.is_dir():
        return Folder("file")
    return Folder("folder", empty=not any(place.iterdir()))


def places_of_others(wanted: list[Wanted]) -> list[str]:
    """Return problems of mount points that users other than root could replace by a link."""
    found = []
    for disk in wanted:
        try:
            refuse_foreign(Path(disk.path).parent)
        except UserError as error:
            found.append(
                f"fleet_disks: disk {disk.name!r}: path = {disk.path!r}: {error}. Nothing "
                "was changed. Mount it in a folder that only root can write, such as /data."
            )
    return found


def users_of(target: str) -> list[str]:
    """Return the processes that keep a file system from being unmounted, as far as is known."""
    found = []
    with contextlib.suppress(TooMuchError):
        for process in users_below(target):
            command = (read_text(process / "cmdline") or "").replace("\0", " ").strip()
            found.append(f"process {process.name}: {command[:80]}")
    return found


def links() -> list[str]:
    """Return the names in /dev/disk/by-id."""
    folder = Path(BY_ID)
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def find_devices(
    wanted: list[Wanted], attached: list[dict[str, Any]], timeout: float
) -> dict[str, str]:
    """Return the device of each disk; wait for disks that were just attached."""
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


def missing_packages(steps: list[Step]) -> list[str]:
    """Return the packages that the steps need and that are not installed."""
    kinds = {step.argument for step in steps if step.kind in ("format", "grow")}
    return sorted(
        package
        for kind, (program, package) in TOOLS.items()
        if kind in kinds and shutil.which(program, path=PATH) is None
    )


def look(run: Run, wanted: list[Wanted], attached: list[dict[str, Any]], timeout: float) -> Seen:
    """Return all that the plan for the disks depends on."""
    found = find_devices(wanted, attached, timeout)
    lines = read_fstab(read_text(FSTAB) or "")
    try:
        notes = json.loads(read_text(NOTES) or "{}")
    except ValueError:
        notes = {}
    mounts = read_mounts(read_text("/proc/self/mountinfo") or "")
    devices = {}
    for name, path in found.items():
        try:
            devices[name] = look_at(run, path, mounts)
        except OSError as error:
            raise Failed(
                f"fleet_disks: disk {name!r}: {path} cannot be read ({error.strerror}). "
                "Nothing was changed. See dmesg on the host; detach the disk and attach it again, "
                "or remove it from fleet_disks until it is repaired."
            ) from error
    return Seen(
        devices=devices,
        mounts=mounts,
        fstab=lines,
        folders={disk.path: folder_at(disk.path) for disk in wanted},
        notes=notes if isinstance(notes, dict) else {},
        attached=links(),
    )
