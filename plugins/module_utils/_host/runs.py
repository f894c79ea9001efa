# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runs of a worker, from the files of its run agents; only this module reads these files.

Commands and the watcher send this file unchanged to a worker, and the role tpu_metrics puts it
beside its program, so it needs only Python 3.8.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .run_states import (
    ENDED,
    FAILED,
    NOT_BACK,
    NOT_STARTED,
    PENDING,
    RUNNING,
    STOPPED,
    SUCCEEDED,
)

BACK = {RUNNING, SUCCEEDED}
FRESH = 12.0
"""Seconds for which a state is new: a restart takes some, and so does a look at environments."""
LOG_LEAST = 1 << 29
"""A log may be from a time in which its run was declared to keep more."""
MARK = "stopped.json"
"""The file in a run's state folder that keeps its agent from starting; `tpu-fleet stop` writes it.

It has `by`, who stopped the run, and `at`, when.
"""
SUBMITTED = "submitted.json"
"""The file in a run's state folder by which a submitted run is known, also after its end."""
AGENT = b"tpu_fleet_run.py\0agent\0"
"""In the command line of an agent."""
MOST_GONE = 200
"""Runs without a definition that are listed, the newest: a queue brings thousands to a machine."""
LONG = ("history", "peers", "loss_watch")  # left out where all runs are listed


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if the file is missing or broken."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def newest(paths: Iterable[Path]) -> tuple[Path, dict[str, Any]]:
    """Return path and content of the newest status; the content is empty if there is none.

    While the disk is full, the agent writes to memory instead.
    """
    return max(((path, read_json(path)) for path in paths), key=lambda one: _serial(one[1]))


def _serial(status: dict[str, Any]) -> float:
    serial = status.get("serial", 0)
    return serial if status and isinstance(serial, (int, float)) else -1


def fullest_disk(mounts: Path) -> dict[str, Any]:
    """Return mount point and used percent of the fullest disk of this machine.

    Shares and buckets are left out: to ask them may block for ever.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found = []
    for device, point, kind, options, *_rest in (line.split(" ", 5) for line in lines):
        # The root is the machine's own, whatever its device is called. A loop device is a file of
        # another disk.
        is_disk = device.startswith("/dev/") and not device.startswith("/dev/loop")
        ours = is_disk or point == "/"
        # What is read-only is always full.
        if ours and "rw" in options.split(",") and not kind.startswith("fuse"):
            seen = used_percent(point)
            found += [] if seen is None else [(seen, point)]
    percent, point = max(found, default=(0, ""))
    return {"point": point, "percent": percent} if found else {}


def used_percent(point: str) -> int | None:
    """Return how much of a disk is used, of what a user may use."""
    try:
        seen = os.statvfs(point)
        # Containers mount single files too.
        if not Path(point).is_dir():
            return None
    except OSError:
        return None
    used = seen.f_blocks - seen.f_bfree
    return round(100 * used / (used + seen.f_bavail)) if used + seen.f_bavail else None


class RunFiles:
    """The files of all runs of a worker."""

    def __init__(self, root: str | Path = "/") -> None:
        top = Path(root)
        self.states = top / "var/lib/tpu-fleet/runs"
        self.spare = top / "run/tpu-fleet/runs"  # holds the status while the disk is full
        self.definitions = top / "etc/tpu-fleet/runs"
        self.logs = top / "var/log/tpu-fleet/runs"
        self.mounts = top / "proc/self/mounts"
        self.processes = top / "proc"
        self.boot = top / "proc/sys/kernel/random/boot_id"

    def status(self, run: str) -> dict[str, Any]:
        """Return the newest status of a run; empty if the agent has written none."""
        return newest(place / run / "status.json" for place in (self.states, self.spare))[1]

    def definition(self, run: str) -> dict[str, Any]:
        """Return the definition of a run."""
        return read_json(self.definitions / f"{run}.json")

    def log_limit(self, run: str) -> int:
        """Return how many bytes the log of a run has at most, but not less than LOG_LEAST."""
        log = self.definition(run).get("log") or {}
        return max(LOG_LEAST, int(log.get("bytes", 0)) * (int(log.get("files", 0)) + 1))

    def told(self, run: str) -> dict[str, Any]:
        """Return a summary of a run: its status, or its definition if it has none."""
        status = self.status(run)
        if status:
            told = {key: value for key, value in status.items() if key not in LONG}
            submitted = self.is_submitted(run)
            there = self.is_declared(run) or submitted
            told = told if there else {**told, "declared": False}
            told = {**told, "submitted": True} if submitted else told
            return {**told, **self._held(run, told)}
        declared = self.definition(run)
        if declared:
            told = {"run": run, "user": declared.get("user", ""), "state": NOT_STARTED}
            return {**told, **self._held(run, told)}
        return {}

    def mark(self, run: str) -> Path:
        """Return the path of the file that keeps a run stopped."""
        return self.states / run / MARK

    def stopped_by(self, run: str) -> str:
        """Return who keeps a run stopped; empty if it may run."""
        if not self.mark(run).exists():
            return ""
        by = read_json(self.mark(run)).get("by")
        return by if isinstance(by, str) and by else "an unknown person"

    def has_left(self, run: str) -> bool:
        """Return whether a submitted run was here, and its files are removed."""
        return self.is_submitted(run) and not self.is_declared(run)

    def is_submitted(self, run: str) -> bool:
        """Return whether a run came out of the queue, whose agent alone starts and removes it."""
        return (self.states / run / SUBMITTED).exists()

    def _held(self, run: str, told: dict[str, Any]) -> dict[str, Any]:
        """Return state and reason of a run that is kept stopped, also if it ended otherwise."""
        by = self.stopped_by(run)
        if not by:
            return {}
        if told.get("state") in ENDED:
            return {"stopped_by": by}
        reason = f"{by} stopped it; to start it: tpu-fleet start {run}"
        # After a power failure the status is that of before, and no agent corrects it.
        stopped = {} if self._agent_lives(told) else {"state": STOPPED}
        return {"reason": reason, "stopped_by": by, **stopped}

    def _agent_lives(self, told: dict[str, Any]) -> bool:
        try:
            words = (self.processes / str(told.get("agent_pid")) / "cmdline").read_bytes()
        except OSError:
            return False
        return AGENT in words

    def is_declared(self, run: str) -> bool:
        """Return whether a run has its definition; true where that cannot be seen."""
        may_look = os.access(str(self.definitions), os.X_OK)
        return not may_look or (self.definitions / f"{run}.json").exists()

    def declared(self) -> list[str]:
        """Return the names of the runs that are declared here."""
        paths = self.definitions.glob("*.json")
        return sorted(path.stem for path in paths if not path.name.endswith(".env.json"))

    def names(self) -> list[str]:
        """Return the names of all runs of this worker."""
        found = {
            path.parent.name
            for place in (self.states, self.spare)
            for path in place.glob("*/status.json")
        }
        return sorted(found.union(self.declared()))

    def listed(self) -> list[str]:
        """Return the names of the declared runs, and of the newest of those that are gone."""
        declared = set(self.declared())
        gone = [run for run in self.names() if run not in declared]
        if len(gone) > MOST_GONE:
            gone = sorted(gone, key=self._written)[-MOST_GONE:]
        return sorted(declared.union(gone))

    def _written(self, run: str) -> float:
        """Return when the status of a run was written."""
        paths = [place / run / "status.json" for place in (self.states, self.spare)]
        return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)

    def boot_id(self) -> str:
        """Return the id of the present boot."""
        return self.boot.read_text(encoding="ascii").strip()

    def all_told(self) -> dict[str, Any]:
        """Return the summaries of the runs, with the present time, boot id and fullest disk."""
        found = [told for told in map(self.told, self.listed()) if told]
        told = {"now": time.time(), "boot_id": self.boot_id(), "runs": found}
        disk = fullest_disk(self.mounts)
        return {**told, "disk": disk} if disk else told

    def begun(self) -> list[dict[str, Any]]:
        """Return all runs that were started; the others would be created again by a playbook."""
        return [one for one in self.all_told()["runs"] if one.get("state") != NOT_STARTED]

    def state_now(self, run: str) -> str:
        """Return the state of a run since the present boot."""
        told = self.told(run)
        # After a reboot, the file has the old state until the agent is up again.
        if told.get("state") == RUNNING and told.get("boot_id") != self.boot_id():
            return NOT_BACK
        return str(told.get("state", "not there"))

    def is_back(self, run: str) -> bool:
        """Return whether a run is where it should be: one that waits for another run's chips is.

        So is one that a person keeps stopped.
        """
        state = self.state_now(run)
        if state == STOPPED:
            return bool(self.stopped_by(run))
        return state in BACK or (state == PENDING and bool(self.told(run).get("queue")))

    def is_between(self, run: str, now: float) -> bool:
        """Return whether a run has just been started or changed, and soon is in another state."""
        told, state = self.told(run), self.state_now(run)
        if state == FAILED:
            # Its agent tries again with another environment, and looks every few seconds.
            return now - self._environments_changed() < FRESH
        if state in (RUNNING, SUCCEEDED, STOPPED) or told.get("queue"):
            return False
        return now - (told.get("since") or 0.0) < FRESH

    def idle(self, now: float) -> list[dict[str, Any]] | None:
        """Return the declared runs that do not run and have not succeeded, each with the reason.

        None if one of them is between two states.
        """
        runs = [run for run in self.declared() if not self.is_submitted(run)]
        if any(self.is_between(run, now) for run in runs):
            return None
        states = {run: self.state_now(run) for run in runs}
        return [
            {"run": run, "state": state, "reason": self.told(run).get("reason") or ""}
            for run, state in states.items()
            if state not in BACK
        ]

    def status_files(self) -> list[Path]:
        """Return where the agents of the declared runs write what they do."""
        places = (self.states, self.spare)
        return [place / run / "status.json" for run in self.declared() for place in places]

    def _environments_changed(self) -> float:
        paths = (self.states.parent / "venvs").glob("*.json")
        return max((path.stat().st_mtime for path in paths), default=0.0)

    def workdirs(self) -> set[str]:
        """Return the working folders of all runs, also of those that are not started."""
        places = [place / run for run in self.names() for place in (self.states, self.spare)]
        files = [place / "status.json" for place in places]
        files += [self.definitions / f"{run}.json" for run in self.declared()]
        found = (read_json(path).get("workdir") for path in files)
        return {folder for folder in found if isinstance(folder, str) and folder}
