# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The present state of a worker: what was applied, its runs with their ends, and who uses it.

The watcher sends this file, with `runs`, unchanged to a worker, so it needs only Python 3.8.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from .chip_holders import holders, user_name
from .run_end import end_of, shows_its_end
from .runs import RunFiles, read_json

SHOWN = (
    "run", "state", "reason", "attempt", "run_id", "worker", "workers", "exit_code", "signal",
    "step", "step_at", "first_step", "first_step_at", "loss", "loss_trouble", "saved_at", "since",
    "start", "end", "queue", "boot_id", "user", "problems", "log_path",
    "checkpoints_on", "declared", "submitted", "stopped_by", "bad_chips",
)  # fmt: skip
# The title of sshd's process for a login: the user and the terminal. Any process can take this
# title, so it counts only below a process of root's that runs sshd itself.
SERVES = re.compile(r"sshd(?:-session)?: ([^ @]+)@(\S+)")
SSHD = re.compile(r"/usr/(?:s?bin|lib|libexec)/(?:openssh/)?sshd(?:-session)?(?: \(deleted\))?")
TITLE = 300
"""Bytes of a command line that are read: a user's may have megabytes."""
MOST = 100
"""Logins, and processes that hold a chip, that are named; the others are counted."""
FILES = 300_000
"""Open files that are looked at: a user's processes may have many millions."""


def with_its_end(logs: Path, status: dict[str, Any]) -> dict[str, Any]:
    """Return the shown part of a run's status; if it has ended, with the end of its log."""
    run = {name: status.get(name) for name in SHOWN}
    return {**run, **(end_of(logs, status) if shows_its_end(status) else {})}


def processes(proc: Path) -> dict[int, tuple[int, str, str]]:
    """Return parent, name and command line of each process."""
    found = {}
    for folder in proc.glob("[0-9]*"):
        try:
            # The name may contain blanks and parentheses.
            name, _end, rest = (folder / "stat").read_text(errors="replace").rpartition(")")
            with (folder / "cmdline").open("rb") as stream:
                title = stream.read(TITLE)
            words = title.replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended
        found[int(folder.name)] = (int(rest.split()[1]), name.partition("(")[2], words.strip())
    return found


def people(proc: Path, there: dict[int, tuple[int, str, str]]) -> list[str]:
    """Return who is logged in: on a terminal, by mosh, or with a running program (an editor)."""
    ours = set()
    pid = os.getpid()
    while pid in there and pid not in ours:
        ours.add(pid)
        pid = there[pid][0]
    parents = {parent for parent, _name, _words in there.values()}
    found = set()
    for pid, (parent, name, words) in there.items():
        serves = SERVES.match(words)
        if serves and pid not in ours and (serves[2] != "notty" or pid in parents):
            on = "" if serves[2] == "notty" else f" on {serves[2]}"
            found |= {f"{serves[1]} is logged in{on}"} if is_sshd(proc / str(parent)) else set()
        elif name == "mosh-server":
            try:
                uid = (proc / str(pid)).stat().st_uid
                found.add(f"{user_name(uid)} is logged in by mosh")
            except OSError:
                continue
    return cut(sorted(found), "logins")


def is_sshd(process: Path) -> bool:
    """Return whether a process runs sshd's own program, as root and for no other user."""
    try:
        program = os.readlink(process / "exe")  # noqa: PTH115 - pathlib has it since 3.9
        lines = (process / "status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    users = next((line.split()[1:] for line in lines if line.startswith("Uid:")), [])
    return set(users) == {"0"} and SSHD.fullmatch(program) is not None


def cut(found: list[str], what: str) -> list[str]:
    """Return the first entries, and how many others there are."""
    more = len(found) - MOST
    return [*found[:MOST], f"{more} more {what}"] if more > 0 else found


def chips_in_use(root: Path, there: dict[int, tuple[int, str, str]]) -> list[str]:
    """Return the processes that have a chip open.

    Beyond FILES open files, the processes that are left count as one that may have.
    """
    found, unseen = holders(root, FILES)
    named = ((one, there[one.pid][1]) for one in found if one.pid in there)
    shown = [f"process {one.pid} ({name}) of {one.user} holds a chip" for one, name in named]
    rest = [f"{unseen} processes with too many open files to look at"] if unseen else []
    return [*cut(shown, "processes hold a chip"), *rest]


def standing(root: str | Path = "/") -> dict[str, Any]:
    """Return the state of the worker."""
    files, proc = RunFiles(root), Path(root, "proc")
    applied = read_json(Path(root, "var/lib/tpu-fleet/state.json")).get("applied") or {}
    text = json.dumps(applied, sort_keys=True).encode()
    there = processes(proc)
    return {
        "now": time.time(),
        "boot_id": files.boot_id(),
        "runs": [with_its_end(files.logs, one) for one in files.begun()],
        "set_up": bool(applied),
        "applied": hashlib.sha256(text).hexdigest()[:16],
        "used": people(proc, there) + chips_in_use(Path(root), there),
    }


def main() -> int:
    """Print the state of the worker."""
    sys.stdout.write(json.dumps(standing()) + "\n")
    return 0
