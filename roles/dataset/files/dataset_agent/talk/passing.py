"""Pass the files of data sets from the first worker of a slice on to the others.

/NAME/ID/list/FROM     which files are whole, from a number on, in the order in which they came
/NAME/ID/file/NUMBER   one of them
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from ..act import web
from ..act.shelf import READY, Shelf, Whole
from ..decide.config import Config, Dataset
from ..decide.listing import Item, is_plain
from . import slice_proof
from .file_server import FileServer, Reply

_AT_ONCE = 2000
_MOST = 16 << 20
_ADDRESS = re.compile(r"/([A-Za-z0-9_-]{1,63})/([0-9a-f]{16})/(list|file)/([0-9]{1,9})")


class Offer:
    """What the first worker answers."""

    def __init__(self, key: str, shelves: Sequence[Shelf]) -> None:
        self._key = key
        self._shelves = {(one.dataset.name, one.dataset.id): one for one in shelves}

    def find(self, path: str, headers: Mapping[str, str]) -> Reply | None:
        """Return what a worker of the slice asks for."""
        found = _ADDRESS.fullmatch(path)
        shelf = self._shelves.get((found[1], found[2])) if found else None
        if found is None or shelf is None or not slice_proof.may_ask(self._key, path, headers):
            return None
        number = int(found[4])
        if found[3] == "file":
            whole = shelf.whole[number : number + 1]
            return Reply(shelf.content / whole[0].path) if whole else None
        body = json.dumps(_list(shelf, number)).encode()
        return Reply(body, slice_proof.answering(self._key, body, headers))

    def server(self, config: Config) -> FileServer:
        """Return what answers the other workers; raise OSError if the port is taken."""
        return FileServer((config.hosts[0], config.port), config.hosts, self.find)


def _list(shelf: Shelf, start: int) -> dict[str, Any]:
    files = shelf.whole[start : start + _AT_ONCE]
    return {
        "files": [one[:3] for one in files],
        "done": shelf.state == READY and start + len(files) == len(shelf.whole),
        "state": shelf.state,
        "says": shelf.says,
        "files_of": shelf.files or len(shelf.whole),
        "bytes_of": shelf.bytes or shelf.done,
    }


class Told(NamedTuple):
    """What the first worker says of a data set."""

    files: list[Whole]
    done: bool
    state: str
    says: str
    files_of: int
    bytes_of: int


class Neighbour:
    """The first worker, as another one asks it for one data set."""

    def __init__(self, config: Config, dataset: Dataset) -> None:
        self._key = config.key
        host = config.hosts[0]
        self._server = f"{f'[{host}]' if ':' in host else host}:{config.port}"
        self._place = f"/{dataset.name}/{dataset.id}"

    def ask(self, start: int) -> Told:
        """Return which files it has, from a number on; raise web.CannotGet."""
        path = f"{self._place}/list/{start}"
        asked = slice_proof.asking(self._key, path)
        body, said = self._asked(path, asked)
        if not slice_proof.is_answer(self._key, body, asked, said):
            raise web.CannotGet(f"{self._server} is no worker of this slice")
        try:
            return _told(json.loads(body))
        except (KeyError, RecursionError, TypeError, ValueError):
            raise web.CannotGet(f"{self._server} is of another version: apply to all") from None

    def _asked(self, path: str, asked: Mapping[str, str]) -> tuple[bytes, str]:
        try:
            with web.opened(f"http://{self._server}{path}", asked, way=web.INSIDE) as answer:
                return answer.read(_MOST), answer.headers.get(slice_proof.PROOF, "")
        except web.Refused:
            text = f"worker 0 ({self._server}) has other data sets: apply to all workers"
            raise web.CannotGet(text) from None

    def items(self, told: Told, start: int) -> list[Item]:
        """Return the files that it has, by their numbers there."""
        return [
            Item(one.path, one.size, str(start + number), one.sha256, (("sha256", one.sha256),))
            for number, one in enumerate(told.files)
        ]

    def open(self, item: Item, offset: int) -> AbstractContextManager[web.Reading]:
        """Give one of its files, from an offset on."""
        path = f"{self._place}/file/{item.ref}"
        asked = slice_proof.asking(self._key, path)
        return web.reading(f"http://{self._server}{path}", offset, asked, way=web.INSIDE)


def _told(said: Mapping[str, Any]) -> Told:
    files = [Whole(str(path), int(size), str(digest)) for path, size, digest in said["files"]]
    if not all(is_plain(one.path) and one.size >= 0 for one in files):
        raise ValueError("no file of a data set")
    texts = (str(said["state"]), str(said["says"]))
    return Told(files, said["done"] is True, *texts, int(said["files_of"]), int(said["bytes_of"]))
