"""The owner's control of the queue, under /_cloud/queuedResources and /_cloud/reservations."""

from __future__ import annotations

import re
from typing import Any

from .. import errors
from ..model.cloud import Cloud
from ..model.shared import schema
from ..model.shared.queue_records import QueueRecord
from ..model.shared.records import NodeRecord
from ..model.tpu import reservations
from ..model.tpu.queue_steps import nodes_of

_QUEUED = re.compile(
    r"queuedResources/(?P<project>[^/]+)/(?P<zone>[^/]+)/(?P<name>[^/:]+):(?P<verb>[a-z]+)"
)
_VERBS = ("fail", "grant", "hold", "suspend")


def answer(cloud: Cloud, method: str, path: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request about the queue, or raise not found."""
    if path == "queuedResources" and method == "POST":
        return _put(cloud, asked)
    match = _QUEUED.fullmatch(path)
    if match and method == "POST":
        return _act(cloud, match["zone"], match["name"], match["verb"], asked)
    kind, _, name = path.partition("/")
    if kind == "reservations":
        if method == "POST" and not name:
            reservations.declare(cloud, asked)
            cloud.queue.look()
            cloud.advance()
        elif method == "DELETE" and name.count("/") == 1:
            reservations.forget(cloud, *name.split("/"))
        elif method != "GET":
            raise errors.NoSuchMethod(f"/_cloud/{path}")
        return {"reservations": _reservations(cloud)}
    raise errors.NoSuchMethod(f"/_cloud/{path}")


def shown(cloud: Cloud) -> dict[str, Any]:
    """Return queued resources and reservations, for people and tests."""
    queued = [_queued(cloud, record) for record in cloud.queue.within("-")]
    queued += [_waiting(node) for node in cloud.compute.records() if node.state == "PENDING"]
    return {"queued_resources": queued, "reservations": _reservations(cloud)}


def _queued(cloud: Cloud, record: QueueRecord) -> dict[str, Any]:
    return {
        "queued_resource": record.name,
        "zone": record.zone,
        "tier": record.tier,
        "state": record.state,
        "initiator": record.initiator,
        "error": record.error or {},
        "held": record.held,
        "wanted": {order.name: order.accelerator_type for order in record.orders},
        "nodes": {node.name: node.state for node in nodes_of(cloud, record)},
    }


def _waiting(node: NodeRecord) -> dict[str, Any]:
    """Return an instance or a group of Compute Engine that waits for capacity."""
    return {
        "queued_resource": node.name,
        "zone": node.zone,
        "tier": node.tier,
        "state": "WAITING_FOR_RESOURCES",
        "initiator": "",
        "error": node.compute.get("group", {}).get("progress", {}),
        "held": bool(node.compute.get("held")),
        "wanted": {node.name: node.accelerator_type},
        "nodes": {},
        "api": "compute",
    }


def _reservations(cloud: Cloud) -> list[dict[str, Any]]:
    return [
        {**each.to_dict(), "used": reservations.used(cloud, each)}
        for each in reservations.within(cloud, "-")
    ]


def _act(cloud: Cloud, zone: str, name: str, verb: str, asked: dict[str, Any]) -> dict[str, Any]:
    if verb not in _VERBS:
        raise ValueError(f"no verb is called {verb!r}; there are: {', '.join(_VERBS)}")
    if f"{zone}/queuedResources/{name}" not in cloud.queued:
        waiting = next((n for n in cloud.compute.records(zone) if n.name == name), None)
        if waiting is not None:
            return _act_on_compute(cloud, waiting, verb, asked)
    getattr(cloud.queue, verb)(zone, name, **asked)
    return _queued(cloud, cloud.queue.get(zone, name))


def _act_on_compute(
    cloud: Cloud, node: NodeRecord, verb: str, asked: dict[str, Any]
) -> dict[str, Any]:
    if verb == "grant":
        cloud.compute.grant(node)
    elif verb == "hold":
        cloud.compute.hold(node)
    elif verb == "fail":
        cloud.compute.refuse(node, str(asked.get("message", "")))
    else:
        raise ValueError(f"{node.name} is of Compute Engine, where nothing is suspended")
    return _waiting(node)


def _put(cloud: Cloud, asked: dict[str, Any]) -> dict[str, Any]:
    """Add a queued resource: its body is that of v2alpha1, the other fields set its state."""
    known = ("zone", "name", "state", "initiator", "error")
    said = {key: asked.pop(key) for key in known if key in asked}
    version = asked.pop("version", "v2alpha1")
    body = schema.parse(asked, "QueuedResource", "queued_resource", version)
    return _queued(cloud, cloud.queue.put(body=body, version=version, **said))
