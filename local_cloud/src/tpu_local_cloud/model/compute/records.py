"""How an instance or a group of instances is read from its record.

`compute` holds what only Compute Engine knows:

machineType, topology; properties: what the client asked of an instance, or in a template;
operation: the insertion that runs until a waiting instance is granted; not_after, waits_since: by
the cloud's time; held, granted: by the cloud's owner; ends: when the run duration is over;
started, stopped: the last times. Of a group, in `group`: base, size, template, policy, body,
errors, progress, repairs.

Each machine has its name, id, labels and metadata, and a status if it differs from the others;
tags, and the name of its access configuration, once a client has changed them. A group of a region
has `region` in `group`; the record's zone is the one in which its instances are.
"""

from __future__ import annotations

from typing import Any

from ..shared.records import NodeRecord

# Compute's word for each state of a record.
STATUSES = {
    "PENDING": "PENDING",
    "CREATING": "PROVISIONING",
    "READY": "RUNNING",
    "RESTARTING": "REPAIRING",
    "STOPPING": "STOPPING",
    "STOPPED": "TERMINATED",
    "STARTING": "STAGING",
    "DELETING": "STOPPING",
    "EMPTYING": "STOPPING",
    "PREEMPTED": "TERMINATED",
    "TERMINATED": "TERMINATED",
    "UNKNOWN": "REPAIRING",
}
# The status of an instance of a group that does not exist.
GONE = "gone"
# The name of the configuration of an external address, if the client gives none.
ACCESS = "external-nat"
# In these states a record uses no capacity.
IDLE = ("PENDING", "EMPTY", "STOPPED", "TERMINATED", "PREEMPTED")


def scheduling(node: NodeRecord) -> dict[str, Any]:
    """Return how an instance is scheduled."""
    found: dict[str, Any] = node.compute["properties"].get("scheduling") or {}
    return found


def seconds(duration: Any) -> float | None:
    """Return the length of a duration; None if it is absent."""
    if not isinstance(duration, dict):
        return None
    return float(duration.get("seconds") or 0) + float(duration.get("nanos") or 0) / 1e9


def run_seconds(node: NodeRecord) -> float | None:
    """Return how long it may run; None without a limit."""
    return seconds(scheduling(node).get("maxRunDuration"))


def is_deleted_at_end(node: NodeRecord) -> bool:
    """Return whether its termination deletes it, or stops it."""
    return scheduling(node).get("instanceTerminationAction") == "DELETE"


def repairs(node: NodeRecord) -> bool:
    """Return whether its group makes lost instances again."""
    return bool(node.compute.get("group", {}).get("repairs"))


def status(node: NodeRecord, worker: int, staging: bool = False) -> str:
    """Return the status of an instance; empty if it does not exist."""
    own = str(node.machines[worker].get("status", ""))
    if own:
        return "" if own == GONE else own
    if node.is_group and node.state in ("PENDING", "EMPTY"):
        return ""
    if node.state == "CREATING" and staging:
        return "STAGING"
    return STATUSES.get(node.state, "RUNNING")


def statuses(node: NodeRecord, staging: bool = False) -> list[str]:
    """Return the status of each instance of a record."""
    return [status(node, worker, staging) for worker in range(len(node.machines))]


def tags(node: NodeRecord, worker: int) -> list[str]:
    """Return the network tags of an instance."""
    asked = (node.compute["properties"].get("tags") or {}).get("items") or []
    return list(node.machines[worker].get("tags", asked))


def access(node: NodeRecord, worker: int) -> str:
    """Return the name of the configuration of its external address; empty without one."""
    cards = node.compute["properties"].get("networkInterfaces") or [{}]
    configs = cards[0].get("accessConfigs") or []
    asked = str(configs[0].get("name") or ACCESS) if configs else ""
    return str(node.machines[worker].get("access", asked))


def publishes(node: NodeRecord, worker: int, project: dict[str, str]) -> bool:
    """Return whether an instance may publish guest attributes."""
    own = node.machines[worker].get("metadata", {})
    said = own.get("enable-guest-attributes", project.get("enable-guest-attributes", ""))
    return str(said).upper() in ("TRUE", "YES", "Y", "1")
