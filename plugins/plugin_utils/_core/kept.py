# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what is made of files on this computer until one of them changes. Private to tpu.fleet.

A changed file has another ctime, which no user can set. What is kept is the cache of one user, as
Python's bytecode is: it is taken from a file that this user alone can write.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

# A file that was changed so few seconds ago may change again within one tick of its ctime.
FRESH = 2.0
_SUM = hashlib.sha256().digest_size


def folder(environment: Mapping[str, str]) -> Path:
    """Return where things are kept."""
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "tpu-fleet/kept"


def kept(name: str, files: Iterable[Path], make: Callable[[], bytes]) -> bytes:
    """Return what `make` made of these files, or have it made where one of them has changed.

    `name` says what it is, and of which checkout: one version is kept of each name.
    """
    key, is_fresh = _facts(files)
    where = folder(os.environ) / hashlib.sha256(name.encode()).hexdigest()
    content = _read(where, key)
    if content is None:
        content = make()
        if not is_fresh:
            # Without it, everything is made each time.
            with contextlib.suppress(OSError):
                _write(where, key, content)
    return content


def _facts(files: Iterable[Path]) -> tuple[bytes, bool]:
    """Return a hash of all that changes with the files, and whether one has just changed."""
    latest, facts = 0, hashlib.sha256()
    for path in files:
        found = path.stat()
        latest = max(latest, found.st_ctime_ns)
        seen = (found.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns)
        facts.update(repr((str(path), *seen)).encode())
    return facts.digest(), latest > time.time_ns() - FRESH * 1e9


def _read(path: Path, key: bytes) -> bytes | None:
    """Return what is kept under this key; nothing that another user could have written."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    with open(file, "rb") as stream:
        there = os.fstat(file)
        if there.st_uid != os.geteuid() or stat.S_IMODE(there.st_mode) & 0o022:
            return None
        data = stream.read()
    checksum, content = data[_SUM : 2 * _SUM], data[2 * _SUM :]
    if data[:_SUM] != key or hashlib.sha256(content).digest() != checksum:
        return None
    return content


def _write(path: Path, key: bytes, content: bytes) -> None:
    """Replace what is kept; a reader sees the old or the new."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "wb") as stream:
            stream.write(key + hashlib.sha256(content).digest() + content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
