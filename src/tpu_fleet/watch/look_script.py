"""What a worker is asked. It reads this from its input, with its own python3: 3.8 and later."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from pathlib import Path
from typing import Any

RUNS = Path("/var/lib/tpu-fleet/runs")
LOGS = Path("/var/log/tpu-fleet/runs")
STATE = Path("/var/lib/tpu-fleet/state.json")
BOOT = Path("/proc/sys/kernel/random/boot_id")
ENDED = {"failed": "run-failed", "succeeded": "run-succeeded"}
SHOWN = (
    "run", "state", "reason", "attempt", "run_id", "worker", "workers", "exit_code", "signal",
    "step", "step_at", "since", "end", "queue", "boot_id", "user",
)  # fmt: skip
LINES = 60
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def last_lines(path: Path, most: int) -> list[str]:
    """Return the last lines of a file, whole ones, of so many bytes at most.

    The file is a user's: it may be a link to what is not theirs, or a pipe that never ends.
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
    """Return lines as a terminal would show them in the end, without colours."""
    plain = [COLOURS.sub("", line).rstrip("\r").rpartition("\r")[2].rstrip() for line in lines]
    return [line[:500] for line in plain if line][-LINES:]


def last_event(run: str, name: str) -> dict[str, Any]:
    """Return the last event of a name in a run's log of events."""
    found: dict[str, Any] = {}
    for line in last_lines(LOGS / run / "events.jsonl", 1 << 18):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("event") == name:
            found = event
    return found


def read_runs() -> list[dict[str, Any]]:
    """Return how the runs of this worker stand; of those that ended, the end of their logs."""
    runs = []
    for path in sorted(RUNS.glob("*/status.json")):
        try:
            status = json.loads(path.read_text(encoding="utf-8"))
            run = {name: status.get(name) for name in SHOWN}
        except (OSError, ValueError, AttributeError):
            continue
        if run["state"] in ENDED:
            event = last_event(path.parent.name, ENDED[run["state"]])
            run["event"] = event
            if not event.get("tail"):
                run["tail"] = shown(last_lines(LOGS / path.parent.name / "run.log", 1 << 15))
        runs.append(run)
    return runs


def main() -> None:
    """Print it."""
    try:
        set_up = bool(json.loads(STATE.read_text(encoding="utf-8")).get("applied"))
    except (OSError, ValueError, AttributeError):
        set_up = False
    boot = BOOT.read_text(encoding="ascii").strip()
    said = {"boot_id": boot, "set_up": set_up, "now": time.time(), "runs": read_runs()}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
