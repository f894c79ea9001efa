"""Contents of objects as files: received under a temporary name, whole when they get a number."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import google_crc32c

# Bytes that are read or written at once.
CHUNK = 1 << 20


class Checksums:
    """Size, MD5 and CRC32C of bytes that pass."""

    def __init__(self) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._crc = 0
        self.size = 0

    def update(self, part: bytes) -> None:
        """Take the next bytes."""
        self._md5.update(part)
        self._crc = google_crc32c.extend(self._crc, part)
        self.size += len(part)

    @property
    def md5(self) -> str:
        """Return the MD5 in base64."""
        return base64.b64encode(self._md5.digest()).decode()

    @property
    def crc32c(self) -> str:
        """Return the CRC32C in base64."""
        return base64.b64encode(self._crc.to_bytes(4, "big")).decode()


class Received:
    """A file that is not yet an object's."""

    def __init__(self, path: Path, sums: Checksums) -> None:
        self.path, self.sums = path, sums


class Contents:
    """The files of a cloud's objects, below one folder.

    `durable`: they are synchronized to the disk before they count.
    """

    def __init__(self, root: Path, durable: bool) -> None:
        self._kept, self._incoming = root / "contents", root / "incoming"
        self._durable = durable
        for folder in (self._kept, self._incoming):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def receive(self, parts: Iterable[bytes]) -> Received:
        """Write a new file; nothing stays of it if the parts end with an error."""
        path, sums = self.incoming(secrets.token_hex(16)), Checksums()
        try:
            with path.open("wb") as out:
                for part in parts:
                    out.write(part)
                    sums.update(part)
                self._flush(out)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return Received(path, sums)

    def incoming(self, name: str) -> Path:
        """Return the path of a file that is being received."""
        return self._incoming / name

    def append(self, name: str, offset: int, parts: Iterable[bytes]) -> int:
        """Write parts to a received file from an offset on; return its size.

        What was written stays if the parts end with an error.
        """
        with self.incoming(name).open("r+b") as out:
            out.seek(offset)
            out.truncate()
            try:
                for part in parts:
                    out.write(part)
            finally:
                self._flush(out)
            return out.tell()

    def whole(self, name: str) -> Received:
        """Return a file that was received in several requests, with its checksums."""
        path, sums = self.incoming(name), Checksums()
        with path.open("rb") as source:
            for part in read(source):
                sums.update(part)
        return Received(path, sums)

    def keep(self, received: Received, number: int) -> None:
        """Give a received file a number; it keeps its own name until that is removed."""
        _link(received.path, self._path(number))

    def copy(self, number: int, new: int) -> None:
        """Give a content a second number; each has its own life."""
        _link(self._path(number), self._path(new))

    def open(self, number: int) -> BinaryIO:
        """Open a content; it can be read to its end even if it is dropped meanwhile."""
        return self._path(number).open("rb")

    def drop(self, number: int) -> None:
        """Remove a content."""
        self._path(number).unlink(missing_ok=True)

    def abandon(self, name: str) -> None:
        """Remove what was being received under a name, with all its parts."""
        for path in self._incoming.glob(f"{name}*"):
            path.unlink(missing_ok=True)

    def sweep(self, numbers: Collection[int], uploads: Collection[str]) -> None:
        """Remove what a server that was killed left: files that nothing refers to."""
        names = set(map(str, numbers))
        for path in self._kept.iterdir():
            if path.name not in names:
                path.unlink()
        for path in self._incoming.iterdir():
            if path.name.partition(".")[0] not in uploads:
                path.unlink()

    def _path(self, number: int) -> Path:
        return self._kept / str(number)

    def _flush(self, out: BinaryIO) -> None:
        out.flush()
        if self._durable:
            os.fsync(out.fileno())


def _link(path: Path, new: Path) -> None:
    try:
        os.link(path, new)
    except OSError as error:
        # A file system without them.
        if error.errno not in (errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        shutil.copyfile(path, new)


def read(source: BinaryIO, first: int = 0, size: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of an open file from an offset on, `size` of them or all."""
    source.seek(first)
    left = size
    while left is None or left > 0:
        part = source.read(CHUNK if left is None else min(CHUNK, left))
        if not part:
            return
        left = None if left is None else left - len(part)
        yield part
