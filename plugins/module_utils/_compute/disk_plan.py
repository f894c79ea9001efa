# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what to do with a data disk: (wanted, seen, nodes of the zone) to steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._core.errors import BadRequest, Refused
from .._core.ownership import (
    DEFAULT_OWNER,
    OWNER_LABEL,
    check_labels,
    check_name,
    check_owner,
    require_owned,
)
from .._tpu.model import Node, basename, part_of
from .._tpu.node_plan import Step
from .._tpu.node_spec import READ_ONLY, READ_WRITE, SPEC_LABEL, as_disk

DEFAULT_TYPE = "pd-balanced"
# Sources of a disk's content; a disk without any of them is created empty.
_SOURCES = ("sourceSnapshot", "sourceImage", "sourceDisk", "sourceInstantSnapshot")


@dataclass(frozen=True)
class DiskSpec:
    """A wanted disk; None means not declared, so not compared."""

    name: str
    zone: str
    project: str
    size_gb: int | None = None
    type: str | None = None
    description: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = None
    nodes: tuple[str, ...] | None = None
    mode: str = READ_WRITE
    # The workers that have it; without any, all.
    workers: tuple[str, ...] = ()
    exclusive: bool = False
    adopt: bool = False
    delete_data: bool = False

    def check(self) -> None:
        """Raise for impossible wishes, before any request."""
        check_name("disk", self.name)
        check_owner(self.owner)
        check_labels(self.labels, lambda key: key.startswith(OWNER_LABEL))
        if self.writes and len(self.nodes or ()) > 1:
            names = " and ".join(self.nodes or ())
            raise BadRequest(
                f"The disk {self.name} cannot be attached for writing to {names}: only one node "
                "may write.",
                remedy="Attach it with read_only: true, or name one node.",
            )

    @property
    def is_kept(self) -> bool:
        """Return whether the disk itself is declared, and not only where it is attached."""
        said = (self.size_gb, self.type, self.description, self.labels or None)
        return self.adopt or any(value is not None for value in said)

    @property
    def writes(self) -> bool:
        """Return whether the nodes may write on it."""
        return self.mode == READ_WRITE

    @property
    def path(self) -> str:
        """Return the disk's full name."""
        return f"projects/{self.project}/zones/{self.zone}/disks/{self.name}"

    def create_body(self) -> dict[str, Any]:
        """Return the request that creates the disk."""
        kind = self.type or DEFAULT_TYPE
        body: dict[str, Any] = {
            "name": self.name,
            "sizeGb": str(self.size_gb),
            "type": f"projects/{self.project}/zones/{self.zone}/diskTypes/{kind}",
            # The second label says that this collection created it empty.
            "labels": {
                **self.labels,
                OWNER_LABEL: self.owner or DEFAULT_OWNER,
                SPEC_LABEL: "made-empty",
            },
        }
        if self.description:
            body["description"] = self.description
        return body


@dataclass(frozen=True)
class Attach:
    """A change of one node's disks."""

    node: Node
    disks: list[dict[str, Any]]


@dataclass
class DiskPlan:
    """The steps, in order, and their result."""

    steps: list[Step] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    patches: list[tuple[Step, Attach]] = field(default_factory=list)
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)


def plan_present(spec: DiskSpec, disk: Mapping[str, Any] | None, nodes: Sequence[Node]) -> DiskPlan:
    """Return the steps to the wanted disk; raise for forbidden ones."""
    plan = DiskPlan()
    if disk is None:
        if spec.size_gb is None:
            raise Refused(
                f"There is no disk {spec.name} in {spec.zone}, and its size is not given.",
                remedy="Give it, as size: 200GiB.",
            )
        plan.steps.append(Step("create", "there is no such disk"))
        plan.after = summary(spec.create_body())
    else:
        plan.before, plan.after = summary(disk), summary(disk)
        if spec.is_kept:
            owner = _labels(disk).get(OWNER_LABEL)
            require_owned(f"disk {spec.name}", owner, spec.owner, spec.adopt)
            plan.after = _corrected(spec, disk, plan)
    if spec.nodes is not None:
        # The other steps come first, because a node can attach only an existing disk.
        _plan_nodes(spec, nodes, plan)
    return plan


def plan_absent(spec: DiskSpec, disk: Mapping[str, Any] | None, nodes: Sequence[Node]) -> DiskPlan:
    """Return the steps that delete the disk; raise unless that is safe."""
    if disk is None:
        return DiskPlan()
    require_owned(f"disk {spec.name}", _labels(disk).get(OWNER_LABEL), spec.owner, spec.adopt)
    held = [node.name for node in holders(spec, nodes)]
    users = held or [basename(str(user)) for user in disk.get("users") or []]
    if users:
        raise Refused(
            f"The disk {spec.name} in {spec.zone} is attached to {', '.join(users)}.",
            remedy="Detach it first (nodes: [] with exclusive: true), once it is not used.",
        )
    if may_hold_data(disk) and not spec.delete_data:
        raise Refused(
            f"The disk {spec.name} in {spec.zone} may hold data ({_why_data(disk)}), and nothing "
            "says that they may be lost.",
            remedy="Say delete_data: true if they are not needed, or make a snapshot first.",
        )
    return DiskPlan([Step("delete", "it is not wanted any more")], before=summary(disk))


def may_hold_data(disk: Mapping[str, Any]) -> bool:
    """Return whether a disk may hold data, unlike one that was created empty and never used."""
    return bool(_why_data(disk))


def holders(spec: DiskSpec, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes of the zone that have the disk."""
    return [node for node in nodes if _entry(spec, node) is not None]


def summary(disk: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result fields of a disk."""
    return {
        "name": str(disk.get("name") or ""),
        "size_gb": int(disk.get("sizeGb") or 0),
        "type": basename(str(disk.get("type") or "")),
        "labels": _labels(disk),
        "description": str(disk.get("description") or ""),
    }


def _corrected(spec: DiskSpec, disk: Mapping[str, Any], plan: DiskPlan) -> dict[str, Any]:
    """Plan the changes of the disk itself; return the resulting disk."""
    have, want = summary(disk), summary(disk)
    if spec.type is not None and spec.type != have["type"]:
        raise _fixed(spec, "type", have["type"], spec.type)
    if spec.description is not None and spec.description != have["description"]:
        raise _fixed(spec, "description", have["description"], spec.description)
    if spec.size_gb is not None and spec.size_gb < have["size_gb"]:
        raise Refused(
            f"The disk {spec.name} has {have['size_gb']}GiB, and size is {spec.size_gb}GiB: disks "
            "cannot shrink.",
            remedy=f"Say size: {have['size_gb']}GiB, or copy the data to a new disk.",
        )
    if spec.size_gb is not None and spec.size_gb > have["size_gb"]:
        plan.steps.append(Step("resize", f"it has {have['size_gb']}GiB"))
        want["size_gb"] = spec.size_gb
    wanted = dict(spec.labels)
    if spec.owner or OWNER_LABEL not in have["labels"]:
        wanted[OWNER_LABEL] = spec.owner or DEFAULT_OWNER
    if any(have["labels"].get(key) != value for key, value in wanted.items()):
        plan.steps.append(Step("label", "labels differ"))
        plan.labels = wanted
        want["labels"] = {**have["labels"], **wanted}
    return want


def _plan_nodes(spec: DiskSpec, nodes: Sequence[Node], plan: DiskPlan) -> None:
    """Plan which nodes detach the disk, then which attach it."""
    by_name = {node.name: node for node in nodes}
    wanted = [_wanted_node(spec, by_name, name) for name in dict.fromkeys(spec.nodes or ())]
    held = holders(spec, nodes)
    others = [node for node in held if node.name not in (spec.nodes or ())]
    in_the_way = [
        node for node in others if wanted and (spec.writes or _writes(_entry(spec, node)))
    ]
    if in_the_way and not spec.exclusive:
        names = ", ".join(node.name for node in in_the_way)
        raise Refused(
            f"The disk {spec.name} is attached to {names}; only one node may write on a disk, and "
            "none while others read.",
            remedy="Say exclusive: true to detach it there, once it is not used.",
        )
    plan.before["nodes"] = _shown(spec, held)
    after = {} if spec.exclusive else _shown(spec, others)
    for node in others if spec.exclusive else ():
        if node.is_lost:
            continue
        _require_node(spec, node)
        plan.patches.append(
            (Step("detach", f"{node.name} is not named"), Attach(node, _without(spec, node)))
        )
    otherwise = [node for node in wanted if _is_otherwise(spec, _entry(spec, node))]
    for node in otherwise:
        # A disk cannot change its mode while it is attached.
        why = f"{node.name} has it in another mode, or on other workers"
        plan.patches.append((Step("detach", why), Attach(node, _without(spec, node))))
    for node in wanted:
        after[node.name] = spec.mode
        if node in otherwise or _entry(spec, node) is None:
            _require_node(spec, node)
            disks = [*_without(spec, node), as_disk(spec.path, spec.mode, spec.workers)]
            plan.patches.append((Step("attach", f"to {node.name}"), Attach(node, disks)))
    plan.after["nodes"] = after


def _wanted_node(spec: DiskSpec, by_name: Mapping[str, Node], name: str) -> Node:
    node = by_name.get(name)
    if node is None:
        raise BadRequest(
            f"There is no node {name} in {spec.zone}, where the disk {spec.name} is.",
            remedy="Create it first, or correct nodes; a disk only goes to nodes of its own zone.",
        )
    if node.is_lost:
        raise Refused(
            f"The node {name} is {node.state} and will never run again.",
            remedy="Create it again first (recreate: true).",
        )
    if spec.writes and len(node.endpoints) > 1 and len(spec.workers) != 1:
        raise BadRequest(
            f"The node {name} has {len(node.endpoints)} workers, and only one may write on the "
            f"disk {spec.name}.",
            remedy="Attach it with read_only: true, or name one of its workers.",
        )
    return node


def _require_node(spec: DiskSpec, node: Node) -> None:
    require_owned(f"node {node.name}", node.labels.get(OWNER_LABEL), spec.owner, spec.adopt)


def _entry(spec: DiskSpec, node: Node) -> dict[str, Any] | None:
    for disk in node.data_disks:
        source = str(disk.get("sourceDisk") or "")
        # The answer may contain the project's number instead of its id.
        if (part_of(source, "zones"), basename(source)) == (spec.zone, spec.name):
            return {"mode": READ_WRITE, **disk}
    return None


def _is_otherwise(spec: DiskSpec, entry: Mapping[str, Any] | None) -> bool:
    """Return whether a node has the disk in another mode, or on other workers, if that is known."""
    if entry is None:
        return False
    workers = {str(worker) for worker in entry.get("workerIds") or spec.workers}
    return entry["mode"] != spec.mode or bool(spec.workers and workers != set(spec.workers))


def _without(spec: DiskSpec, node: Node) -> list[dict[str, Any]]:
    return [
        disk for disk in node.data_disks if basename(str(disk.get("sourceDisk") or "")) != spec.name
    ]


def _writes(entry: Mapping[str, Any] | None) -> bool:
    return (entry or {}).get("mode") != READ_ONLY


def _shown(spec: DiskSpec, nodes: Iterable[Node]) -> dict[str, str]:
    return {node.name: str((_entry(spec, node) or {}).get("mode")) for node in nodes}


def _labels(disk: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in (disk.get("labels") or {}).items()}


def _why_data(disk: Mapping[str, Any]) -> str:
    if disk.get("lastAttachTimestamp"):
        return f"it was last attached at {disk['lastAttachTimestamp']}"
    for source in _SOURCES:
        if disk.get(source):
            return f"it was made from {basename(str(disk[source]))}"
    return "" if _labels(disk).get(SPEC_LABEL) else "it was made by others"


def _fixed(spec: DiskSpec, name: str, have: Any, want: Any) -> Refused:
    return Refused(
        f"The disk {spec.name} cannot be changed in place: {name} is {have!r}, wanted {want!r}.",
        remedy="Correct the option, or make a disk of another name and copy the data.",
    )
