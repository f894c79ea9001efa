"""Tell what a run left on this worker: what_a_run_left.py RUN RESULTS-IN-JSON [--files] [--all].

Each entry of "left" is three words: into which folder it is brought, from which folder, and its
name in both. With --files, or where there is no rsync, it is plain files. With --all the run's
checkpoints are among it, where they are on the machine's own disk and would go with it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

STATE = Path("/var/lib/tpu-fleet/runs")
SPARE = Path("/run/tpu-fleet/runs")  # where the agent writes while the disk is full
LOGS = Path("/var/log/tpu-fleet/runs")


class Entry(NamedTuple):
    """Something that was left."""

    to: str
    base: str
    name: str


def said_of(run: str, what: str) -> str:
    """Return what the run agent says: the folder that the program works in, or saves in."""
    newest: dict[str, Any] = {}
    for folder in (SPARE, STATE):
        try:
            status = json.loads((folder / run / "status.json").read_text(encoding="utf-8"))
            if not newest or status.get("serial", 0) > newest.get("serial", 0):
                newest = status
        except (OSError, ValueError, AttributeError, TypeError):
            continue
    return str(newest.get(what) or "")


def goes_with_the_machine(folder: str) -> bool:
    """Say whether a folder is on the machine's own disk: no other disk, no share, no bucket."""
    try:
        own = os.stat("/").st_dev == os.stat(folder).st_dev  # noqa: PTH116
        return folder.startswith("/") and own
    except OSError:
        return False


def place_of(workdir: str, declared: str) -> Entry:
    """Say where a declared result is, and how it is called in the folder of results."""
    path = os.path.normpath(Path(workdir, declared))
    inside = os.path.relpath(path, workdir) if workdir else ".."
    if Path(declared).is_absolute() or inside.startswith(".."):
        return Entry("results/", "/", path.lstrip("/"))
    return Entry("results/", workdir, inside)


def path_of(entry: Entry) -> Path:
    """Return where it is."""
    return Path(entry.base, entry.name)


def files(entry: Entry) -> list[Entry]:
    """Return all plain files of a place; links may lead anywhere."""
    found = [path_of(entry)]
    if found[0].is_dir() and not found[0].is_symlink():
        found = [
            Path(folder, one) for folder, _folders, there in os.walk(found[0]) for one in there
        ]
    plain = sorted(path for path in found if path.is_file() and not path.is_symlink())
    return [entry._replace(name=os.path.relpath(path, entry.base)) for path in plain]


def look(
    run: str, declared: list[str], one_by_one: bool, everything: bool = False
) -> dict[str, object]:
    """Say what there is."""
    workdir, saved = said_of(run, "workdir"), said_of(run, "checkpoint_dir")
    own = [Entry("", str(LOGS / run), "."), Entry("", str(STATE / run), "status.json")]
    left = [entry for entry in own if path_of(entry).exists()]
    missing = []
    for path in declared if left else []:
        # Without a working folder nobody knows what a relative path means.
        entry = place_of(workdir, path) if workdir or Path(path).is_absolute() else None
        if entry and path_of(entry).exists():
            left.append(entry)
        else:
            missing.append(path)
    if left and everything and goes_with_the_machine(saved):
        left.append(place_of("", saved))
    rsync = shutil.which("rsync") is not None and not one_by_one
    return {
        "runs": sorted({one.name for place in (STATE, LOGS) for one in place.glob("*")}),
        "rsync": rsync,
        "left": left if rsync else [file for entry in left for file in files(entry)],
        "missing": missing,
    }


if __name__ == "__main__":
    options = ["--files" in sys.argv, "--all" in sys.argv]
    print(json.dumps(look(sys.argv[1], json.loads(sys.argv[2]), *options)))
