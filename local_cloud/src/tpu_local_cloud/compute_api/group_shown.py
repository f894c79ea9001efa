"""A managed group of instances as Compute Engine shows it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..google.answers import fingerprint
from ..google.operations import link
from ..model.cloud import Cloud
from ..model.compute.records import GONE, status, statuses
from ..model.shared.clock import timestamp
from ..model.shared.records import NodeRecord
from .times import of_stamp

_ACTIONS = (
    *("none", "creating", "creatingWithoutRetries", "recreating", "refreshing", "restarting"),
    *("verifying", "deleting", "abandoning", "stopping", "suspending", "starting", "resuming"),
)
# In these states the bulk operation that creates all instances is in progress.
_IN_PROGRESS = ("PENDING", "CREATING")


def show(cloud: Cloud, node: NodeRecord) -> dict[str, Any]:
    """Return a group."""
    group, here = node.compute["group"], node.scope
    found = _statuses(cloud, node)
    version = {
        "instanceTemplate": group["template_link"],
        "targetSize": {"calculated": group["size"]},
    }
    return {
        **group["body"],
        "kind": "compute#instanceGroupManager",
        "id": node.uid,
        "creationTimestamp": of_stamp(node.created),
        "name": node.name,
        "baseInstanceName": group["base"],
        "targetSize": group["size"],
        "instanceTemplate": group["template_link"],
        "versions": [version],
        "instanceGroup": link(cloud, f"{here}/instanceGroups/{node.name}"),
        **_place(cloud, node),
        "selfLink": link(cloud, f"{here}/instanceGroupManagers/{node.name}"),
        "fingerprint": fingerprint([node.uid, group["size"]]),
        "listManagedInstancesResults": "PAGELESS",
        "currentActions": actions(node, found),
        "status": {
            "isStable": is_stable(node, found),
            "versionTarget": {"isReached": True},
            "stateful": {"hasStatefulConfig": False},
            "currentInstanceStatuses": dict(
                Counter(_field(each) or "nonExistent" for each in found)
            ),
            "bulkInstanceOperation": _bulk(node),
            **_topologies(node, found),
        },
    }


def managed_group(cloud: Cloud, node: NodeRecord) -> dict[str, Any]:
    """Return the instance group that a managed group has."""
    here = node.scope
    return {
        "kind": "compute#instanceGroup",
        "id": node.uid,
        "creationTimestamp": of_stamp(node.created),
        "name": node.name,
        "size": sum(1 for each in _statuses(cloud, node) if each),
        **_place(cloud, node),
        "selfLink": link(cloud, f"{here}/instanceGroups/{node.name}"),
    }


def _place(cloud: Cloud, node: NodeRecord) -> dict[str, str]:
    """Return the link to the zone or region that a group belongs to."""
    return {node.scope.split("s/")[0]: link(cloud, node.scope)}


def is_stable(node: NodeRecord, found: list[str]) -> bool:
    """Return whether the group changes nothing now."""
    return actions(node, found)["none"] == len(found) and node.state not in (
        *_IN_PROGRESS,
        "DELETING",
        "EMPTYING",
    )


def actions(node: NodeRecord, found: list[str]) -> dict[str, int]:
    """Return how many instances the group changes now, and how."""
    counted = Counter(_field(action_on(node, worker)) for worker in range(len(found)))
    return {name: counted.get(name, 0) for name in _ACTIONS}


def _field(action: str) -> str:
    first, *rest = action.lower().split("_")
    return first + "".join(word.capitalize() for word in rest)


def action_on(node: NodeRecord, worker: int) -> str:
    """Return what the group does with an instance now."""
    if node.state in _IN_PROGRESS:
        return "CREATING"
    if node.state in ("DELETING", "EMPTYING"):
        return "DELETING"
    if node.state == "RESTARTING":
        return "RESTARTING"
    own = node.machines[worker].get("status", "")
    return {"PROVISIONING": "RECREATING", "STAGING": "STARTING"}.get(own, "NONE")


def managed(cloud: Cloud, node: NodeRecord, worker: int) -> dict[str, Any]:
    """Return an instance as its group lists it; its link exists before it does."""
    machine, group = node.machines[worker], node.compute["group"]
    current = _statuses(cloud, node)[worker]
    path = f"zones/{node.zone}/instances/{machine['name']}"
    shown: dict[str, Any] = {
        "instance": link(cloud, path),
        "name": machine["name"],
        "currentAction": action_on(node, worker),
        "targetStatus": "RUNNING",
        "version": {"instanceTemplate": group["template_link"]},
        "lastAttempt": {},
    }
    if current:
        shown |= {"id": machine["id"], "instanceStatus": current}
    if "progress" in group:
        shown["lastAttempt"] = {"errors": {"errors": [_error(group["progress"])]}}
    ends = node.compute.get("ends")
    if ends is not None:
        shown["scheduling"] = {"terminationTimestamp": timestamp(ends)}
    return shown


def errors(cloud: Cloud, node: NodeRecord) -> list[dict[str, Any]]:
    """Return the errors of the group's instances, the newest first."""
    group = node.compute["group"]
    return [
        {
            "error": {"code": each["code"], "message": each["message"]},
            "instanceActionDetails": {
                "instance": link(cloud, f"zones/{node.zone}/instances/{each['instance']}"),
                "action": "CREATING",
                "version": {"instanceTemplate": group["template_link"]},
            },
            "timestamp": of_stamp(each["timestamp"]),
        }
        for each in reversed(group.get("errors", []))
    ]


def _statuses(cloud: Cloud, node: NodeRecord) -> list[str]:
    return statuses(node, node.state == "CREATING" and cloud.compute.staging(node))


def _error(told: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key != "timestamp"}


def _bulk(node: NodeRecord) -> dict[str, Any]:
    shown: dict[str, Any] = {"inProgress": node.state in _IN_PROGRESS}
    told = node.compute["group"].get("progress")
    if told:
        shown["lastProgressCheck"] = {
            "timestamp": told["timestamp"],
            "error": {"errors": [_error(told)]},
        }
    return shown


def _topologies(node: NodeRecord, found: list[str]) -> dict[str, Any]:
    """Return the state of the topology, which a group without a policy does not have."""
    if not node.compute["group"]["policy"] or not found:
        return {}
    one = {"acceleratorTopology": node.compute["topology"], "state": _topology(node, found)}
    return {"appliedAcceleratorTopologies": [one]}


def _topology(node: NodeRecord, found: list[str]) -> str:
    if node.state in _IN_PROGRESS:
        return "ACTIVATING"
    if node.state in ("DELETING", "EMPTYING"):
        return "DEACTIVATING"
    if node.state == "RESTARTING":
        return "REACTIVATING"
    lost = [worker for worker in range(len(found)) if status(node, worker) != "RUNNING"]
    if lost:
        own = {node.machines[worker].get("status") for worker in lost}
        return "REACTIVATING" if own <= {"PROVISIONING", "STAGING"} - {GONE} else "INCOMPLETE"
    return "ACTIVE_DEGRADED" if node.health.startswith("UNHEALTHY") else "ACTIVE"
