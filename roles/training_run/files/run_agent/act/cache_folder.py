"""The folder of a run's compilation cache on this machine. All of it has the rights of its user."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ..decide import compile_cache
from ..decide.compile_cache import Entry
from . import as_user, user_files

_STILL = 10.0  # seconds without a write after which an entry is written to its end, or never will
_LEFT = 600.0  # seconds after which a file that was being written is left over

Read = Callable[[str], bytes | None]


def entries(folder: Path) -> list[Entry]:
    """Return the entries, each with the time at which it was last used, as far as it is noted."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as files:
        for file in files:
            if not compile_cache.is_entry(file.name):
                continue
            with contextlib.suppress(OSError):
                seen = file.stat(follow_symlinks=False)
                if stat.S_ISREG(seen.st_mode):
                    at = max(seen.st_atime, seen.st_mtime)
                    found.append(Entry(file.name, seen.st_size, at))
    return found


def content(folder: Path, name: str) -> bytes:
    """Return an entry, which may not be whole; empty if there is none of this name."""
    if not compile_cache.is_entry(name):
        return b""
    return user_files.read(folder / name, compile_cache.MOST_ENTRY)


def write(folder: Path, name: str, data: bytes) -> bool:
    """Write an entry in one step; return whether it is one, and whole."""
    if not compile_cache.is_entry(name) or not compile_cache.is_whole(data):
        return False
    as_user.write_plain(str(folder / name), data)
    return True


def tidy(folder: Path, limit: int, known: Iterable[str]) -> list[str]:
    """Remove what is more than the limit, and what is not whole; return the names of the others.

    What is `known` was whole at a look before. JAX would read a broken entry at each start, warn,
    and never write it again.
    """
    now, kept = time.time(), []
    _remove(folder, lambda name, at: name.endswith(".new") and now - at > _LEFT)
    known, there = set(known), entries(folder)
    gone = {one.name for one in compile_cache.too_much(there, limit)}
    for one in there:
        if one.name in gone:
            user_files.remove([folder / one.name, folder / _time_of(one.name)])
        elif one.size > compile_cache.MOST_ENTRY:
            continue  # it stays here, and does not travel
        elif one.name in known or compile_cache.is_whole(content(folder, one.name)):
            kept.append(one.name)
        elif _is_still(folder / one.name, now):
            user_files.remove([folder / one.name, folder / _time_of(one.name)])
    return kept


def _is_still(path: Path, now: float) -> bool:
    with contextlib.suppress(OSError):  # it is gone
        return now - path.lstat().st_mtime > _STILL
    return False


def _time_of(name: str) -> str:
    """Return the file in which JAX notes the use of an entry, where it is to bound its cache."""
    return f"{name.removesuffix('-cache')}-atime"


def _remove(folder: Path, which: Callable[[str, float], bool]) -> None:
    with contextlib.suppress(OSError), os.scandir(folder) as files:
        for file in files:
            with contextlib.suppress(OSError):
                if which(file.name, file.stat(follow_symlinks=False).st_mtime):
                    (folder / file.name).unlink()


def take(folder: Path, name: str, read: Read, until: float) -> bool:
    """Fetch an entry, unless the time is over; return whether it is there now."""
    if time.monotonic() > until:
        return False
    data = read(name)
    return data is not None and write(folder, name, data)


def missing(there: Iterable[Entry], folder: Path, limit: int) -> list[Entry]:
    """Return what is worth fetching, the newest first: what would not have to go at once."""
    own = {one.name for one in entries(folder)}
    found = [one for one in there if compile_cache.is_entry(one.name)]
    gone = {one.name for one in compile_cache.too_much(found, limit)}
    wanted = [one for one in found if one.name not in own | gone]
    return sorted(wanted, key=lambda one: -one.at)
