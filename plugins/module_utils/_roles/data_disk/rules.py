# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the data disks of the fleet file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._host.mounts import UNDONE_BY
from ..._schema.keys import Problem, entries, text_of, texts_of
from ..._schema.refs import known_user
from .plan import FOLDERS_OF_THE_SYSTEM, MODE, OPTION, PATH, REFUSED


def check_data_disk(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared data disks."""
    problems: list[Problem] = []
    seen: dict[str, list[tuple[str, set[str], set[Any]]]] = {}
    for field, entry in entries(data, "fleet_disks"):
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
        slices = {name for _index, name in texts_of(entry, "slices")}
        numbers = entry.get("workers")
        workers = set(numbers) if isinstance(numbers, list) else set()
        path = text_of(entry, "path")
        # An empty list is that of a disk which is nowhere at present.
        if path is None or entry.get("slices") == []:
            continue
        for other, theirs, whom in seen.setdefault(path, []):
            # Different slices, and different workers, may have different disks at one path.
            apart = workers and whom and not workers & whom
            if not apart and (not slices or not theirs or slices & theirs):
                message = f"is used twice on the same slice, first by {other}"
                remedy = "Give each disk its own path, or set other slices"
                problems.append(Problem(f"{field}.path", path, message, remedy))
                break
        seen[path].append((field, slices, workers))
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
