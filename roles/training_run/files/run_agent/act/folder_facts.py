"""What a folder is, and lies on: asked as the run's user, as a share may not answer."""

from __future__ import annotations

import itertools
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
    found = room(folder)
    return found["free_bytes"] if found else None


def room(folder: Path) -> dict[str, int] | None:
    """Return the room on the file system of a folder, or of the one that it will be in."""
    for place in (folder, *folder.parents):
        try:
            found = os.statvfs(str(place))
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return {
            "free_bytes": found.f_bavail * found.f_frsize,
            "size_bytes": found.f_blocks * found.f_frsize,
            "free_files": found.f_favail,
        }
    return None


_PACKAGES = ("jax", "jaxlib", "libtpu", "torch", "torch_xla")
_MOST_NAMES = 20_000


def versions(places: list[str]) -> dict[str, str]:
    """Return the versions of the frameworks that are installed in folders of packages."""
    found: dict[str, str] = {}
    for place in places:
        try:
            with os.scandir(place) as entries:
                names = [one.name for one in itertools.islice(entries, _MOST_NAMES)]
        except OSError:
            continue
        for name in names:
            package, _dash, rest = name.partition("-")
            if name.endswith(".dist-info") and package in _PACKAGES:
                found.setdefault(package, rest[: -len(".dist-info")])
    return found


def package_folders(venv: str) -> list[str]:
    """Return the folders of a venv that have its packages."""
    return [str(path) for path in sorted(Path(venv).glob("lib/python3*/site-packages"))[:4]]
