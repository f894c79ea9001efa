"""What a folder is, and lies on: asked as the run's user, as a share may not answer."""

from __future__ import annotations

import os
from pathlib import Path


def real_folder(path: str) -> str:
    """Return a folder's path without links; empty when it is none."""
    real = os.path.realpath(path)
    return real if Path(real).is_dir() else ""


BUCKET, SHARE, DATA_DISK, OWN_DISK = "bucket", "NFS share", "data disk", "own disk"
PLACES = (BUCKET, SHARE, DATA_DISK, OWN_DISK)
"""Where a folder can be; only the machine's own disk is deleted with the machine."""


def place_of(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return on what a folder is, or will be: a word of PLACES."""
    point, kind = _mount_of(folder, mounts)
    if kind.startswith("fuse"):
        return BUCKET
    if kind.startswith("nfs"):
        return SHARE
    return OWN_DISK if point == "/" else DATA_DISK


def kind_of(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the type of the file system that a folder is on, or will be."""
    return _mount_of(folder, mounts)[1]


def _mount_of(folder: Path, mounts: Path) -> tuple[str, str]:
    """Return mount point and type of the file system that a folder is on."""
    place, best, kind = os.path.realpath(str(folder)), "", ""
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        left, _dash, right = line.partition(" - ")
        point = left.split()[4].replace("\\040", " ")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of two on one place, the later hides the other
            best, kind = point, right.split()[0]
    return best, kind


def free_bytes(folder: Path) -> int | None:
    """Return what an ordinary user can still write there, or in the folder that it will be in."""
    for place in (folder, *folder.parents):
        try:
            found = os.statvfs(str(place))
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return found.f_bavail * found.f_frsize
    return None
