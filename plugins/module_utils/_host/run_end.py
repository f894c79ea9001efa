# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a run: what its event log says of it, and the last lines of its log.

Both files belong to the run's user. A reader without access gets the status alone.
Commands and the watcher send this file unchanged to a worker, so it needs only Python 3.8.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from .run_states import ENDED, RESTARTING

LINES = 60
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def last_lines(path: Path, most: int) -> list[str]:
    """Return the last complete lines of a file, of up to `most` bytes.

    The file belongs to a user: it may be a link to another user's file, or an endless pipe.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return []
        stream.seek(max(0, found.st_size - most))
        lines = stream.read(most).decode("utf-8", "replace").split("\n")
    return lines[1:] if found.st_size > most else lines


def shown(lines: list[str]) -> list[str]:
    """Return lines as a terminal would finally show them, without colours."""
    plain = [COLOURS.sub("", line).rstrip("\r").rpartition("\r")[2].rstrip() for line in lines]
    return [line[:500] for line in plain if line][-LINES:]


def last_event(logs: Path, run: str, name: str) -> dict[str, Any]:
    """Return the last event of a name in a run's log of events."""
    found: dict[str, Any] = {}
    for line in last_lines(logs / run / "events.jsonl", 1 << 18):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and event.get("event") == name:
            found = bounded(event)
    return found


def bounded(event: dict[str, Any]) -> dict[str, Any]:
    """Return the shown part of an event, in which the run's user may have written anything."""
    reason, tail = event.get("reason"), event.get("tail")
    lines = tail.split("\n") if isinstance(tail, str) else tail
    lines = [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
    said = {"event": event["event"], "tail": shown(lines)}
    return {**said, "reason": reason[:500]} if isinstance(reason, str) else said


def shows_its_end(status: dict[str, Any]) -> bool:
    """Return whether a run has ended, or is about to be tried again because its program failed."""
    failed = status.get("exit_code") not in (0, None) or bool(status.get("signal"))
    return status.get("state") in ENDED or (status.get("state") == RESTARTING and failed)


def end_of(logs: Path, status: dict[str, Any]) -> dict[str, Any]:
    """Return the event with which a run ended, and the last lines of its log."""
    run, state = str(status.get("run")), status.get("state")
    event = last_event(logs, run, f"run-{state}") if state in ENDED else {}
    if event.get("tail"):
        return {"event": event}
    return {"event": event, "tail": shown(last_lines(logs / run / "run.log", 1 << 15))}


FEW, NARROW = 12, 300
"""Lines, and characters of a line, where all runs are listed."""
ALTOGETHER = 256 * 1024
"""Bytes of the ends of all runs."""


class Ends:
    """The ends of the runs of a worker; each is read once for each status of its run."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._known: dict[str, tuple[Any, dict[str, Any]]] = {}

    def added(self, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return statuses of runs with their ends."""
        size, found = 0, []
        for run in runs:
            end = self._of(run) if shows_its_end(run) else {}
            size += len(json.dumps(end)) if end else 0
            found.append({**run, **end} if size <= ALTOGETHER else run)
        return found

    def _of(self, run: dict[str, Any]) -> dict[str, Any]:
        name, now = str(run.get("run")), (run.get("serial"), run.get("state"))
        before, end = self._known.get(name, (None, {}))
        if before != now:
            end = end_of(self.logs, run)
            lines = end.get("tail") or end["event"].get("tail") or []
            end["event"].pop("tail", None)
            end["tail"] = [line[:NARROW] for line in lines[-FEW:]]
            self._known[name] = (now, end)
        return end
