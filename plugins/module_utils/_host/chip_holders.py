# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes hold a TPU chip: those that have its device open. A lock file proves nothing.

The run agent uses this file, and workers get it with `standing`, so it needs only Python 3.8.
"""

from __future__ import annotations

import math
import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path

# /dev/vfio/vfio is no chip: each program that uses any device by VFIO opens it.
DEVICE = re.compile(r"/dev/(accel\d+|accel/\d+|vfio/\d+)")
# Where root alone makes files: a user's own mount, below /dev/shm, could keep a look at it waiting.
OF_ROOT = re.compile(r"/dev/((accel|vfio)/)?[^/]+")


@dataclass(frozen=True)
class Holder:
    """A process that has chips open."""

    pid: int
    uid: int
    devices: tuple[str, ...]

    @property
    def user(self) -> str:
        """Return the name of its user."""
        return user_name(self.uid)


def user_name(uid: int) -> str:
    """Return the name of a user, or the number of one that has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def devices(root: Path = Path("/")) -> list[str]:
    """Return the device files of the chips, as they are named below a root folder."""
    patterns = ("dev/accel*", "dev/accel/*", "dev/vfio/*")
    found = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    names = ["/" + str(path.relative_to(root)) for path in found]
    return [name for name in names if DEVICE.fullmatch(name)]


def holders(root: Path = Path("/"), most: float = math.inf) -> tuple[list[Holder], int]:
    """Return the processes that have a chip open, and how many processes were not looked at.

    No more than `most` open files are looked at. Only root sees those of other users.
    """
    found: list[Holder] = []
    numbers = {(root / name[1:]).stat().st_rdev for name in devices(root)} - {0}
    pids = sorted(int(path.name) for path in (root / "proc").iterdir() if path.name.isdigit())
    left = most
    for looked_at, pid in enumerate(pids):
        held = set()
        place = root / "proc" / str(pid)
        try:
            uid = place.stat().st_uid
            with os.scandir(place / "fd") as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return found, len(pids) - looked_at
                    held.add(_chip(entry.path, root, numbers))
        except OSError:
            continue  # It has ended, or it is another user's.
        if held - {""}:
            found.append(Holder(pid, uid, tuple(sorted(held - {""}))))
    return found, 0


def _chip(file: str, root: Path, numbers: set[int]) -> str:
    """Return the name of the chip that an open file is; empty if it is none."""
    try:
        target = os.readlink(file)  # noqa: PTH115 - Path.readlink came with Python 3.9 only
        # The host's name of it, and the one that its users see.
        name = target[len(str(root).rstrip("/")) :] if target.startswith(str(root)) else target
        if DEVICE.fullmatch(name):
            return name
        # In a container the same chip may have another name.
        is_chip = bool(numbers) and OF_ROOT.fullmatch(target)
        return target if is_chip and os.stat(file).st_rdev in numbers else ""  # noqa: PTH116
    except OSError:
        return ""  # It was closed meanwhile.
