"""What a data set consists of, as its origin lists it: which of that may come onto a disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

UNKNOWN = -1
MOST_FILES = 1_000_000
_MOST_OF_NAME, _MOST_OF_PATH = 255, 2048


class Unfit(ValueError):
    """A data set that cannot be staged as it is declared; the text has the remedy."""


@dataclass(frozen=True)
class Item:
    """One file of a data set."""

    path: str
    """Below the data set."""
    size: int
    """In bytes; UNKNOWN where the origin does not say."""
    ref: str
    """By which the origin knows it."""
    version: str
    """Another text for another content."""
    checks: tuple[tuple[str, str], ...] = ()
    """Kinds of checksums, and what they have to be."""


def size(count: float) -> str:
    """Write a number of bytes as people do."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def total(items: Iterable[Item]) -> int:
    """Return the bytes of some files, as far as they are known."""
    return sum(item.size for item in items if item.size != UNKNOWN)


def chosen(items: Iterable[Item], include: Sequence[str]) -> list[Item]:
    """Return the files that a pattern names; without patterns all."""
    return [item for item in items if not include or _is_named(item.path, include)]


def _is_named(path: str, include: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in include)


def fitting(items: Sequence[Item], most: int) -> list[Item]:
    """Return the files in order; raise Unfit for what would not fit onto a disk, or its bound."""
    if not items:
        raise Unfit("its source has no such file. Correct from, or include")
    if len(items) > MOST_FILES:
        raise Unfit(f"it has more than {MOST_FILES} files. Pack them, or choose some by include")
    whole = total(items)
    if whole > most:
        raise Unfit(
            f"it has {size(whole)}, and size = {size(most)}. Raise size, or choose some by include"
        )
    _refuse_names([item.path for item in items])
    return sorted(items, key=lambda item: item.path)


def _refuse_names(paths: Sequence[str]) -> None:
    for path in paths:
        if not is_plain(path):
            raise Unfit(f"{path[:100]!r} is no name of a file here. Rename it at its source")
    names = set(paths)
    if len(names) < len(paths):
        raise Unfit("two of its files have the same name. Choose one by include")
    for path in paths:
        folder = next((str(one) for one in PurePosixPath(path).parents if str(one) in names), "")
        if folder:
            raise Unfit(f"{folder[:100]!r} is a file and a folder. Choose one by include")


def is_plain(path: str) -> bool:
    """Return whether a name leads to a file below its folder, and nowhere else."""
    parts = path.split("/")
    return len(path.encode("utf-8", "replace")) <= _MOST_OF_PATH and all(map(_is_name, parts))


def _is_name(part: str) -> bool:
    fits = part not in ("", ".", "..") and part.isprintable()
    return fits and len(part.encode("utf-8", "replace")) <= _MOST_OF_NAME
