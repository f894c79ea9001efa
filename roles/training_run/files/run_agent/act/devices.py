"""Are the chips free? A process with a chip open holds it; a lock file alone proves nothing."""

from __future__ import annotations

from pathlib import Path

from . import chip_holders, shared_places

LOCK_FILE = "tmp/libtpu_lockfile"


def obstacle(root: Path = Path("/")) -> str:
    """Return which processes are in the way of a start; empty without any."""
    found = chip_holders.holders(root)[0] if chip_holders.devices(root) else []
    return "; ".join(
        f"{one.devices[-1]} is held by process {one.pid} ({_program(root, one.pid)}) of {one.user}"
        for one in found
    )


def _program(root: Path, pid: int) -> str:
    try:
        name = (root / "proc" / str(pid) / "comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "it has ended"
    return name.strip()


def give_lock_file(root: Path, uid: int, gid: int) -> None:
    """Give libtpu's lock file to the user whose program is about to take the chips.

    libtpu locks the file, which may exist. Of another user it could not be opened, and in the place
    of a missing one any user could create a folder.
    """
    shared_places.take_file(root / LOCK_FILE, uid, gid)
