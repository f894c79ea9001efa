# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn TPU nodes into workers: names, variables, groups and availability. No I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .._schema.accelerators import parse as parse_accelerator
from .model import COMPUTE, parse_time
from .names import GROUP_LEADERS, GROUP_UNAVAILABLE, GROUP_USABLE, group_name, natural_key

if TYPE_CHECKING:
    from .model import Node

# A host with one of these names would be mistaken for the group, or for the controller.
RESERVED_NAMES = frozenset({"all", "localhost", "tpu", "ungrouped"})
PREFIX = "tpu_vm_"

# ssh could read any other user name as an option.
_ADDRESS = re.compile(r"[0-9A-Fa-f][0-9A-Fa-f.:]*")

# What each state other than READY means for a user who reads the inventory.
STATE_REASONS = {
    "CREATING": "is being created",
    "STARTING": "is starting",
    "RESTARTING": "is restarting",
    "REIMAGING": "is getting a new image",
    "REPAIRING": "is being repaired by Google",
    "STOPPING": "is stopping",
    "STOPPED": "is stopped; tpu-fleet slice wake starts it",
    "DELETING": "is being deleted",
    "PREEMPTED": "was preempted; tpu-fleet repair creates it again",
    "TERMINATED": "was terminated; tpu-fleet repair creates it again",
    "HIDING": "is hidden by Google",
    "HIDDEN": "is hidden by Google",
    "UNHIDING": "is coming back from being hidden by Google",
}
HEALTH_REASONS = {
    "TIMEOUT": "does not answer Google's health check",
    "UNHEALTHY_TENSORFLOW": "has an unhealthy machine learning stack",
    "UNHEALTHY_MAINTENANCE": "is under maintenance and comes back when it is rescheduled",
}


@dataclass(frozen=True)
class Worker:
    """One machine of a node, as Ansible sees it."""

    host: str
    label: str
    node: Node
    index: int
    internal_ip: str | None
    external_ip: str | None
    address: str | None
    reason: str | None
    # All workers of a node share these objects.
    node_variables: dict[str, Any]
    node_groups: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Return whether a playbook can use the worker."""
        return self.reason is None

    @property
    def variables(self) -> dict[str, Any]:
        """Return the worker's facts as host variables."""
        variables = {
            **self.node_variables,
            PREFIX + "worker_index": self.index,
            PREFIX + "internal_ip": self.internal_ip,
            PREFIX + "external_ip": self.external_ip,
        }
        if self.reason:
            variables[PREFIX + "unavailable_reason"] = self.reason
        return variables

    @property
    def groups(self) -> tuple[str, ...]:
        """Return its groups; only a usable worker is in the groups that playbooks address."""
        if not self.usable:
            return (GROUP_UNAVAILABLE, *self.node_groups)
        leads = (GROUP_LEADERS,) if self.index == 0 else ()
        return (GROUP_USABLE, *leads, *self.node_groups)

    def without(self, reason: str) -> Worker:
        """Return the same worker, unusable for the given reason."""
        return replace(self, reason=reason)


def worker_count(node: Node) -> int:
    """Return the number of a node's workers; without endpoints yet, that of its type."""
    if node.endpoints:
        return len(node.endpoints)
    known = parse_accelerator(node.accelerator_type)
    return known.workers if known else 1


def host_names(label: str, count: int) -> list[str]:
    """Return the names of a node's hosts."""
    return [label] if count == 1 else [f"{label}-w{index}" for index in range(count)]


def hosts_to_be(label: str, accelerator_type: str) -> list[str]:
    """Return the names of the hosts that a node of a type will have."""
    known = parse_accelerator(accelerator_type)
    return host_names(label, known.workers if known else 1)


def slice_facts(node: Node) -> dict[str, Any]:
    """Return the facts that all workers of a node share."""
    return {
        "name": node.name,
        "uid": node.uid,
        "project": node.project,
        "zone": node.zone,
        "api": node.api,
        "accelerator_type": node.accelerator_type,
        "machine_type": node.machine_type,
        "topology": node.topology,
        "runtime_version": node.runtime_version,
        "state": node.state,
        "health": node.health,
        "health_description": node.health_description,
        "tier": node.tier,
        "worker_count": worker_count(node),
        "slice_hosts": [endpoint.internal_ip for endpoint in node.endpoints],
        "queued_resource": node.queued_resource,
        "multislice": node.multislice,
        "labels": node.labels,
        "data_disks": node.data_disks,
        "upcoming_maintenance": node.upcoming_maintenance,
        "symptoms": node.symptoms,
        "create_time": node.create_time,
    }


def node_facts(node: Node) -> dict[str, Any]:
    """Return the facts of a node with its workers, as the modules return them."""
    names = host_names(node.name, worker_count(node))
    workers = [
        {
            "index": index,
            "host": name,
            "internal_ip": _at(node, index, "internal_ip"),
            "external_ip": _at(node, index, "external_ip"),
            **({"instance": _at(node, index, "instance")} if node.api == COMPUTE else {}),
        }
        for index, name in enumerate(names)
    ]
    return {**slice_facts(node), "workers": workers}


def are_as_listed(
    nodes: Iterable[Mapping[str, Any]], listed: Mapping[str, Mapping[str, Any]]
) -> bool:
    """Return whether the workers of nodes, as `node_facts` has them, are just those of a listing.

    `listed` has the variables of each host that can be used. One that differs in anything was
    changed, or created again, since it was listed.
    """
    wanted = {
        worker["host"]: {**node, **worker, "worker_index": worker["index"]}
        for node in nodes
        for worker in node["workers"]
    }
    return wanted.keys() == listed.keys() and all(
        listed[host].get(PREFIX + name) == value
        for host, facts in wanted.items()
        for name, value in facts.items()
        if name not in ("workers", "host", "index", "instance")
    )


def unavailable_reason(node: Node) -> str | None:
    """Return why no worker of a node can be used, or None if they can."""
    if node.state != "READY":
        return STATE_REASONS.get(node.state, f"is in state {node.state or 'unknown'}")
    health = node.health or ""
    if health == "TIMEOUT" or health.startswith("UNHEALTHY_"):
        reason = HEALTH_REASONS.get(health, f"has health {health}")
        return f"{reason} ({node.health_description})" if node.health_description else reason
    return None


def maintenance_text(coming: Any) -> str:
    """Return which maintenance the API announces, and when; empty if there is none."""
    if not isinstance(coming, Mapping) or not coming:
        return ""
    start = str(coming.get("windowStartTime") or coming.get("latestWindowStartTime") or "")
    instant = parse_time(start)
    when = f"at {start}" if start else "soon"
    when = f"at {instant:%Y-%m-%d %H:%M} UTC" if instant else when
    return f"{coming.get('type', 'maintenance')} {when}"


def labels_of(nodes: Iterable[Node]) -> dict[tuple[str, str, str, str], str]:
    """Return for each node the shortest label that gives all hosts different names.

    Keys are (project, zone, name, API). In a clash, all nodes involved get longer labels.
    """
    nodes = list(nodes)
    labels: dict[tuple[str, str, str, str], str] = {}
    pending = nodes
    for form in (
        lambda node: node.name,
        lambda node: f"{node.name}.{node.zone}",
        lambda node: f"{node.name}.{node.zone}.{node.project.replace(':', '.')}",
        lambda node: f"{node.name}.{node.zone}.{node.project.replace(':', '.')}.{node.api}",
    ):
        for node in pending:
            labels[_key(node)] = form(node)
        taken = Counter(RESERVED_NAMES)
        for node in nodes:
            taken.update(_claimed(labels[_key(node)], worker_count(node)))
        pending = [
            node
            for node in nodes
            if any(taken[n] > 1 for n in _claimed(labels[_key(node)], worker_count(node)))
        ]
    return labels


def workers_of(nodes: Iterable[Node], connect_with: str = "external_ip") -> list[Worker]:
    """Return the workers of nodes, in natural order of their host names.

    connect_with is external_ip, internal_ip or iap (which needs no address).
    """
    nodes = list(nodes)
    labels = labels_of(nodes)
    workers = []
    for node in sorted(nodes, key=lambda node: natural_key(labels[_key(node)])):
        label = labels[_key(node)]
        variables = {PREFIX + key: value for key, value in slice_facts(node).items()}
        groups = _node_groups(node, label)
        reason = unavailable_reason(node)
        for index, host in enumerate(host_names(label, worker_count(node))):
            address = _address(node, index, connect_with)
            why = reason
            if why is None and address is None:
                why = f"has no {connect_with.split('_')[0]} address; choose another connect_with"
            workers.append(
                Worker(
                    host=host,
                    label=label,
                    node=node,
                    index=index,
                    internal_ip=_at(node, index, "internal_ip"),
                    external_ip=_at(node, index, "external_ip"),
                    address=address,
                    reason=why,
                    node_variables=variables,
                    node_groups=groups,
                )
            )
    return workers


def _node_groups(node: Node, label: str) -> tuple[str, ...]:
    """Return the groups that all workers of a node are in."""
    groups = [group_name("tpu_slice", label)]
    known = parse_accelerator(node.accelerator_type)
    for kind, value in (
        ("zone", node.zone),
        ("type", node.accelerator_type),
        ("generation", known.generation if known else None),
        ("tier", node.tier),
        ("state", node.state),
    ):
        if value:
            groups.append(group_name("tpu", kind, value))
    return tuple(groups)


def _claimed(label: str, count: int) -> list[str]:
    """Return the names that a node uses up: its hosts, and its slice group."""
    return sorted({label, *host_names(label, count)})


def _key(node: Node) -> tuple[str, str, str, str]:
    return (node.project, node.zone, node.name, node.api)


def _at(node: Node, index: int, field: str) -> Any:
    return getattr(node.endpoints[index], field) if index < len(node.endpoints) else None


def _address(node: Node, index: int, connect_with: str) -> str | None:
    """Return the address for ssh; for iap it is only a name, because the tunnel finds the host."""
    if connect_with == "iap":
        return _at(node, index, "internal_ip") or node.name
    address = _at(node, index, connect_with) or ""
    return address if _ADDRESS.fullmatch(address) else None
