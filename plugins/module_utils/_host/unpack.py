# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpack an archive of files, and compute the git tree id of a folder. Private to tpu.fleet."""

from __future__ import annotations

import hashlib
import os
import posixpath
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

MOST_BYTES = 256 << 20


class Unfit(Exception):
    """The archive cannot be used; the text has the reason."""


def unpack(stream: IO[bytes], folder: Path, strip: int = 0) -> None:
    """Unpack files, folders and links into an empty folder; refuse any that lead out of it."""
    total = 0
    try:
        with tarfile.open(fileobj=stream, mode="r:*") as archive:
            for member in archive:
                name = _inside(member.name, strip)
                if name is None:
                    continue
                target = folder / name
                _check_way(folder, name)
                if member.isdir():
                    target.mkdir(mode=0o755, parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                if member.issym():
                    _check_link(name, member.linkname)
                    target.symlink_to(member.linkname)
                elif member.isreg():
                    total += member.size
                    if total > MOST_BYTES:
                        raise Unfit(f"it holds more than {MOST_BYTES >> 20} MiB")
                    _write(archive.extractfile(member), target, bool(member.mode & 0o100))
                else:
                    raise Unfit(f"{member.name} is not a file, folder or link")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Unfit(f"it cannot be unpacked: {error}") from None


def _inside(name: str, strip: int) -> str | None:
    words = [word for word in name.split("/") if word not in ("", ".")]
    if name.startswith("/") or ".." in words:
        raise Unfit(f"{name} leads out of the folder")
    return "/".join(words[strip:]) or None


def _check_way(folder: Path, name: str) -> None:
    """Raise Unfit for what would be written through a link: several may lead out together."""
    if any((folder / above).is_symlink() for above in PurePosixPath(name).parents):
        raise Unfit(f"{name} is behind a link")


def _check_link(name: str, target: str) -> None:
    """Raise Unfit for a link that leads out."""
    if leads_out(name, target):
        raise Unfit(f"link {name} leads out of the folder, to {target}")


def leads_out(name: str, target: str) -> bool:
    """Return whether a link of a folder leads out of it."""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return target.startswith("/") or place == ".." or place.startswith("../")


def _write(source: IO[bytes] | None, target: Path, program: bool) -> None:
    if source is None:
        raise Unfit(f"{target.name} has no content")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    with os.fdopen(os.open(str(target), flags, 0o755 if program else 0o644), "wb") as sink:
        while True:
            data = source.read(1 << 20)
            if not data:
                break
            sink.write(data)


def link_target(path: str | Path) -> str:
    """Return a link's target exactly as it is written; Path.readlink would normalize it."""
    return os.readlink(path)  # noqa: PTH115


def tree_id(folder: Path) -> str:
    """Return git's tree id of a folder, which does not depend on how the files were packed."""
    return _tree(folder).hex()


def _tree(folder: Path) -> bytes:
    found = []
    for entry in os.scandir(folder):
        name = os.fsencode(entry.name)
        if entry.is_symlink():
            found.append((name, b"120000", _blob(os.fsencode(link_target(entry.path)))))
        elif entry.is_dir():
            # Git has no empty folders, and sorts a folder as if its name ended with a slash.
            if any(os.scandir(entry.path)):
                found.append((name + b"/", b"40000", _tree(Path(entry.path))))
        else:
            mode = b"100755" if entry.stat().st_mode & 0o100 else b"100644"
            found.append((name, mode, _blob(Path(entry.path).read_bytes())))
    body = b"".join(
        mode + b" " + name.rstrip(b"/") + b"\0" + digest for name, mode, digest in sorted(found)
    )
    return _object(b"tree", body)


def _blob(content: bytes) -> bytes:
    return _object(b"blob", content)


def _object(kind: bytes, body: bytes) -> bytes:
    # Git's object ids are SHA-1.
    return hashlib.sha1(kind + b" %d\0" % len(body) + body).digest()  # noqa: S324
