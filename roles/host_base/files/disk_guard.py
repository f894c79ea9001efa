"""Keep log and cache folders from filling the disk; run by tpu-fleet-disk-guard.timer.

It removes files, oldest first, below the folders of its configuration and nowhere else: those
beyond the size that a folder may have, and more when the file system is nearly full. It never
follows a symbolic link, stays in one file system, and leaves alone what is young, open, empty, or
has a second name, so that removing it would free nothing.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import stat
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIGURATION = "/etc/tpu-fleet/disk-guard.json"
LOG = "/var/log/tpu-fleet/disk-guard.log"
LOG_BYTES = 1 << 20
# What is looked at below a folder; users may create more. Of the files, so many are kept in memory.
ENTRIES = 5_000_000
FILES = 100_000
FOLDERS = 50_000
DEEPEST = 40
# Folders that hold other things than logs and caches; only those below them may be listed.
TOO_MUCH = frozenset(
    [
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt"),
        *("/opt", "/opt/tpu-fleet", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp"),  # noqa: S108
        *("/usr", "/var", "/var/cache", "/var/lib", "/var/lib/tpu-fleet", "/var/log"),
        "/var/tmp",  # noqa: S108
    ]
)
OFF_LIMITS = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr")


class Refused(Exception):
    """A folder that is not touched, and why."""


@dataclass(frozen=True)
class Rule:
    """A folder to look after."""

    path: str
    max_bytes: int = 0
    """Largest size of all its files together; 0 is without limit."""
    min_age: float = 0
    """Seconds that a file must not have been written to."""


@dataclass(frozen=True)
class Found:
    """A file below a folder."""

    place: tuple
    """Names of the folders to it, and its own, from the folder of the rule."""
    size: int
    written: float
    device: int
    inode: int
    names: int = 1


@dataclass(frozen=True)
class Room:
    """What a file system has."""

    total: int
    free: int


def check(path: str) -> None:
    """Refuse a folder that cannot be meant."""
    normal = os.path.normpath(path)
    if not path.startswith("/") or normal != path or path.startswith("//"):
        raise Refused(f"{path} is not the plain whole path of a folder")
    if path in TOO_MUCH or path.startswith(tuple(f"{folder}/" for folder in OFF_LIMITS)):
        raise Refused(f"{path} belongs to the system; list a folder of logs or of a cache")
    if path.startswith("/home/") and path.count("/") < 3:
        raise Refused(f"{path} is a user's home; list a folder of logs or of a cache in it")


def counts(found: Found) -> bool:
    """Return whether removing a file would free something, and it is only in this folder."""
    return found.names == 1 and found.size > 0


def by_age(found: Found) -> tuple:
    """Return the sort key that puts the oldest first."""
    return (found.written, found.place)


def decide(
    rule: Rule,
    files: Sequence[Found],
    size: int,
    room: Room,
    full_percent: float,
    now: float,
    open_files: Iterable[tuple] = (),
) -> list:
    """Choose the files to remove, oldest first, of files with `size` bytes together; no I/O."""
    used = set(open_files)
    free = room.free
    wanted_free = room.total * (100 - full_percent) / 100
    chosen = []
    for found in sorted(files, key=by_age):
        too_large = rule.max_bytes > 0 and size > rule.max_bytes
        if not too_large and free >= wanted_free:
            break
        young = now - found.written < rule.min_age
        if young or (found.device, found.inode) in used:
            continue
        chosen.append(found)
        size -= found.size
        free += found.size
    return chosen


# -- the file system ---------------------------------------------------------------------------

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """Open a folder; no part of its path may be a symbolic link."""
    handle = os.open("/", _FOLDER)
    try:
        for name in path.strip("/").split("/"):
            inner = os.open(name, _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def inside(handle: int, names: Sequence[str]) -> int:
    """Open a folder below an open one; no part of its path may be a symbolic link."""
    held = os.dup(handle)
    for name in names:
        try:
            inner = os.open(name, _FOLDER, dir_fd=held)
        finally:
            os.close(held)
        held = inner
    return held


def files_below(handle: int) -> Iterator[Found]:
    """List the regular files below an open folder, in its own file system.

    Users may create any number of files and folders there, so what is kept in memory is bounded.
    """
    device = os.fstat(handle).st_dev
    folders, left = deque([()]), ENTRIES
    while folders:
        place = folders.popleft()
        with contextlib.suppress(OSError):
            inner = inside(handle, place)
            try:
                if os.fstat(inner).st_dev != device:
                    continue
                with os.scandir(inner) as entries:
                    for entry in entries:
                        left -= 1
                        if left < 0:
                            return
                        # Names are bytes to the kernel; what is no text comes through as it is.
                        below = (*place, entry.name)
                        if not entry.is_dir(follow_symlinks=False):
                            yield from _found(inner, below, device)
                        elif len(below) <= DEEPEST and len(folders) < FOLDERS:
                            folders.append(below)
            finally:
                os.close(inner)


def _found(inner: int, place: tuple, device: int) -> Iterator[Found]:
    """Yield a file in an open folder, if it is a regular one of this file system."""
    with contextlib.suppress(OSError):
        seen = os.stat(place[-1], dir_fd=inner, follow_symlinks=False)
        if stat.S_ISREG(seen.st_mode) and seen.st_dev == device:
            size, about = seen.st_blocks * 512, (seen.st_mtime, seen.st_dev, seen.st_ino)
            yield Found(place, size, *about, seen.st_nlink)


def oldest(found: Iterable[Found]) -> tuple:
    """Return the oldest files that count, up to FILES, and the size of all that count."""
    size = 0

    def counted() -> Iterator[Found]:
        nonlocal size
        for one in found:
            if counts(one):
                size += one.size
                yield one

    return heapq.nsmallest(FILES, counted(), key=by_age), size


def remove(handle: int, found: Found) -> bool:
    """Remove a file below an open folder, if it is still the one that was seen."""
    held = -1
    try:
        held = inside(handle, found.place[:-1])
        seen = os.stat(found.place[-1], dir_fd=held, follow_symlinks=False)
        same = (seen.st_dev, seen.st_ino, seen.st_mtime) == (
            found.device,
            found.inode,
            found.written,
        )
        if same and stat.S_ISREG(seen.st_mode):
            os.unlink(found.place[-1], dir_fd=held)
            return True
    except OSError:
        # It was removed, or replaced by something else.
        pass
    finally:
        if held >= 0:
            os.close(held)
    return False


def files_in_use(names: set) -> set:
    """Return device and inode of each file of these names that a process has open.

    Looking at others could hang, for they may be on a server that is gone.
    """
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for entry in os.scandir(process / "fd"):
                with contextlib.suppress(OSError):
                    if Path(entry).readlink().name in names:
                        seen = entry.stat()
                        found.add((seen.st_dev, seen.st_ino))
    return found


def tend(rule: Rule, full_percent: float, now: float) -> tuple:
    """Look after one folder; return how many files and bytes were removed."""
    check(rule.path)
    try:
        with opened(rule.path) as handle:
            system = os.fstatvfs(handle)
            room = Room(system.f_blocks * system.f_frsize, system.f_bavail * system.f_frsize)
            files, size = oldest(files_below(handle))
            if not decide(rule, files, size, room, full_percent, now):
                return 0, 0
            used = files_in_use({found.place[-1] for found in files})
            chosen = decide(rule, files, size, room, full_percent, now, used)
            removed = [found for found in chosen if remove(handle, found)]
            return len(removed), sum(found.size for found in removed)
    except FileNotFoundError:
        return 0, 0
    except NotADirectoryError as error:
        raise Refused(f"{rule.path} is a symbolic link, or no folder; it is left alone") from error
    except OSError as error:
        # ELOOP: some systems say so of a link.
        raise Refused(f"{rule.path} cannot be looked at: {error.strerror}") from error


def say(text: str) -> None:
    """Write to the journal and to a file that stays small."""
    print(text, flush=True)
    with contextlib.suppress(OSError):
        log = Path(LOG)
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_name(log.name + ".1"))
        with open(LOG, "a", encoding="utf-8") as stream:
            stream.write(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) + text + "\n")


def rules_of(settings: dict) -> list:
    """Read the rules of the configuration."""
    return [
        Rule(
            str(entry["path"]),
            int(entry.get("max_size") or 0),
            float(entry.get("min_age") or 0),
        )
        for entry in settings["paths"]
    ]


def main(arguments: Sequence[str]) -> int:
    """Look after all folders of the configuration; 1 if one had to be refused."""
    source = arguments[0] if arguments else CONFIGURATION
    with open(source, encoding="utf-8") as stream:
        settings: dict[str, Any] = json.load(stream)
    code = 0
    for rule in rules_of(settings):
        try:
            count, size = tend(rule, float(settings["full_percent"]), time.time())
        except Refused as refused:
            say(f"refused: {refused}")
            code = 1
            continue
        if count:
            say(f"{rule.path}: removed {count} files, {size / 2**20:.1f} MB")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
