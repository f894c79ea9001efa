# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""See the disks of a host, what is on them, and who uses them. Private to tpu.fleet."""

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
# Which program a file system needs, and what package it comes in.
TOOLS = {"ext4": ("mkfs.ext4", "e2fsprogs"), "xfs": ("mkfs.xfs", "xfsprogs")}
SAMPLE = 65536
SAMPLES = 64
ENDS = 4 << 20


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


def signature(run: Run, path: str) -> tuple[str, str]:
    """Return what is on a device and its UUID, as two probes see it."""
    # What it remembers from earlier is not asked for, only what is there.
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
    """Ask xfs how large it is; on the device that is written only when it sees fit."""
    _code, out, _err = run(["xfs_growfs", "-n", target])
    found = re.search(r"^data\s.*bsize=(\d+)\s+blocks=(\d+)", out, re.MULTILINE)
    return int(found.group(1)) * int(found.group(2)) if found else None


def look_at(run: Run, link: str, mounts: list[Mount]) -> Device:
    """Look at a device."""
    path = os.path.realpath(link)
    number = Path(path).stat().st_rdev
    text = f"{os.major(number)}:{os.minor(number)}"
    folder = Path("/sys/dev/block") / text
    # Sectors of 512 bytes, whatever the device's own are.
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
    wanted: list[Wanted], attached: list[dict[str, Any]], timeout: float
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


def missing_packages(steps: list[Step]) -> list[str]:
    """Name the packages without which the steps cannot be done."""
    kinds = {step.argument for step in steps if step.kind in ("format", "grow")}
    return sorted(
        package
        for kind, (program, package) in TOOLS.items()
        if kind in kinds and shutil.which(program, path=PATH) is None
    )


def look(run: Run, wanted: list[Wanted], attached: list[dict[str, Any]], timeout: float) -> Seen:
    """See all that decides what must happen to the disks."""
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
                f"data_disk_disks: disk {name!r}: {path} cannot be read ({error.strerror}). "
                "Nothing was changed. See dmesg on the host; detach the disk and attach it again, "
                "or take it out of data_disk_disks until it is mended."
            ) from error
    return Seen(
        devices=devices,
        mounts=mounts,
        fstab=lines,
        folders={disk.mount: folder_at(disk.mount) for disk in wanted},
        notes=notes if isinstance(notes, dict) else {},
        attached=links(),
    )
