"""Looks at the fence in the checkpoint folder, as the run's user: a process that ends soon."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path

from ..decide import fence
from ..decide.fence import Claim, Mark
from . import fence_file
from .folder_facts import free_bytes, kind_of, place_of

# On a disk of its own no other machine can still be writing. All other kinds may be shared.
_OF_ONE_MACHINE = ("ext3", "ext4", "xfs", "btrfs", "overlay")


def main(words: list[str]) -> int:
    """Look, and take the folder over from another gang if asked to; print what was found."""
    asked = json.loads(words[0])
    path = Path(asked["path"])
    found = fence_file.read(path)
    error = ""
    mark = _take_over(found, asked["claim"] or {})
    if mark is not None:
        try:
            fence_file.write(path, mark)
            found = mark
        except OSError as trouble:
            error = f"{path}: {trouble.strerror}"
    shown = asdict(found) if found else None
    told = {"mark": shown, "free": free_bytes(path.parent), "error": error}
    told["place"] = place_of(path.parent)
    print(json.dumps({**told, "alone": kind_of(path.parent) in _OF_ONE_MACHINE}))
    return 0


def _take_over(found: Mark | None, claim: dict[str, object]) -> Mark | None:
    """Return the mark of a gang that takes over; every other one the program's parent writes."""
    given = claim.get("mark")
    mine = Mark.from_json(given) if isinstance(given, dict) else None
    if found is None or mine is None or found.owner == mine.owner:
        return None
    mine = replace(mine, at=time.time())
    return fence.claimed(found, Claim(mine, claim.get("is_new") is True, is_sure=False))
