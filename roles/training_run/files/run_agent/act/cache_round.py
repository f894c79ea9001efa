"""One round of a run's compilation cache: a process that fetches, sends and tidies, and ends soon.

It has the rights of the run's user alone, and gets its order, with the run's key, from its standard
input. The bucket is asked with the machine's own account.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..decide import compile_cache
from ..decide.checkpoints import thing_of
from ..decide.compile_cache import Entry
from ..decide.values import one_line
from . import cache_folder
from .bucket_requests import Bucket, CannotLook
from .cache_peer import Peer

_AT_ONCE = 4  # connections to the bucket
_PAGES = 20
_LONG = 1e11  # seconds

Read = Callable[[str], bytes | None]


def main(_words: list[str]) -> int:
    """Do the round that is asked for; print what was done."""
    print(json.dumps(done(json.load(sys.stdin))))
    return 0


def done(asked: dict[str, Any]) -> dict[str, Any]:
    """Fetch entries if that is asked for, tidy the folder, send what is new to the bucket.

    Asked is with the `folder`, the `limit` in bytes, the `key`, what is `known` to be whole, and
    how many `seconds` it may take; with `peer` as host, port and own address, and with `bucket`,
    the `prefix`, `storage` and `metadata`, where there are such. Return the names that are `known`
    now, how many were `fetched` and `sent`, the `errors`, and whether worker 0 may serve soon: then
    `again`.
    """
    folder, errors, fetched, sent = Path(asked["folder"]), [], 0, 0
    again = False
    until = time.monotonic() + asked["seconds"]
    if asked["fetch"]:
        for source in (_from_peer, _from_bucket):
            try:
                fetched += source(asked, folder, until)
            except (OSError, ValueError, CannotLook) as error:
                again = again or isinstance(error, ConnectionRefusedError)
                errors.append(one_line(str(error)))
    known = cache_folder.tidy(folder, asked["limit"], asked["known"])
    if asked["send"] and asked.get("bucket"):
        try:
            sent = _send(asked, folder, known, until)
        except CannotLook as error:
            errors.append(one_line(str(error)))
    return {"known": known, "fetched": fetched, "sent": sent, "errors": errors, "again": again}


def _from_peer(asked: dict[str, Any], folder: Path, until: float) -> int:
    if not asked.get("peer"):
        return 0
    host, port, own = asked["peer"]
    seconds = max(0.1, min(10.0, until - time.monotonic()))
    peer = Peer((host, port), own, asked["key"], seconds)
    try:
        missing = _missing(peer.entries(), folder, asked["limit"])
        return sum(_take(folder, one.name, peer.read, until) for one in missing)
    finally:
        peer.close()


def _from_bucket(asked: dict[str, Any], folder: Path, until: float) -> int:
    if not asked.get("bucket"):
        return 0
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
    missing = _missing(there, folder, asked["limit"])
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
        return sum(_take(folder, one.name, read, until) for one in part)
    finally:
        bucket.close()


def _take(folder: Path, name: str, read: Read, until: float) -> bool:
    if time.monotonic() > until:
        return False
    data = read(name)
    return data is not None and cache_folder.write(folder, name, data)


def _missing(there: Iterable[Entry], folder: Path, limit: int) -> list[Entry]:
    """Return what is worth fetching, the newest first: what would not have to go at once."""
    own = {one.name for one in cache_folder.entries(folder)}
    found = [one for one in there if compile_cache.is_entry(one.name)]
    gone = {one.name for one in compile_cache.too_much(found, limit)}
    wanted = [one for one in found if one.name not in own | gone]
    return sorted(wanted, key=lambda one: -one.at)


# The bucket


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
    aged = [one if one.name in held else replace(one, at=one.at - _LONG) for one in there]
    for one in compile_cache.too_much(aged, asked["limit"]):
        with contextlib.suppress(CannotLook):
            bucket.delete(asked["prefix"] + one.name)
