"""A folder of this computer as it is now: its files by their hash, and what git says of it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._host import snapshot
from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import read_json

MOST_OF_DIFF = 200_000
"""Characters of the difference to the commit; the rest is left out."""
GIT_SECONDS = 10.0


@dataclass(frozen=True)
class Version:
    """What a folder holds."""

    folder: Path
    entries: list[snapshot.Entry]
    digest: str
    warnings: Sequence[str]

    def lines(self) -> list[list[Any]]:
        """Return the entries as they are sent."""
        return [[e.path, e.kind, e.executable, e.identity, e.size] for e in self.entries]

    def packed(self, wanted: Sequence[str]) -> bytes:
        """Return contents, one after the other, compressed."""
        paths = {entry.identity: entry.path for entry in self.entries if entry.kind == "file"}
        missing = [identity for identity in wanted if identity not in paths]
        if missing:
            raise ValueError(f"a worker asks for {missing[0]}, which the folder does not have")
        return zlib.compress(
            b"".join(self._content(identity, paths[identity]) for identity in wanted)
        )

    def _content(self, identity: str, path: str) -> bytes:
        data = (self.folder / path).read_bytes()
        if hashlib.sha256(data).hexdigest() != identity:
            raise ValueError(f"{path} changed while it was sent; sync again")
        return data


def version_of(folder: Path) -> Version:
    """Read a folder; raise SnapshotError or OSError with the reason why it cannot be packed."""
    paths, warnings = snapshot.list_files(folder)
    entries = snapshot.describe(folder, paths)
    snapshot.refuse_too_much(entries, snapshot.MAX_BYTES)
    return Version(folder, entries, snapshot.digest_of(entries), warnings)


def looked_at(folder: Path) -> list[tuple[Any, ...]]:
    """Return what changes whenever a file of the folder is saved, without reading the files."""
    found: list[tuple[Any, ...]] = []
    try:
        paths = snapshot.list_files(folder)[0]
    except (OSError, snapshot.SnapshotError) as error:
        return [(str(error),)]
    for path in paths:
        with contextlib.suppress(OSError):
            there = (folder / path).lstat()
            found.append((path, there.st_mtime_ns, there.st_size, there.st_ino, there.st_mode))
    return found


def keep(version: Version, target: Path, name: str) -> None:
    """Write the archive of a version, as a playbook would, if it is not there."""
    before = read_json(target / f"{name}.json")
    if before.get("digest") != version.digest or not (target / f"{name}.tar.gz").is_file():
        snapshot.keep(target, name, version.folder, version.entries, version.digest)


def origin_of(folder: Path) -> dict[str, Any]:
    """Return the commit, and how the folder differs from it; empty without a git repository.

    To compare files, git runs the filters that a repository configures. So the difference of a
    repository of another user is left out, unless git itself trusts that (safe.directory).
    """
    commit = _git(folder, *snapshot.TRUSTING, "rev-parse", "HEAD").strip()
    if not commit:
        return {}
    branch = _git(folder, *snapshot.TRUSTING, "symbolic-ref", "--quiet", "--short", "HEAD")
    found: dict[str, Any] = {"commit": commit, "branch": branch.strip()}
    if not _git(folder, "rev-parse", "HEAD"):
        return found
    changed = _git(folder, "status", "--porcelain", "--", ".")
    found["dirty"] = bool(changed.strip())
    if changed:
        new = [line[3:] for line in changed.splitlines() if line.startswith("??")]
        whole = _git(folder, "diff", "--no-color", "--no-ext-diff", "HEAD", "--", ".")
        diff = whole[:MOST_OF_DIFF]
        found.update(diff=diff, new_files=new[:1000], diff_left_out=len(whole) - len(diff))
    return found


def _git(folder: Path, *words: str) -> str:
    """Return what git says; nothing if it fails, or takes long."""
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *words],
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
