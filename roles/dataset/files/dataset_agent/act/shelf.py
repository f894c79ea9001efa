"""One data set on the disk: which files are whole, which are on their way, what it says of itself.

In the folder of what comes are `files`, what is on its way in `coming`, and `whole`, a line for
each file that is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from ..decide.config import Dataset
from ..decide.listing import Item, is_plain, size
from .as_user import sync_folder
from .dataset_place import RESERVE, Place
from .download import CannotStore, Download, Open, of_disk

STAGING, READY, FAILED = "staging", "ready", "failed"


class Whole(NamedTuple):
    """One file that is whole."""

    path: str
    size: int
    sha256: str
    version: str = ""


class Shelf:
    """The place of one data set, and its progress; used by several threads."""

    def __init__(self, dataset: Dataset, status: Path) -> None:
        self.dataset = dataset
        self.place = Place(dataset.path)
        self.whole: list[Whole] = []
        self.files = self.bytes = 0
        """Of all files, as far as they are known."""
        self.state, self.says = STAGING, "it is not staged yet"
        self._status = status / f"{dataset.name}.json"
        self._known: set[tuple[str, str]] = set()
        self.done = 0
        """Bytes of the files that are whole."""
        self._lock = threading.Lock()
        self._written = 0.0

    @property
    def is_ready(self) -> bool:
        """Return whether the data set is in its place."""
        return self.place.has(self.dataset.id)

    @property
    def content(self) -> Path:
        """Return where the files that are whole are."""
        done = self.place.whole(self.dataset.id)
        return done if done.is_dir() else self._part / "files"

    @property
    def _part(self) -> Path:
        return self.place.part(self.dataset.id)

    def load(self) -> None:
        """Read which files are whole: all, or those of an earlier attempt."""
        done = self.is_ready
        path = self.place.listing(self.dataset.id) if done else self._part / "whole"
        self.whole = _lines(path)
        if not done:
            files = self._part / "files"
            self.whole = [one for one in self.whole if _size_of(files / one.path) == one.size]
        self._known = {(one.path, one.version) for one in self.whole}
        self.done = sum(one.size for one in self.whole)

    def begin(self, files: int, count: int) -> None:
        """Take up the work on so many files and bytes; raise CannotStore if they do not fit."""
        self.files, self.bytes = files, count
        with of_disk():
            for name in ("files", "coming"):
                (self._part / name).mkdir(parents=True, exist_ok=True)
            free = os.statvfs(self._part)
        left = count - self.here()
        room = free.f_bavail * free.f_frsize
        if left > room - RESERVE:
            raise CannotStore(
                f"{self.place.path} has room for {size(max(0, room - RESERVE))}, and "
                f"{size(left)} are to come. Make room, or give it another path"
            )

    def here(self) -> int:
        """Return the bytes that are there, those on their way too."""
        coming = self._part / "coming"
        paths = coming.iterdir() if coming.is_dir() else ()
        return self.done + sum(_size_of(path) or 0 for path in paths)

    def lacks(self, item: Item) -> bool:
        """Return whether a file is not whole."""
        return (item.path, item.version) not in self._known

    def bring(self, item: Item, give: Open) -> None:
        """Bring one file; raise CannotStore or web.CannotGet."""
        name = hashlib.sha256(f"{item.path}\0{item.version}".encode()).hexdigest()
        coming, target = self._part / "coming" / name, self._part / "files" / item.path
        count, digest = Download(item, coming, self.dataset.size).run(give)
        with of_disk():
            target.parent.mkdir(parents=True, exist_ok=True)
            coming.replace(target)
        self._note(Whole(item.path, count, digest, item.version))

    def _note(self, one: Whole) -> None:
        with self._lock:
            if self.done + one.size > self.dataset.size:
                raise CannotStore(f"it is larger than size = {size(self.dataset.size)}. Raise it")
            with of_disk(), (self._part / "whole").open("a", encoding="utf-8") as file:
                file.write(json.dumps(one) + "\n")
            self.whole.append(one)
            self._known.add((one.path, one.version))
            self.done += one.size

    def finish(self, wanted: set[str]) -> None:
        """Put the data set into its place in one step, with these files and no others."""
        with of_disk():
            self._drop_others(wanted)
            text = "".join(json.dumps(one) + "\n" for one in self.whole)
            _write(self.place.listing(self.dataset.id), text)
            for root, _folders, _names in os.walk(self._part / "files"):
                sync_folder(root)
            (self._part / "files").replace(self.place.whole(self.dataset.id))
            sync_folder(str(self.place.folder))
            self.place.switch(self.dataset.id)
        self.tell(READY, f"{size(self.here())} in {len(self.whole)} files")

    def _drop_others(self, wanted: set[str]) -> None:
        """Remove what an earlier listing had."""
        last = {one.path: one for one in self.whole}
        self.whole = [one for path, one in last.items() if path in wanted]
        self.done = sum(one.size for one in self.whole)
        files = self._part / "files"
        for root, _folders, names in os.walk(files, topdown=False):
            for name in names:
                path = Path(root, name)
                if str(path.relative_to(files)) not in wanted:
                    path.unlink()
            if Path(root) != files:
                with contextlib.suppress(OSError):
                    Path(root).rmdir()

    def progress(self, every: float = 2.0) -> None:
        """Write how far it is, at most once in so many seconds."""
        if time.monotonic() - self._written >= every:
            of = f" of {size(self.bytes)}" if self.bytes else ""
            self.tell(STAGING, f"{size(self.here())}{of} are here")

    def tell(self, state: str, says: str) -> None:
        """Write what it is at; what is no progress goes into the journal too."""
        if state != STAGING and (state, says) != (self.state, self.says):
            print(f"data set {self.dataset.name}: {state}: {says}", flush=True)
        self.state, self.says = state, says
        self._written = time.monotonic()
        with contextlib.suppress(OSError):
            _write(self._status, json.dumps(self._shown()))

    def _shown(self) -> dict[str, Any]:
        return {
            "name": self.dataset.name,
            "id": self.dataset.id,
            "state": self.state,
            "says": self.says,
            "files": len(self.whole),
            "files_of": self.files or len(self.whole),
            "bytes": self.here(),
            "bytes_of": self.bytes or self.here(),
            "at": time.time(),
        }


def _size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _lines(path: Path) -> list[Whole]:
    """Read a list of files; a line that a crash has cut is none."""
    found = []
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, TypeError):
                one = Whole(*json.loads(line))
                if is_plain(one.path):
                    found.append(one)
    return found


def _write(path: Path, text: str) -> None:
    trial = path.with_name(f".{path.name}.new")
    trial.write_text(text, encoding="utf-8")
    trial.replace(path)
