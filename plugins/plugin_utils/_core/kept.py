# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep on this computer what takes long to make, until it is made of something else.

Private to tpu.fleet. What is kept is the cache of one user, as Python's bytecode is: it is taken
from a plain file that this user alone can write.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ...module_utils._core.cache_folder import cache_folder
from ...module_utils._host.state import write_atomically

_SUM = hashlib.sha256().digest_size


def folder(environment: Mapping[str, str]) -> Path:
    """Return where things are kept."""
    return cache_folder(environment) / "kept"


def kept(
    name: str,
    parts: Iterable[bytes],
    make: Callable[[], bytes],
    holds: Callable[[bytes], bool] = lambda _content: True,
) -> bytes:
    """Return what `make` makes of these parts, and of nothing else; it is made once.

    `name` says what it is, and of which checkout: one version is kept of each name. What depends on
    more than the parts has that in it, and is kept only as long as `holds` accepts it.
    """
    key = _key(parts)
    where = folder(os.environ) / hashlib.sha256(name.encode()).hexdigest()
    content = _read(where, key)
    if content is None or not holds(content):
        content = make()
        # Without it, everything is made each time.
        with contextlib.suppress(OSError):
            _write(where, key, content)
    return content


def _key(parts: Iterable[bytes]) -> bytes:
    """Return a hash of the parts, each with its length."""
    found = hashlib.sha256()
    for part in parts:
        found.update(b"%d " % len(part))
        found.update(part)
    return found.digest()


def _read(path: Path, key: bytes) -> bytes | None:
    """Return what is kept under this key; nothing that another user could have written."""
    try:
        with open(path, "rb", opener=_opener) as stream:
            data = stream.read() if _is_own(os.fstat(stream.fileno())) else b""
    except OSError:
        return None
    checksum, content = data[_SUM : 2 * _SUM], data[2 * _SUM :]
    if data[:_SUM] != key or hashlib.sha256(content).digest() != checksum:
        return None
    return content


def _opener(path: str, flags: int) -> int:
    """Open a file without being led elsewhere by a link, or held up by a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _is_own(there: os.stat_result) -> bool:
    """Return whether it is a plain file of this user's that has no other name."""
    is_plain = stat.S_ISREG(there.st_mode) and there.st_nlink == 1
    return is_plain and there.st_uid == os.geteuid() and not there.st_mode & 0o022


def _write(path: Path, key: bytes, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = key + hashlib.sha256(content).digest() + content
    write_atomically(path, data, mode=0o600, uid=os.geteuid(), gid=os.getegid())
