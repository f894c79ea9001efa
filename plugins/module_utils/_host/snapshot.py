"""Which files of a folder are its code, and a reproducible archive of them. Private."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .unpack import link_target

MARKER = ".tpu-fleet-snapshot.json"
MAX_BYTES = 256 << 20
"""The most bytes of a folder, unless its declaration says otherwise."""
_LEVEL = 1
"""How hard to compress: more takes ten times as long, each time, for a fifth of the size."""
_NEVER = frozenset({".git", "__pycache__", ".venv", "venv", ".mypy_cache", ".ruff_cache"})
# Accept a folder of another user, as in a container, but run none of the programs it configures.
TRUSTING = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false")
_NEVER_ALSO = frozenset({".pytest_cache", ".ipynb_checkpoints", ".DS_Store", ".tox", MARKER})


class SnapshotError(Exception):
    """The folder cannot be packed; the text has the reason."""


@dataclass(frozen=True)
class Entry:
    """One file or link."""

    path: str
    kind: str  # file | link
    executable: bool
    identity: str  # hash of the content, or the link's target
    size: int

    def line(self) -> str:
        """Return the entry's line in the listing."""
        mark = "x" if self.executable else "-"
        return f"{self.identity[:16]:16} {mark} {self.path}"


def left_out(name: str) -> bool:
    """Return whether files and folders of this name are never part of the code."""
    return name in _NEVER or name in _NEVER_ALSO


def list_files(folder: Path) -> tuple[list[str], list[str]]:
    """Return the paths that belong to the code, and warnings."""
    if not folder.is_dir():
        raise SnapshotError(f"{folder} is not a folder")
    tracked, warnings = _ask_git(folder)
    found = _walk(folder) if tracked is None else tracked
    kept = []
    for path in sorted(set(found)):
        if any(left_out(part) for part in path.split("/")):
            continue
        full = folder / path
        if full.is_symlink() or full.is_file():
            kept.append(path)
        elif full.is_dir():
            warnings.append(f"{path} is a separate repository and is left out")
    if not kept:
        raise SnapshotError(f"{folder} has no files to pack")
    return kept, warnings


def _ask_git(folder: Path) -> tuple[list[str] | None, list[str]]:
    try:
        # There is no module here whose run_command could be called.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            ["git", *TRUSTING, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=str(folder),
            capture_output=True,
            check=False,
        )
    except OSError:
        return None, []
    if done.returncode == 0:
        names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
        return (names, []) if names else (None, [])
    text = os.fsdecode(done.stderr).strip()
    if "not a git repository" in text:
        return None, []
    return None, [f"git does not list what {folder} ignores, so nothing is ignored: {text}"]


def _walk(folder: Path) -> list[str]:
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NEVER]
        here = Path(root).relative_to(folder)
        links = [name for name in folders if Path(root, name).is_symlink()]
        found += [(here / name).as_posix() for name in [*names, *links]]
    return found


def describe(folder: Path, paths: list[str]) -> list[Entry]:
    """Return an entry for each file."""
    entries = []
    for path in paths:
        full = folder / path
        if full.is_symlink():
            entries.append(Entry(path, "link", False, link_target(full), 0))
            continue
        data = full.read_bytes()
        executable = bool(full.stat().st_mode & 0o100)
        digest = hashlib.sha256(data).hexdigest()
        entries.append(Entry(path, "file", executable, digest, len(data)))
    return entries


def digest_of(entries: list[Entry]) -> str:
    """Return the hash of the entries, which does not depend on place and time."""
    listing = [[e.path, e.kind, e.executable, e.identity] for e in entries]
    return hashlib.sha256(json.dumps(listing).encode("utf-8", "surrogateescape")).hexdigest()


def pack(folder: Path, entries: list[Entry], digest: str) -> bytes:
    """Return the archive of a folder."""
    return pack_of(lambda entry: (folder / entry.path).read_bytes(), entries, digest)


def pack_of(read: Callable[[Entry], bytes], entries: Iterable[Entry], digest: str) -> bytes:
    """Return the archive; its marker comes last, so that an archive with it is complete.

    `read` returns the content of a file. Equal files make an equal archive, here and on a worker.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _fill(archive, read, entries, digest)
    return gzip.compress(buffer.getvalue(), _LEVEL, mtime=0)


def _fill(
    archive: tarfile.TarFile,
    read: Callable[[Entry], bytes],
    entries: Iterable[Entry],
    digest: str,
) -> None:
    for entry in entries:
        member = tarfile.TarInfo(entry.path)
        if entry.kind == "link":
            member.type = tarfile.SYMTYPE
            member.linkname = entry.identity
            archive.addfile(member)
            continue
        data = read(entry)
        if hashlib.sha256(data).hexdigest() != entry.identity:
            raise SnapshotError(f"{entry.path} changed while it was packed; try again")
        member.mode = 0o755 if entry.executable else 0o644
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    marker = json.dumps({"digest": digest}).encode()
    member = tarfile.TarInfo(MARKER)
    member.mode = 0o644
    member.size = len(marker)
    archive.addfile(member, io.BytesIO(marker))


def description(name: str, entries: Iterable[Entry], digest: str) -> bytes:
    """Return what is kept beside an archive: its digest, and its files."""
    lines = [entry.line() for entry in entries]
    text = json.dumps({"digest": digest, "name": name, "files": lines}, indent=2)
    return (text + "\n").encode("utf-8", "surrogateescape")


def refuse_too_much(entries: list[Entry], limit: int) -> None:
    """Name the largest files of a folder that is no longer code alone."""
    total = sum(entry.size for entry in entries)
    if total > limit:
        largest = sorted(entries, key=lambda entry: -entry.size)[:3]
        names = ", ".join(f"{entry.path} ({entry.size:,} bytes)" for entry in largest)
        raise SnapshotError(
            f"the folder holds {total:,} bytes, more than max_bytes {limit:,}. "
            f"The largest: {names}. Name them in .gitignore"
        )


def keep(target: Path, name: str, folder: Path, entries: list[Entry], digest: str) -> None:
    """Write archive and description of a folder, each in one step."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    _replace(target / f"{name}.tar.gz", pack(folder, entries, digest))
    _replace(target / f"{name}.json", description(name, entries, digest))


def _replace(path: Path, data: bytes) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(data)
    new.replace(path)
