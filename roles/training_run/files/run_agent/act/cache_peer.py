"""Worker 0 hands the entries of a run's compilation cache to the other workers of its gang.

JAX writes entries in its first process alone, so the other workers have none of their own. Server
and client have the rights of the run's user. Each question is proved by the run's key, and so is
each answer.

/list          names, sizes and times of the entries
/entry/NAME    one of them
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from ..decide import compile_cache
from ..decide.compile_cache import Entry
from ..decide.values import is_whole
from . import cache_folder, slice_proof
from .file_server import FileServer, Reply

_LIST, _ENTRY = "/list", "/entry/"
_MOST_LIST = 4 << 20


def main(_words: list[str]) -> int:
    """Serve what the first line of the input says, until the input ends."""
    order = json.loads(sys.stdin.readline())
    offer = Offer(Path(order["folder"]), order["key"])
    try:
        server = FileServer((order["host"], order["port"]), order["peers"], offer.find)
    except OSError as error:
        print(f"{error.strerror}", flush=True)
        return 1
    server.begin()
    sys.stdin.read()
    return 0


class Offer:
    """What worker 0 answers."""

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key = folder, key

    def find(self, path: str, headers: Mapping[str, str]) -> Reply | None:
        """Return what a process with the key asks for."""
        if not slice_proof.may_ask(self._key, path, headers):
            return None
        found = self._listed() if path == _LIST else self._entry(path)
        return Reply(found, slice_proof.answering(self._key, found, headers)) if found else None

    def _listed(self) -> bytes:
        found = cache_folder.entries(self._folder)
        return json.dumps([[one.name, one.size, one.at] for one in found]).encode()

    def _entry(self, path: str) -> bytes:
        """Return an entry, which who asks looks at; empty if there is none of this name."""
        begins, found, name = path.partition(_ENTRY)
        return cache_folder.content(self._folder, unquote(name)) if found and not begins else b""


class Peer:
    """One connection to worker 0; all methods raise OSError."""

    def __init__(self, at: tuple[str, int], own: str, key: str, seconds: float) -> None:
        """Ask at an address and port; `own` is the address at which worker 0 knows this one."""
        self._key = key
        # Without proxies, which lead outside; it follows no redirect.
        self._connection = http.client.HTTPConnection(*at, seconds, (own, 0))

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def entries(self) -> list[Entry]:
        """Return what worker 0 has; raise ValueError if that is no list."""
        data = self._ask(_LIST, _MOST_LIST)
        if data is None:
            raise OSError("worker 0 does not answer: it has another key, or its port is another's")
        return list(_entries_of(json.loads(data)))

    def read(self, name: str) -> bytes | None:
        """Return an entry; None if it is not there, or what comes has not the run's key."""
        return self._ask(f"{_ENTRY}{quote(name, safe='')}", compile_cache.MOST_ENTRY)

    def _ask(self, path: str, most: int) -> bytes | None:
        asked = slice_proof.asking(self._key, path)
        try:
            self._connection.request("GET", path, headers=asked)
            answer = self._connection.getresponse()
            data = answer.read(most)
            answer.close()
        except http.client.HTTPException as error:
            self._connection.close()
            raise OSError(f"worker 0 does not answer in HTTP: {error!r}"[:200]) from None
        proof = answer.headers.get(slice_proof.PROOF, "")
        return data if slice_proof.is_answer(self._key, data, asked, proof) else None


def _entries_of(found: Any) -> Iterator[Entry]:
    for one in found if isinstance(found, list) else []:
        name, size, at = one if isinstance(one, list) and len(one) == 3 else (None, None, None)
        if not isinstance(name, str) or not compile_cache.is_entry(name):
            continue
        if is_whole(size) and 0 <= size <= compile_cache.MOST_ENTRY and isinstance(at, float):
            yield Entry(name, size, at)
