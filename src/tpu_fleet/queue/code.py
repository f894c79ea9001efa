"""The code of submitted runs: a folder of this computer as it is now, packed once by its hash."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._host import snapshot
from ansible_collections.tpu.fleet.plugins.module_utils._host.unpack import leads_out, link_target

from ..show.figures import amount, size
from ..workers.sync.folder import origin_of

MOST_SHOWN = 12
"""Changed files that are named."""


@dataclass(frozen=True)
class Frozen:
    """A folder's files, packed."""

    folder: Path
    sha: str
    """SHA-256 of the archive."""
    data: bytes
    """The archive."""
    origin: dict[str, Any]
    """What git says of it, as `origin_of` returns it; empty without git."""
    warnings: Sequence[str] = ()

    def summary(self) -> str:
        """Return which code it is, in a few words: its commit, what differs from it, its size."""
        commit = str(self.origin.get("commit") or "")
        parts = [commit[:7] if commit else f"of {self.folder.name or self.folder}"]
        changed = len(self.changes())
        if changed:
            parts.append(f"+ {amount(changed, 'changed file')}")
        elif not commit:
            parts.append("(no commit)")
        return f"code {' '.join(parts)}, {size(len(self.data))}, frozen as {self.sha[:8]}"

    def changes(self) -> list[str]:
        """Return the files that differ from the commit, each with its added and removed lines."""
        new = [f"?? {name}" for name in self.origin.get("new_files") or ()]
        return [*changed_in(str(self.origin.get("diff") or "")), *new]

    def change_lines(self) -> list[str]:
        """Return what is printed of the changes; the rest is counted."""
        found = self.changes()
        more = len(found) - MOST_SHOWN
        return found[:MOST_SHOWN] + ([f"and {amount(more, 'more file')}"] if more > 0 else [])


def changed_in(diff: str) -> list[str]:
    """Return the files of a difference as git writes it, each with its count of lines."""
    found = []
    for part in re.split(r"(?m)^diff --git ", diff)[1:]:
        head, _newline, body = part.partition("\n")
        lines = body.splitlines()
        added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
        removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
        found.append(f" M {head.rpartition(' b/')[2]} +{added} -{removed}")
    return found


def freeze(folder: Path, without: Sequence[Path] = ()) -> Frozen:
    """Pack a folder without what git ignores, and without these folders.

    Raises SnapshotError or OSError with the reason why it cannot be packed.
    """
    paths, warnings = snapshot.list_files(folder)
    kept, left = _apart(folder, paths, without)
    if not kept:
        raise snapshot.SnapshotError(f"{folder} has only files of the fleet")
    entries = snapshot.describe(folder, kept)
    snapshot.refuse_too_much(entries, snapshot.MAX_BYTES)
    data = snapshot.pack(folder, entries, snapshot.digest_of(entries))
    sha, origin = hashlib.sha256(data).hexdigest(), origin_of(folder)
    return Frozen(folder, sha, data, origin, [*warnings, *left])


def _apart(
    folder: Path, paths: Sequence[str], without: Sequence[Path]
) -> tuple[list[str], list[str]]:
    """Return what is packed, and a warning for each folder and link that is left out.

    A machine refuses an archive with a link that leads out of its folder.
    """
    here = folder.resolve()
    out = [one.resolve() for one in without]
    names = [one.relative_to(here).as_posix() for one in out if one.is_relative_to(here)]
    kept = [path for path in paths if not any(_is_below(path, name) for name in names)]
    told = [
        f"{name}/ is left out of the code"
        for name in names
        if any(_is_below(path, name) for path in paths)
    ]
    out_of_it = [path for path in kept if _leads_out(folder / path, path)]
    told += [
        f"{path} is left out of the code: it is a link that leads out of the folder"
        for path in out_of_it
    ]
    return [path for path in kept if path not in out_of_it], told


def _leads_out(full: Path, path: str) -> bool:
    return full.is_symlink() and leads_out(path, link_target(full))


def _is_below(path: str, folder: str) -> bool:
    return folder == "." or path == folder or path.startswith(f"{folder}/")
