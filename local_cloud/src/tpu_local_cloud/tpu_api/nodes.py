"""Methods for nodes: each function answers one method."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..model.cloud import Cloud
from ..model.shared import schema
from ..model.shared.records import NodeRecord, OperationRecord
from .call import Call
from .lists import zoned_page


def list_nodes(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the nodes of a zone, or of all."""
    now = cloud.clock.now()
    nodes = [node for node in cloud.nodes_in(call.zone) if node.visible_from <= now]
    return zoned_page(cloud, call, nodes, "nodes", lambda n: cloud.render(n, call.version))


def get_node(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one node."""
    node = cloud.node(call.zone, call.id)
    now = cloud.clock.now()
    hidden = cloud.faults.hit("not_found_after_create", now, **cloud.place(node))
    if hidden or now < node.visible_from:
        raise errors.not_found(node.resource(cloud.project))
    return cloud.render(node, call.version)


def create_node(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin to create a node."""
    body = call.parse("Node", "node")
    name = call.argument("nodeId")
    return cloud.create(call.zone, name, body, call.version, call.argument("requestId"))


def delete_node(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin to delete a node."""
    return cloud.delete(call.zone, call.id, call.version, call.argument("requestId"))


def patch_node(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin to update a node."""
    body = call.parse("Node", "node")
    names = [name.strip() for name in call.argument("updateMask").split(",") if name.strip()]
    mask = [".".join(schema.snake(part) for part in name.split(".")) for name in names]
    return cloud.update(call.zone, call.id, body, mask, call.version)


def stop_node(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin to stop a node."""
    call.parse("Empty", "")
    return cloud.stop(call.zone, call.id, call.version)


def start_node(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin to start a node."""
    call.parse("Empty", "")
    return cloud.start(call.zone, call.id, call.version)


def guest_attributes(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return what the workers published, in the order of their numbers."""
    body = call.parse("GetGuestAttributesRequest", "")
    node = cloud.node(call.zone, call.id)
    path = body.get("queryPath", "")
    # gcloud sends one empty id for "all".
    asked = [worker for worker in body.get("workerIds", []) if worker]
    try:
        workers = [int(worker) for worker in asked] or list(range(len(node.machines)))
        found = [attributes_of(cloud, node, worker, path) for worker in workers]
        if cloud.faults.hit("guest_attributes_empty", cloud.clock.now(), **cloud.place(node)):
            return {}
    except (ValueError, IndexError):
        raise errors.bad_request(f"worker ids {asked} are not those of the node.") from None
    return {"guestAttributes": found}


def attributes_of(cloud: Cloud, node: NodeRecord, worker: int, path: str) -> dict[str, Any]:
    """Return what a worker published at a path: a namespace, or a namespace and a key."""
    where, now = {**cloud.place(node), "worker": str(worker)}, cloud.clock.now()
    if worker < 0 or worker >= len(node.machines):
        raise IndexError(worker)
    if cloud.faults.hit("guest_attributes_missing", now, **where):
        return {}
    # By default, the first worker is the only one whose agent is already running.
    partial = cloud.faults.hit("guest_attributes_partial", now, **where)
    options = partial.options if partial else {}
    lacking = worker > 0 if partial and not options else bool(partial)
    if "workers" in options:
        lacking = str(worker) in _words(options["workers"])
    if lacking and "keys" not in options:
        return {}
    missing = _words(options["keys"]) if lacking else []
    namespace, _, key = path.partition("/")
    items = [
        {"namespace": space, "key": name, "value": value}
        for space, values in sorted(node.guest[worker].items())
        for name, value in sorted(values.items())
        if namespace in ("", space) and key in ("", name) and name not in missing
    ]
    return {"queryPath": path, "queryValue": {"items": items}} if items else {}


def _words(option: Any) -> list[str]:
    """Return the items of a list, which command lines write with commas."""
    items = option if isinstance(option, list) else str(option).split(",")
    return [str(item).strip() for item in items]


def simulate_maintenance(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin a maintenance of one worker; only the first given id counts."""
    body = call.parse("SimulateMaintenanceEventRequest", "")
    try:
        workers = [int(worker) for worker in body.get("workerIds", []) if worker][:1]
    except ValueError:
        raise errors.bad_request(f"worker ids {body['workerIds']} are not numbers.") from None
    return cloud.maintain(call.zone, call.id, workers, call.version)


def perform_maintenance(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin a maintenance of all workers."""
    call.parse("Empty", "")
    workers = list(range(len(cloud.node(call.zone, call.id).machines)))
    return cloud.maintain(call.zone, call.id, workers, call.version, verb="performMaintenance")
