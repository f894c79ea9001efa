"""What exists in a cloud, of whichever API, and what a request is about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from simulation.wire import Sent
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.compute.records import repairs, status
from tpu_local_cloud.model.shared.queue_records import QueueRecord
from tpu_local_cloud.model.shared.records import NodeRecord

OWNER_LABEL, OWNER = "tpu-fleet", "managed"
# The owner of the second fleet of the project.
NEIGHBOUR = "neighbour"
TPU, COMPUTE = "tpu", "compute"
_PATH = re.compile(
    r"/v2[a-z0-9]*/projects/[^/]+/locations(/(?P<zone>[^/:]+))?"
    r"(/(?P<kind>[a-zA-Z]+)(/(?P<name>[^/:]+))?)?(:(?P<verb>\w+))?"
)
_COMPUTE_PATH = re.compile(
    r"/compute/v1/projects/[^/]+/(aggregated|global|(zones|regions)/(?P<zone>[^/]+))"
    r"/(?P<kind>[a-zA-Z]+)(/(?P<name>[^/]+))?(/(?P<verb>\w+))?"
)
_VERBS = {"GET": "get", "POST": "create", "DELETE": "delete", "PATCH": "patch"}
_READING = ("get", "list", "getGuestAttributes", "listManagedInstances")
# What is in the collections of both APIs.
KINDS = {
    "nodes": "node",
    "queuedResources": "queued",
    "instances": "instance",
    "instanceGroupManagers": "group",
    "instanceTemplates": "template",
    "resourcePolicies": "policy",
}
# What a group needs beside its machines; they are in regions.
PARTS = ("template", "policy")
_MARK = re.compile(r"\[tpu-fleet: (?P<owner>[^]]+)\]")


@dataclass(frozen=True)
class Part:
    """One node that a queued resource is to become."""

    name: str
    zone: str
    accelerator_type: str
    tier: str
    labels: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Thing:
    """A node or a queued resource, as it is at one moment."""

    what: str
    zone: str
    name: str
    uid: str
    state: str
    parts: tuple[Part, ...]
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    # The queued resource that a node comes from.
    parent: str = ""
    # Until when the API does not show it.
    visible_from: float = 0.0
    # The names of its machines, and what is left of its life, on Compute Engine.
    machines: tuple[str, ...] = ()
    ends: float | None = None

    @property
    def api(self) -> str:
        """Return which API has it."""
        return TPU if self.what in ("node", "queued") else COMPUTE

    @property
    def is_slice(self) -> bool:
        """Say whether it is a slice that exists or waits, and not a request or a part for one."""
        return self.what in ("node", "instance", "group")

    @property
    def names(self) -> set[str]:
        """Return the slices that it is for."""
        return {part.name for part in self.parts} or {self.name}

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what it is known by."""
        return self.what, self.zone, self.name

    @property
    def owner(self) -> str:
        """Return whose it is, by its labels."""
        if self.what == "queued":
            owners = {part.labels.get(OWNER_LABEL) or "" for part in self.parts}
            return owners.pop() if len(owners) == 1 else ""
        return self.labels.get(OWNER_LABEL) or ""

    @property
    def ours(self) -> bool:
        """Say whether it carries the label of the fleet."""
        return self.owner == OWNER

    def __str__(self) -> str:
        types = ",".join(part.accelerator_type for part in self.parts) or "no chips"
        whose = "our" if self.ours else "foreign"
        return f"{whose} {self.what} {self.name} ({types}, {self.state}) in {self.zone}"


@dataclass(frozen=True)
class Call:
    """One request of a client: the name of the method, and what it is about."""

    method: str
    zone: str
    name: str
    body: Any = None
    api: str = TPU
    request_id: str = ""

    @property
    def changes(self) -> bool:
        """Say whether it asks for a change."""
        return self.method.split(".")[-1] not in _READING

    @property
    def what(self) -> str:
        """Return what kind of thing it is about."""
        return KINDS.get(self.method.partition(".")[0], "")


def call_of(request: Sent) -> Call:
    """Return the name of the method that a request calls, and its object."""
    compute = _COMPUTE_PATH.fullmatch(request.path)
    match = compute or _PATH.fullmatch(request.path)
    if match is None:
        return Call(f"other.{request.method}", "", request.path)
    kind, name = match["kind"] or "locations", unquote(match["name"] or "")
    verb = match["verb"] or _VERBS.get(request.method, "other")
    if verb == "get" and not name and kind != "locations":
        verb = "list"
    query = request.query
    place, asked = unquote(match["zone"] or ""), query.get("requestId", "")
    if verb == "create" and compute:
        name = str(json.loads(request.body or b"{}").get("name", ""))
    elif verb == "create":
        name = next((query[k] for k in ("nodeId", "queuedResourceId") if k in query), name)
    api = COMPUTE if compute else TPU
    return Call(f"{kind}.{verb}", place, name, request.body, api, asked)


def things_of(cloud: Cloud) -> list[Thing]:
    """Return all that exists in a cloud, faults or not."""
    with cloud.lock:
        nodes = [_node(n) if n.api == TPU else _slice(n) for n in cloud.nodes.values()]
        return [*nodes, *map(_queued, cloud.queued.values()), *_parts(cloud)]


def _node(node: NodeRecord) -> Thing:
    scheduling = node.body.get("schedulingConfig") or {}
    tier = next((t for t in ("spot", "preemptible", "reserved") if scheduling.get(t)), "")
    labels = dict(node.body.get("labels") or {})
    part = Part(node.name, node.zone, node.body["acceleratorType"], tier or "on_demand", labels)
    return Thing(
        "node",
        node.zone,
        node.name,
        node.uid,
        node.state,
        (part,),
        labels,
        node.queued_resource,
        node.visible_from,
    )


def _queued(queued: QueueRecord) -> Thing:
    parts = tuple(
        Part(
            order.name,
            queued.zone,
            order.accelerator_type,
            queued.tier,
            dict(order.body.get("labels") or {}),
        )
        for order in queued.orders
    )
    uid = f"{queued.name} since {queued.created}"
    return Thing(
        "queued",
        queued.zone,
        queued.name,
        uid,
        queued.state,
        parts,
        visible_from=queued.visible_from,
    )


def _slice(node: NodeRecord) -> Thing:
    """Return an instance or a group."""
    each = [machine["labels"] for machine in node.machines] or [node.body["labels"]]
    labels = {k: v for k, v in each[0].items() if all(one.get(k) == v for one in each)}
    part = Part(node.name, node.zone, node.accelerator_type, node.tier, labels)
    return Thing(
        "group" if node.is_group else "instance",
        node.zone,
        node.name,
        node.uid,
        _state(node),
        (part,),
        labels,
        visible_from=node.visible_from,
        machines=tuple(machine["name"] for machine in node.machines),
        ends=node.compute.get("ends"),
    )


def _state(node: NodeRecord) -> str:
    """Return a state as of a node; a group that has lost a machine never works again."""
    if not node.is_group or node.state != "READY":
        return "TERMINATED" if node.is_group and node.state == "STOPPED" else node.state
    own = {status(node, worker) for worker in range(len(node.machines))}
    if own & {"", "TERMINATED"} and not repairs(node):
        return "TERMINATED"
    return "READY" if own == {"RUNNING"} else "REPAIRING"


def _parts(cloud: Cloud) -> Iterator[Thing]:
    """Yield the templates and policies."""
    around = cloud.around
    for what, shelf in zip(
        PARTS, (around.instance_templates, around.resource_policies), strict=True
    ):
        for part in shelf:
            region = part["scope"].rpartition("/")[2]
            mark = _MARK.search(part.get("description", ""))
            labels = {OWNER_LABEL: mark["owner"]} if mark else {}
            yield Thing(what, region, part["name"], part["id"], "READY", (), labels)
