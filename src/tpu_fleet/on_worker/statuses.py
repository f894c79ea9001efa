"""The runs of a worker, as its agent describes them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

STATE = Path("/var/lib/tpu-fleet/runs")
SPARE = Path("/run/tpu-fleet/runs")  # where a status is while the disk is full
DEFINITIONS = Path("/etc/tpu-fleet/runs")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

ENDED = ("succeeded", "failed")
LONG = ("history", "peers")  # what nobody needs to know about all runs at once


def read_json(path: Path) -> dict[str, Any]:
    """Return a file's object; nothing when it is missing or broken."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def status_of(run: str) -> dict[str, Any]:
    """Return what the agent wrote about a run, or what was declared when it wrote nothing."""
    both = [read_json(folder / run / "status.json") for folder in (STATE, SPARE)]
    status = max(both, key=lambda one: one.get("serial", 0) if one else -1)
    if status:
        return {key: value for key, value in status.items() if key not in LONG}
    declared = read_json(DEFINITIONS / (run + ".json"))
    if declared:
        return {"run": run, "user": declared.get("user", ""), "state": "not started"}
    return {}


def names() -> list[str]:
    """Return the names of all runs of this worker."""
    found = {path.parent.name for place in (STATE, SPARE) for path in place.glob("*/status.json")}
    for path in DEFINITIONS.glob("*.json"):
        if not path.name.endswith(".env.json"):
            found.add(path.stem)
    return sorted(found)


def list_runs() -> dict[str, Any]:
    """Return all runs, and by which clock and since which boot they are told."""
    found = [status for status in map(status_of, names()) if status]
    return {"now": time.time(), "boot_id": BOOT_ID.read_text().strip(), "runs": found}
