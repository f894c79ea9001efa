"""The bucket of a run's compilation cache: entries that are fetched, sent and removed there."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..decide import compile_cache
from ..decide.checkpoints import thing_of
from ..decide.compile_cache import Entry
from . import cache_folder
from .bucket_requests import Bucket, CannotLook

_AT_ONCE = 4  # connections to the bucket
_PAGES = 20
_LONG = 1e11  # seconds


def fetch(asked: dict[str, Any], folder: Path, until: float) -> int:
    """Take what the folder lacks; return how many entries. Raises OSError with the reason."""
    try:
        return _fetch(asked, folder, until)
    except CannotLook as error:
        raise OSError(str(error)) from error


def send(asked: dict[str, Any], folder: Path, known: Iterable[str], until: float) -> int:
    """Write what the bucket lacks; return how many entries. Raises OSError with the reason."""
    try:
        return _send(asked, folder, known, until)
    except CannotLook as error:
        raise OSError(str(error)) from error


def _fetch(asked: dict[str, Any], folder: Path, until: float) -> int:
    bucket = _bucket(asked, until)
    try:
        own = f"{compile_cache.name_of(asked['key'])}/"
        there = [
            Entry(one.name.removeprefix(own), max(0, one.size - compile_cache.SEAL), one.at)
            for one in _listed(bucket, asked["prefix"])
            if one.name.startswith(own)
        ]
    finally:
        bucket.close()
    missing = cache_folder.missing(there, folder, asked["limit"])
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        parts = [missing[number::_AT_ONCE] for number in range(_AT_ONCE)]
        return sum(pool.map(lambda part: _part(asked, folder, part, until), parts))


def _part(asked: dict[str, Any], folder: Path, part: list[Entry], until: float) -> int:
    """Fetch some of the objects over a connection of their own."""
    if not part:
        return 0
    bucket = _bucket(asked, until)

    def read(name: str) -> bytes | None:
        path = f"/o/{quote(_object(asked, name), safe='')}?alt=media"
        answer = bucket.ask(path, most=compile_cache.MOST_ENTRY + compile_cache.SEAL)
        data = answer.body if answer.status == 200 else b""
        return compile_cache.unsealed(asked["key"], name, data)

    try:
        return sum(cache_folder.take(folder, one.name, read, until) for one in part)
    finally:
        bucket.close()


def _bucket(asked: dict[str, Any], until: float) -> Bucket:
    seconds = max(0.1, until - time.monotonic())
    return Bucket(asked["storage"], asked["metadata"], asked["bucket"], seconds)


def _object(asked: dict[str, Any], name: str) -> str:
    return f"{asked['prefix']}{compile_cache.name_of(asked['key'])}/{name}"


def _listed(bucket: Bucket, prefix: str) -> list[Entry]:
    """Return the objects below a prefix, by their names below it; those of other keys as well."""
    found = (thing_of(item, prefix) for item in bucket.items_below(prefix, _PAGES))
    return [Entry(one.name, one.size, one.at) for one in found if one is not None]


def _send(asked: dict[str, Any], folder: Path, known: Iterable[str], until: float) -> int:
    """Write what the bucket lacks; remove there what is more than the limit, unused here first."""
    bucket, sent = _bucket(asked, until), 0
    try:
        there = _listed(bucket, asked["prefix"])
        own = f"{compile_cache.name_of(asked['key'])}/"
        held = {f"{own}{name}" for name in known}
        for name in sorted(held - {one.name for one in there}):
            data = cache_folder.content(folder, name.removeprefix(own))
            if not data or time.monotonic() > until:
                continue
            whole = compile_cache.sealed(asked["key"], name.removeprefix(own), data)
            # Another worker may have written the same meanwhile.
            sent += bucket.write(asked["prefix"] + name, whole, generation=0)
        if asked["prune"]:
            _prune(bucket, asked, there, held)
    finally:
        bucket.close()
    return sent


def _prune(bucket: Bucket, asked: dict[str, Any], there: list[Entry], held: set[str]) -> None:
    """Remove what is more than the limit, and first what this worker does not have."""
    aged = [one if one.name in held else one._replace(at=one.at - _LONG) for one in there]
    for one in compile_cache.too_much(aged, asked["limit"]):
        with contextlib.suppress(CannotLook):
            bucket.delete(asked["prefix"] + one.name)
