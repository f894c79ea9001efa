"""Files in folders of the run's user: opened without being led elsewhere, or held up, by a link.

All of it runs with the user's rights: in the hand, in the program's parent, in the log's writer.
The parent needs little of it, and each start waits for the parent: so it imports little.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from ..decide.values import json_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any

_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST = 65536
_CONNECTS_IN = 1.0  # seconds


@contextlib.contextmanager
def opened(path: Path | str, flags: int) -> Iterator[int]:
    """Open a plain file that has no other name; raises OSError for anything else."""
    descriptor = os.open(str(path), flags | _PLAIN, 0o644)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise OSError(errno.EPERM, "not a plain file of its own")
        yield descriptor
    finally:
        os.close(descriptor)


def read(path: Path | str, limit: int, start: int = 0) -> bytes:
    """Return at most so many bytes; none when there is no such file."""
    try:
        with opened(path, os.O_RDONLY) as descriptor:
            return os.pread(descriptor, limit, start)
    except OSError:
        return b""


def load(path: Path | str) -> dict[str, Any] | None:
    """Return a small file's object; None when it is missing or broken."""
    return json_object(read(path, _MOST))


def tail(path: Path | str, limit: int) -> bytes:
    """Return the end of a file."""
    try:
        with opened(path, os.O_RDONLY) as descriptor:
            return os.pread(descriptor, limit, max(0, os.fstat(descriptor).st_size - limit))
    except OSError:
        return b""


def stamp(path: Path) -> list[int] | None:
    """Return inode, size and time of a file."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def glance(folder: Path, log: Path) -> dict[str, Any]:
    """Return at once what the agent looks at every second."""
    return {
        "program": load(folder / "program.json"),
        "result": load(folder / "result.json"),
        "health": load(folder / "log.json"),
        "checkpoints": load(folder / "checkpoints.json"),
        "times": load(folder / "times.json"),
        "said": stamp(folder / "progress.json"),
        "log": stamp(log),
    }


def create(path: Path, content: bytes) -> None:
    """Write a file in the place of an older one; raises OSError."""
    # Not at the top, as the program's parent, for which a start waits, writes none.
    from . import as_user

    as_user.write_plain(str(path), content)


def append(path: Path, data: bytes, limit: int, keep: int) -> None:
    """Add whole lines to a file, which is put aside when it is full; raises OSError."""
    with contextlib.suppress(OSError):
        size = path.lstat().st_size
        if size and size + len(data) > limit:
            rotate(path, keep)
    # A file of root's in the user's folder can be put aside, and never written.
    if path.exists() and not os.access(str(path), os.W_OK):
        rotate(path, keep)
    with opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor:
        size = os.fstat(descriptor).st_size
        # A machine that lost its power may have left half a line.
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            data = b"\n" + data
        if os.write(descriptor, data) < len(data):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with contextlib.suppress(OSError):
            os.fsync(descriptor)


def empty(path: Path) -> None:
    """Take all out of a file; raises OSError."""
    with opened(path, os.O_WRONLY) as descriptor:
        os.ftruncate(descriptor, 0)


def rotate(path: Path, keep: int) -> None:
    """Put a file aside, and drop the oldest of those that were."""
    numbered = [path.with_name(f"{path.name}.{number}") for number in range(1, keep + 1)]
    if not numbered:
        path.unlink()
        return
    with contextlib.suppress(FileNotFoundError):
        numbered[-1].unlink()
    for number in range(keep - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            numbered[number - 1].replace(numbered[number])
    path.replace(numbered[0])


def keep_newest(folder: Path, pattern: str, count: int) -> None:
    """Remove all but the newest files of a kind."""
    found = sorted(folder.glob(pattern), key=lambda path: path.lstat().st_mtime)
    for path in found[:-count]:
        path.unlink()


def remove(paths: Sequence[Path]) -> None:
    """Remove files, if they are there."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def make_folder(path: Path) -> None:
    """Make a folder, if it is not there."""
    path.mkdir(parents=True, exist_ok=True)


def listens(path: str) -> bool:
    """Return whether a server may listen on a socket; false where it is certain that none does."""
    import socket

    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(_CONNECTS_IN)
        try:
            trial.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True  # it does not answer, or is none: who needs it gets to know why
    return True
