# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run has left on its worker: log, status, results, checkpoints. Private to tpu.fleet.

An entry has three parts: the folder to copy to, the folder to copy from, and the name in both.
These places belong to the run's user, so root looks at them, and has them copied, only as the user.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any, NamedTuple

from .as_user import account_of, as_user
from .runs import RunFiles

SECONDS = 500.0
"""The time limit of a look into all folders of a run; the task's own is longer."""
MOST_BYTES = 1 << 26
ORIGINS = "code"
"""The folder beside a run's status that says where each version that it was given comes from."""


class Entry(NamedTuple):
    """A file or folder that a run has left."""

    to: str
    base: str
    name: str


def goes_with_the_machine(folder: str) -> bool:
    """Return whether a folder is on the machine's own disk: no other disk, share or bucket."""
    try:
        own = os.stat("/").st_dev == os.stat(folder).st_dev  # noqa: PTH116
        return folder.startswith("/") and own
    except OSError:
        return False


def place_of(workdir: str, declared: str) -> Entry:
    """Return where a declared result is, and its name in the folder of results."""
    path = os.path.normpath(Path(workdir, declared))
    inside = os.path.relpath(path, workdir) if workdir else ".."
    if Path(declared).is_absolute() or inside.startswith(".."):
        return Entry("results/", "/", path.lstrip("/"))
    return Entry("results/", workdir, inside)


def path_of(entry: Entry) -> Path:
    """Return the path of an entry."""
    return Path(entry.base, entry.name)


def files(entry: Entry) -> list[Entry]:
    """Return all plain files of an entry; links are left out, because they may lead anywhere."""
    found = [path_of(entry)]
    if stat.S_ISDIR(_mode(found[0])):
        found = [
            Path(folder, one) for folder, _folders, there in os.walk(found[0]) for one in there
        ]
    plain = sorted(path for path in found if stat.S_ISREG(_mode(path)))
    return [entry._replace(name=os.path.relpath(path, entry.base)) for path in plain]


def _mode(path: Path) -> int:
    """Return the kind of a file; 0 if it is not there, or somewhere its user does not get to."""
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def left_by(
    run: str, declared: list[str], one_by_one: bool, everything: bool = False, root: str = "/"
) -> dict[str, Any]:
    """Return what exists: single files if they are fetched one by one, or if there is no rsync.

    With `everything`, this includes the run's checkpoints if they are on the machine's own disk and
    would be lost with it. `user` is who may read it: an account that is gone can do no harm.
    """
    there = RunFiles(root)
    status = there.status(run)
    user = str(status.get("user") or "")
    user = user if account_of(user) else "root"
    workdir, saved = (str(status.get(key) or "") for key in ("workdir", "checkpoint_dir"))
    rsync = shutil.which("rsync") is not None and not one_by_one

    def look() -> tuple[list[Entry], list[str]]:
        own = [
            Entry("", str(there.logs / run), "."),
            Entry("", str(there.states / run), "status.json"),
            Entry("", str(there.states / run), ORIGINS),
        ]
        left = [entry for entry in own if _is_there(entry)]
        missing = []
        for path in declared if left else []:
            # A relative path has no meaning without a working folder.
            entry = place_of(workdir, path) if workdir or Path(path).is_absolute() else None
            if entry and _is_there(entry):
                left.append(entry)
            else:
                missing.append(path)
        if left and everything and goes_with_the_machine(saved):
            left.append(place_of("", saved))
        return left if rsync else [file for entry in left for file in files(entry)], missing

    left, missing = as_user(user, look, seconds=SECONDS, most_bytes=MOST_BYTES)
    known = {one.name for place in (there.states, there.logs) for one in place.glob("[!.]*")}
    return {
        "runs": sorted(known),
        "user": user,
        "rsync": rsync,
        "left": left,
        "missing": missing,
    }


def _is_there(entry: Entry) -> bool:
    """Return whether this user gets to an entry."""
    return os.access(path_of(entry), os.F_OK)


def absent(run: str, answers: list[dict[str, Any]], succeeded: bool) -> str:
    """Say what no worker has of a run: all of it, or of one that succeeded a declared result.

    Often only worker 0 writes results. A run that failed may have none.
    """
    if not any(answer["left"] for answer in answers):
        there = sorted({name for answer in answers for name in answer["runs"]})
        return f"There is no run {run}. There is {', '.join(there) or 'none at all'}."
    lacking = [set(answer["missing"]) for answer in answers]
    nowhere = ", ".join(sorted(set.intersection(*lacking))) if succeeded else ""
    return nowhere and (
        f"{run} has finished and left no {nowhere}. Correct `results` of the run; "
        "or fetch by hand what it left, then: tpu-fleet slice delete NAME"
    )
