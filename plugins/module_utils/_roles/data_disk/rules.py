# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the data disks of the fleet file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._host.mounts import UNDONE_BY
from ..._schema.keys import Problem, entries, text_of, texts_of
from ..._schema.refs import known, known_user
from .plan import FOLDERS_OF_THE_SYSTEM, MODE, OPTION, PATH, REFUSED

_HERE = "fleet_disk_mounts"


def check_data_disk(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared data disks."""
    problems: list[Problem] = []
    seen: dict[tuple[str, str], list[tuple[str, set[str], set[Any]]]] = {}
    for field, entry in entries(data, _HERE):
        problems += _check_place(field, entry)
        mode = text_of(entry, "permissions")
        if mode and not MODE.fullmatch(mode):
            problems.append(
                Problem(
                    f"{field}.permissions",
                    mode,
                    "are not permissions",
                    "Write them in quotes: '0755'",
                )
            )
        for index, option in texts_of(entry, "options"):
            if option in UNDONE_BY:
                message, remedy = REFUSED.split(". ")
                problems.append(Problem(f"{field}.options[{index}]", option, message, remedy))
            elif not OPTION.fullmatch(option):
                remedy = "Write one option per entry, for example noatime"
                problems.append(
                    Problem(f"{field}.options[{index}]", option, "is not a mount option", remedy)
                )
        device = text_of(entry, "device")
        if device and device.startswith("/") and not device.startswith("/dev/"):
            remedy = "Use a path below /dev, or a name in /dev/disk/by-id"
            problems.append(Problem(f"{field}.device", device, "is not a device", remedy))
        problems += known_user(data, field, entry, "user")
        for index, wanted in texts_of(entry, "slices"):
            problems += known(data, f"{field}.slices[{index}]", wanted, "slice", "fleet_slices")
        problems += _check_writers(data, field, entry)
        slices = {name for _index, name in texts_of(entry, "slices")}
        numbers = entry.get("workers")
        workers = set(numbers) if isinstance(numbers, list) else set()
        for key in ("name", "path"):
            value = text_of(entry, key)
            if value is None:
                continue
            for other, theirs, whom in seen.setdefault((key, value), []):
                # Different slices, and different workers, may have different disks at one path.
                apart = workers and whom and not workers & whom
                if not apart and (not slices or not theirs or slices & theirs):
                    message = f"is used twice on the same slice, first by {other}"
                    remedy = f"Give each disk its own {key}, or set other slices"
                    problems.append(Problem(f"{field}.{key}", value, message, remedy))
                    break
            seen[(key, value)].append((field, slices, workers))
    return problems


def _check_place(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    path = text_of(entry, "path")
    if path is None:
        return []
    if not PATH.fullmatch(path) or "/../" in f"{path}/":
        remedy = "Begin it with /, without blanks and without a slash at the end"
        return [Problem(f"{field}.path", path, "is not the whole path of a folder", remedy)]
    if path in FOLDERS_OF_THE_SYSTEM:
        remedy = f"Use a separate folder, for example /mnt/{entry.get('name')}"
        return [Problem(f"{field}.path", path, "is a folder of the system", remedy)]
    return []


def _check_writers(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Return a problem if the disk would be written to, but is attached read-only."""
    name = text_of(entry, "name")
    shared = any(
        disk.get("name") == name and disk.get("read_only") is True
        for _field, disk in entries(data, "fleet_disks")
    )
    if not shared or entry.get("read_only") is True:
        return []
    remedy = "Set read_only: true, or attach it with read_only: false to one slice"
    message = "is not read_only, but fleet_disks attaches this disk with read_only: true"
    return [Problem(f"{field}.read_only", entry.get("read_only"), message, remedy)]
