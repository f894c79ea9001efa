"""One round of a run's compilation cache: a process that fetches, sends and tidies, and ends soon.

It has the rights of the run's user alone, and gets its order, with the run's key, from its standard
input. The bucket is asked with the machine's own account.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from ..decide.values import one_line
from . import cache_folder


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
            except (OSError, ValueError) as error:
                again = again or isinstance(error, ConnectionRefusedError)
                errors.append(one_line(str(error)))
    known = cache_folder.tidy(folder, asked["limit"], asked["known"])
    if asked["send"] and asked.get("bucket"):
        from . import cache_bucket

        try:
            sent = cache_bucket.send(asked, folder, known, until)
        except OSError as error:
            errors.append(one_line(str(error)))
    return {"known": known, "fetched": fetched, "sent": sent, "errors": errors, "again": again}


def _from_peer(asked: dict[str, Any], folder: Path, until: float) -> int:
    if not asked.get("peer"):
        return 0
    # Each source is imported where it is asked: a start waits for this.
    from .cache_peer import Peer

    host, port, own = asked["peer"]
    seconds = max(0.1, min(10.0, until - time.monotonic()))
    peer = Peer((host, port), own, asked["key"], seconds)
    try:
        missing = cache_folder.missing(peer.entries(), folder, asked["limit"])
        return sum(cache_folder.take(folder, one.name, peer.read, until) for one in missing)
    finally:
        peer.close()


def _from_bucket(asked: dict[str, Any], folder: Path, until: float) -> int:
    if not asked.get("bucket"):
        return 0
    from . import cache_bucket

    return cache_bucket.fetch(asked, folder, until)
