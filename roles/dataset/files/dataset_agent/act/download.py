"""Bring one file onto the disk: from where it was broken off, checked before it counts."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from ..decide.listing import UNKNOWN, Item, size
from . import web
from .checks import Check

_BLOCK = 1 << 20
_TRIES = 5
_PAUSE, _LONGEST_PAUSE = 1.0, 30.0

Open = Callable[[Item, int], AbstractContextManager[web.Reading]]


class CannotStore(Exception):
    """The disk does not take it, or the file is not what it has to be; the text says which."""


@contextlib.contextmanager
def of_disk() -> Iterator[None]:
    """Turn the errors of a disk into CannotStore."""
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise CannotStore(f"{where}{error.strerror or error}") from None


class Download:
    """One file on its way to a path."""

    def __init__(self, item: Item, target: Path, most: int, pause: float | None = None) -> None:
        """Take at most so many bytes of a file whose size is not known."""
        self._item, self._target = item, target
        self._pause = _PAUSE if pause is None else pause
        self._bound = most if item.size == UNKNOWN else item.size

    def run(self, give: Open) -> tuple[int, str]:
        """Return bytes and SHA-256 of the whole file; raise CannotStore or web.CannotGet.

        It is asked for again as long as each time more of it comes.
        """
        failed, before = 0, -1
        while True:
            try:
                return self._attempt(give)
            except web.Refused:
                raise
            except web.CannotGet:
                here = self._here()
                failed = 1 if here > before else failed + 1
                before = here
                if failed >= _TRIES:
                    raise
            time.sleep(min(_LONGEST_PAUSE, self._pause * 2 ** (failed - 1)))

    def _here(self) -> int:
        return self._target.stat().st_size if self._target.exists() else 0

    def _attempt(self, give: Open) -> tuple[int, str]:
        offset, check = self._here(), Check(self._item)
        if self._item.size == UNKNOWN or offset > self._item.size:
            offset = 0
        if offset == self._item.size and self._target.exists():
            check.take(self._kept(offset))
        else:
            with give(self._item, offset) as reading:
                check.take(self._kept(reading.offset))
                check.take(self._stored(self._blocks(reading)))
        self._judge(check)
        return self._here(), check.sha256

    def _kept(self, offset: int) -> Iterator[bytes]:
        """Yield what an earlier attempt has brought; what is beyond the offset goes."""
        with of_disk(), self._target.open("a+b") as file:
            file.truncate(offset)
            file.seek(0)
            while block := file.read(_BLOCK):
                yield block

    def _blocks(self, reading: web.Reading) -> Iterator[bytes]:
        left = self._bound - reading.offset
        while block := reading.stream.read(_BLOCK):
            left -= len(block)
            if left < 0:
                raise CannotStore(
                    f"{self._item.path}: it is larger than {size(self._bound)}. Raise size, or "
                    "correct its source"
                )
            yield block

    def _stored(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        with of_disk():
            file = self._target.open("ab")
        with file:
            for block in blocks:
                with of_disk():
                    file.write(block)
                yield block
            with of_disk():
                file.flush()
                os.fsync(file.fileno())

    def _judge(self, check: Check) -> None:
        """Refuse what is not the file that was listed, and forget it; one that is cut comes on."""
        if self._item.size != UNKNOWN and self._here() < self._item.size:
            raise web.CannotGet(f"{self._item.path}: the server ended before the file did")
        wrong = check.wrong()
        if wrong:
            self._target.unlink()
            raise CannotStore(f"{self._item.path}: {wrong}")
