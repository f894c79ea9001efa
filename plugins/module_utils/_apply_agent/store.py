# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files by the hash of their content; a file is there complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from pathlib import Path
from typing import BinaryIO, Iterable, List

_CHUNK = 1 << 16
_NAME = re.compile(r"[0-9a-f]{64}")


class StoreError(Exception):
    """A file cannot be stored; the text has the reason and the remedy."""


class Store:
    """A folder of files that are named by their SHA-256."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return the path of a file, whether or not it exists."""
        if not _NAME.fullmatch(name):
            raise StoreError(f"{name!r} is not a SHA-256")
        return self.folder / name

    def missing(self, names: Iterable[str]) -> List[str]:
        """Return the names that are not stored yet, each once."""
        return [name for name in dict.fromkeys(names) if not self.path(name).is_file()]

    def receive(self, stream: BinaryIO, name: str, size: int) -> None:
        """Store `size` bytes of a stream, if they are complete and have the hash in the name."""
        target = self.path(name)
        # mkdir gives the mode only to the last folder; a user who can open the lock could hold it.
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        # The process id is in the name, because two controllers may send the same file at once.
        part = target.with_name(f".{name}.{os.getpid()}")
        digest = hashlib.sha256()
        try:
            with part.open("wb") as out:
                part.chmod(0o600)
                left = size
                while left:
                    chunk = stream.read(min(left, _CHUNK))
                    if not chunk:
                        raise StoreError(
                            f"only {size - left} of {size} bytes arrived: the connection was lost"
                        )
                    digest.update(chunk)
                    out.write(chunk)
                    left -= len(chunk)
                out.flush()
                os.fsync(out.fileno())
            if digest.hexdigest() != name:
                raise StoreError(f"the received file has the hash {digest.hexdigest()}, not {name}")
            part.replace(target)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreError(
                    f"{self.folder} has no room for {size} bytes. Make room on the host, for "
                    "example with: sudo journalctl --vacuum-size=200M; sudo apt-get clean"
                ) from error
            raise StoreError(f"{target} cannot be written: {error}") from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink()

    def keep(self, names: Iterable[str]) -> None:
        """Remove all other files, and the rest of interrupted transfers."""
        kept = set(names)
        with contextlib.suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                if path.name not in kept and path.is_file():
                    path.unlink()
