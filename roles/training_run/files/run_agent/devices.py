"""Is the TPU free? Whoever has a chip open holds it; a lock file alone proves nothing."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, List

from . import shared_places

LOCK_FILE = "tmp/libtpu_lockfile"


@dataclass(frozen=True)
class Holder:
    """A process that has a chip open."""

    pid: int
    user: str
    program: str
    device: str

    def __str__(self) -> str:
        return f"{self.device} is held by process {self.pid} ({self.program}) of {self.user}"


def chips(root: Path = Path("/")) -> List[str]:
    """Return the device files of the host's chips."""
    patterns = ("dev/accel*", "dev/accel/*", "dev/vfio/*")
    found = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    return ["/" + str(path.relative_to(root)) for path in found if not path.is_dir()]


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _open_files(process: Path) -> Iterator[str]:
    for entry in (process / "fd").iterdir():
        yield os.readlink(entry)  # noqa: PTH115 - Path.readlink came with Python 3.9 only


def holders(root: Path = Path("/")) -> List[Holder]:
    """Return who has a chip open."""
    names = chips(root)
    # By the name that the host has for it, and by the one that its users see.
    devices = {*names, *(str(root) + name for name in names)}
    if not devices:
        return []
    found = []
    for process in sorted((root / "proc").iterdir()):
        if not process.name.isdigit():
            continue
        try:
            held = sorted(devices & set(_open_files(process)))
            if held:
                name = (process / "comm").read_text(encoding="utf-8", errors="replace")
                program = name.strip()
                user = _name_of(process.stat().st_uid)
                found.append(Holder(int(process.name), user, program, held[-1]))
        except OSError:
            continue  # it ended, or it is another user's and we are not root
    return found


def obstacle(root: Path = Path("/")) -> str:
    """Return which processes are in the way of a start; empty without any."""
    return "; ".join(str(holder) for holder in holders(root))


def give_lock_file(root: Path, uid: int, gid: int) -> None:
    """Give libtpu's lock file to the user whose program is about to take the chips.

    libtpu locks the file, which may exist. Of another user it could not be opened, and in the place
    of a missing one any user could create a folder.
    """
    shared_places.take_file(root / LOCK_FILE, uid, gid)
