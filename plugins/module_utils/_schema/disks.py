# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an entry of `fleet_disks` is for its slices, and for the role on their machines. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# The keys of an entry that the role data_disk has, too.
OF_ROLE = (
    *("name", "path", "device", "filesystem", "read_only", "user", "group", "permissions"),
    *("options", "adopt", "slices", "workers"),
)


def is_attached(disk: Mapping[str, Any]) -> bool:
    """Return whether the fleet attaches a disk to slices, and detaches it."""
    wanted = disk.get("state") != "absent" and disk.get("attach") is not False
    return wanted and disk.get("slices") is not None


def disks_of(disks: Iterable[Mapping[str, Any]], slice_name: str) -> list[dict[str, Any]]:
    """Return the disks to attach to a slice, as `data_disks` of the module tpu_vm has them."""
    return [
        {"source_disk": disk["name"], **{key: disk.get(key) for key in ("read_only", "workers")}}
        for disk in disks
        if is_attached(disk) and slice_name in disk["slices"]
    ]


def mounts_of(disks: Any) -> Any:
    """Return `data_disk_disks` of the role: the disks that have a path on some slice.

    For the role, an entry without slices would be for all of them. What is no list stays.
    """
    if not isinstance(disks, list):
        return disks
    return [
        {key: disk[key] for key in OF_ROLE if key in disk}
        for disk in disks
        if disk.get("path") and disk.get("slices") and disk.get("state") != "absent"
    ]
