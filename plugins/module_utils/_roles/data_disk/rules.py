# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the data disks of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..._host.mounts import UNDONE_BY
from ..._schema.keys import Problem, entries, text_of, texts_of
from ..._schema.refs import known_user
from .plan import OURS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
PATH = re.compile(r"(/[A-Za-z0-9@%+_.-]+)+")
OPTION = re.compile(r"[A-Za-z0-9_.:=@%/+-]+")
MODE = re.compile(r"0?[0-7]{3,4}")
FOLDERS_OF_THE_SYSTEM = frozenset(
    [
        *("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run"),
        *("/sbin", "/sys", "/tmp", "/usr", "/usr/local", "/var", "/var/lib", "/var/log"),  # noqa: S108
    ]
)


def check_data_disk(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared data disks."""
    problems: list[Problem] = []
    seen: dict[tuple[str, str], list[tuple[str, set[str], set[Any]]]] = {}
    for field, entry in entries(data, "fleet_disks"):
        problems += [*_check_words(field, entry), *_check_place(field, entry)]
        problems += known_user(data, field, entry, "user")
        # An empty list is that of a disk which is nowhere at present.
        if entry.get("slices") != []:
            problems += _used_twice(field, entry, seen)
    return problems


def _check_words(field: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    name, mode, device = (text_of(entry, key) for key in ("name", "permissions", "device"))
    if name and not NAME.fullmatch(name):
        yield Problem(f"{field}.name", name, "is not a name for a disk", "Use letters, digits, - .")
    if mode and not MODE.fullmatch(mode):
        remedy = "Write them in quotes: '0755'"
        yield Problem(f"{field}.permissions", mode, "are not permissions", remedy)
    for index, option in texts_of(entry, "options"):
        where = f"{field}.options[{index}]"
        if option in UNDONE_BY:
            message = "would let what another machine wrote become root here"
            yield Problem(where, option, message, "Leave it out")
        elif not OPTION.fullmatch(option) or option.startswith(OURS):
            remedy = "Write one option per entry, for example noatime"
            yield Problem(where, option, "is not a mount option", remedy)
    if device and device.startswith("/") and not device.startswith("/dev/"):
        remedy = "Use a path below /dev, or a name in /dev/disk/by-id"
        yield Problem(f"{field}.device", device, "is not a device", remedy)


def _used_twice(
    field: str,
    entry: Mapping[str, Any],
    seen: dict[tuple[str, str], list[tuple[str, set[str], set[Any]]]],
) -> Iterator[Problem]:
    """Yield the name and the path that an earlier disk of the same workers has as well."""
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
                yield Problem(f"{field}.{key}", value, message, remedy)
                break
        seen[key, value].append((field, slices, workers))


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
