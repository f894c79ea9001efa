# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files by the hash of their content: what arrived whole is there, and nothing else ever is."""

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
    """A file cannot be kept, with the reason and the remedy in words."""


class Store:
    """A folder of files that are called what they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return where a file is, or would be."""
        if not _NAME.fullmatch(name):
            raise StoreError(f"{name!r} is no SHA-256")
        return self.folder / name

    def missing(self, names: Iterable[str]) -> List[str]:
        """Return those of the names that are not here yet, each once."""
        return [name for name in dict.fromkeys(names) if not self.path(name).is_file()]

    def receive(self, stream: BinaryIO, name: str, size: int) -> None:
        """Take a file of so many bytes from a stream; it is kept only whole and as it is called."""
        target = self.path(name)
        # The mode is only the last one's; and whoever may open the lock beside it can hold it.
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        # Of this process alone: two controllers may send the same file at once.
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
                raise StoreError(f"what arrived is {digest.hexdigest()}, not {name}")
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
        """Remove all other files, and what interrupted transfers left."""
        kept = set(names)
        with contextlib.suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                if path.name not in kept and path.is_file():
                    path.unlink()
