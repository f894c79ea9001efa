"""Put the page where people find it: a folder, or a folder of a bucket."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.folders import is_folder
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.self_setup import split_bucket
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.storage import Bucket, Folder, Place
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client

from ..history.store import History
from .model import page_of
from .render import html_of

BUCKET = "gs://"
INDEX = "index.html"
KIND = "text/html; charset=utf-8"
EVERY = 60.0


def place_of(where: str, client: Callable[[], Client]) -> tuple[Place, str]:
    """Return the place and the name of the page there; of a folder it is index.html."""
    if not where.startswith(BUCKET):
        folder, name = folder_of(where)
        return Folder(str(folder)), name
    where, name = _named(where)
    one = client()
    return Bucket(GoogleApis(one), one.auth, *split_bucket(where)), name


def folder_of(where: str) -> tuple[Path, str]:
    """Return the folder of this computer, and the name of the page there; raises TpuError."""
    where, name = _named(where)
    folder = Path(where or ".").expanduser()
    if not is_folder(folder):
        raise TpuError(f"{folder} is no folder here.", remedy="Make it, or name another place.")
    return folder, name


def _named(where: str) -> tuple[str, str]:
    """Return the folder and the name of the page there."""
    if not where.endswith(".html"):
        return where, INDEX
    folder, _slash, name = where.rpartition("/")
    return folder, name


class Published:
    """The page of the watcher, written again at most once a minute."""

    def __init__(self, where: str, logs: bool = True) -> None:
        self._where = where
        self._logs = logs
        self._next = 0.0

    def publish(self, history: History, fleet: str, client: Callable[[], Client]) -> None:
        """Write it, if that is due."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        page = page_of(history, fleet, time.time(), logs=self._logs)
        put(self._where, html_of(page), client)


def put(where: str, html: str, client: Callable[[], Client]) -> None:
    """Write a page to a place."""
    place, name = place_of(where, client)
    place.put(name, html.encode(), KIND)
