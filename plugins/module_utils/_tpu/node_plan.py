# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what to do with a TPU node: (wanted, seen) to differences and steps. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._core.errors import Refused
from .._core.ownership import DEFAULT_OWNER, OWNER_LABEL, require_owned
from .accelerators import API_ENUM, parse
from .model import COMPUTE, Node, basename, part_of
from .node_spec import SPEC_LABEL, NodeSpec, as_disk

CHANGING = frozenset({"create", "delete", "patch", "start", "stop"})


@dataclass(frozen=True)
class Difference:
    """A field that differs from the wanted value; without a mask it is fixed at creation."""

    field: str
    have: Any
    want: Any
    mask: str | None = None


@dataclass(frozen=True)
class Step:
    """One step, and the reason for it."""

    kind: str
    why: str
    # The node that the step is about, in decisions about several.
    name: str = ""


@dataclass(frozen=True)
class Decision:
    """The steps for a node, in order."""

    steps: list[Step] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Return whether any step changes the node."""
        return any(step.kind in CHANGING for step in self.steps)


def plan(spec: NodeSpec, node: Node) -> list[Difference]:
    """Return the differences; a field that the spec does not set never differs."""
    return [*fixed(spec, node), *changeable(spec, node)]


def decide(
    state: str,
    spec: NodeSpec,
    node: Node | None,
    *,
    adopt: bool = False,
    recreate: bool = False,
    wait: bool = True,
) -> Decision:
    """Return the steps from the seen to the wanted state, or refuse with the remedy."""
    if node is not None and node.state == "DELETING":
        # Its name stays in use until it is gone; then the case is the same as without a node.
        last = [Step("wait_gone", "it is being deleted")]
        if state == "absent":
            return Decision(last if wait else [])
        rest = decide(state, spec, None, wait=wait)
        return Decision([*last, *rest.steps])
    if state == "absent":
        return _decide_absent(spec, node, adopt, wait)
    if node is None:
        return Decision(_creation(state, spec, wait, "there is no such node"))
    _require_owned(spec, node, adopt)
    if node.is_lost:
        return _decide_lost(state, spec, node, recreate, wait)

    differences = plan(spec, node)
    _require_possible(node, differences)
    steps: list[Step] = []
    if differences and node.is_pending:
        steps.append(Step("wait_ready", f"a node that is {node.state} cannot be changed"))
    if differences:
        steps.append(Step("patch", ", ".join(item.field for item in differences) + " differ"))
    if state == "stopped":
        steps += _stopping(node, wait, ready=bool(steps))
    elif state == "started" and node.state in ("STOPPED", "STOPPING"):
        steps += _starting(node, wait)
    elif wait and not node.is_ready and node.state not in ("STOPPED", "STOPPING"):
        steps.append(Step("wait_ready", f"the node is {node.state}, {node.health}"))
    return Decision(steps, differences)


def _decide_absent(spec: NodeSpec, node: Node | None, adopt: bool, wait: bool) -> Decision:
    if node is None:
        return Decision()
    _require_owned(spec, node, adopt)
    steps = [Step("delete", "it is no longer wanted")]
    if wait:
        steps.append(Step("wait_gone", "its name stays in use until then"))
    return Decision(steps)


def _decide_lost(state: str, spec: NodeSpec, node: Node, recreate: bool, wait: bool) -> Decision:
    where = f"The node {node.name} in {spec.zone} is {node.state} and will never run again"
    if not recreate or state == "stopped":
        raise Refused(
            f"{where}; it still counts against the quota.",
            remedy="Create it again with recreate: true, or delete it with state: absent.",
            resource=node.name,
        )
    if node.queued_resource:
        raise Refused(
            f"{where}; it belongs to the queued resource {node.queued_resource}.",
            remedy=f"Delete the queued resource {node.queued_resource} and request it "
            "again (tpu.fleet.queued_resource with recreate: true).",
            resource=node.name,
        )
    creation = _creation(state, spec, wait, f"it was {node.state}")
    return Decision(
        [
            Step("delete", f"it is {node.state}"),
            Step("wait_gone", "its name stays in use until then"),
            *creation,
        ]
    )


def _creation(state: str, spec: NodeSpec, wait: bool, why: str) -> list[Step]:
    if state == "stopped":
        raise Refused(
            f"There is no node {spec.name} in {spec.zone} to stop.",
            remedy="Create it with state: present first.",
        )
    if not spec.has_hardware:
        raise Refused(
            f"There is no node {spec.name} in {spec.zone}, and no option says what to create.",
            remedy="Set accelerator_type, or accelerator_config.",
        )
    steps = [Step("create", why)]
    if wait:
        steps.append(Step("wait_ready", "a new node takes minutes"))
    return steps


def _stopping(node: Node, wait: bool, ready: bool) -> list[Step]:
    if node.state == "STOPPED":
        return []
    known = parse(node.accelerator_type)
    if len(node.endpoints) > 1 or (known is not None and known.workers > 1):
        raise Refused(
            f"The node {node.name} has several workers; only single-host nodes can be stopped.",
            remedy="Delete it with state: absent and create it again later.",
            resource=node.name,
        )
    if node.queued_resource:
        raise Refused(
            f"The node {node.name} belongs to the queued resource {node.queued_resource} and "
            "cannot be stopped.",
            remedy=f"Delete the queued resource {node.queued_resource}.",
            resource=node.name,
        )
    steps = []
    if node.state != "STOPPING":
        if node.is_pending and not ready:
            steps.append(Step("wait_ready", f"a node that is {node.state} cannot be stopped"))
        steps.append(Step("stop", f"the node is {node.state}"))
    if wait:
        steps.append(Step("wait_stopped", "stopping takes a while"))
    return steps


def _starting(node: Node, wait: bool) -> list[Step]:
    if node.tier in ("spot", "preemptible"):
        raise Refused(
            f"The node {node.name} is {node.tier} and stopped; such nodes cannot be started again.",
            remedy="Delete it with state: absent and create it again.",
            resource=node.name,
        )
    steps = []
    if node.state == "STOPPING":
        steps.append(Step("wait_stopped", "the node is still stopping"))
    steps.append(Step("start", "the node is stopped"))
    if wait:
        steps.append(Step("wait_ready", "starting takes a while"))
    return steps


def _require_owned(spec: NodeSpec, node: Node, adopt: bool) -> None:
    what, found = f"node {node.name} in {spec.zone}", node.labels.get(OWNER_LABEL)
    require_owned(what, found, spec.owner, adopt, node.name)


def _require_possible(node: Node, differences: list[Difference]) -> None:
    fixed = [item for item in differences if item.mask is None]
    if fixed:
        listed = "; ".join(f"{item.field} is {item.have!r}, wanted {item.want!r}" for item in fixed)
        raise Refused(
            f"The node {node.name} cannot be changed in place: {listed}.",
            remedy="Correct the option, or delete the node with state: absent (its boot disk and "
            "what runs on it are lost) and create it again.",
            resource=node.name,
        )


def fixed(spec: NodeSpec, node: Node) -> list[Difference]:
    """Return the differences in fields that are fixed at creation."""
    known = parse(node.accelerator_type)
    version = str((node.raw.get("acceleratorConfig") or {}).get("type") or "")
    if not version and known is not None:
        version = API_ENUM.get(known.generation, "")
    boot_disk = str((node.raw.get("bootDiskConfig") or {}).get("diskSizeGb") or "")
    boot_wanted = None if spec.boot_disk_size_gb is None else str(spec.boot_disk_size_gb)
    pairs: list[tuple[str, str, str | None]] = [
        ("accelerator_type", node.accelerator_type, spec.accelerator_type),
        # As many chips can be one machine or several, which have the same accelerator type.
        ("machine_type", node.machine_type, spec.machine_type if node.machine_type else None),
        # An answer may omit these; an unknown value does not differ.
        ("accelerator_config.type", version, spec.accelerator_version if version else None),
        (_topology_field(node), node.topology, spec.topology if node.topology else None),
        ("runtime_version", node.runtime_version, spec.runtime_version),
        ("tier", node.tier, spec.tier),
        ("network", node.network or "default", _short(spec.network)),
        ("subnetwork", node.subnetwork, _short(spec.subnetwork)),
        ("service_account", node.service_account, spec.service_account),
        ("boot_disk_size_gb", boot_disk, boot_wanted if boot_disk else None),
    ]
    if node.api == COMPUTE:
        # Compute Engine has no method that changes it.
        pairs.append(("description", node.description, spec.description))
    return [
        Difference(name, have, want)
        for name, have, want in pairs
        if want is not None and have != want
    ]


def _topology_field(node: Node) -> str:
    return "topology" if node.api == COMPUTE else "accelerator_config.topology"


def changeable(spec: NodeSpec, node: Node) -> list[Difference]:
    """Return the differences in fields that can be changed in place."""
    pairs: list[tuple[str, str, Any, Any]] = [
        ("labels", "labels", node.labels, _wanted_labels(spec, node)),
        ("metadata", "metadata", node.metadata, spec.wanted_metadata(node.metadata)),
        ("tags", "tags", sorted(node.tags), _wanted_tags(spec, node)),
        ("data_disks", "data_disks", *_disks(spec, node)),
    ]
    if spec.description is not None and node.api != COMPUTE:
        pairs.append(("description", "description", node.description, spec.description))
    if spec.external_ips is not None:
        mask = "network_config.enable_external_ips"
        pairs.append(("external_ips", mask, node.external_ips, spec.external_ips))
    return [Difference(name, have, want, mask) for name, mask, have, want in pairs if have != want]


def _wanted_labels(spec: NodeSpec, node: Node) -> dict[str, str]:
    kept = dict(node.labels)
    if "labels" in spec.purge:
        # Google sets goog- labels, which users may not remove.
        ours = (OWNER_LABEL, SPEC_LABEL)
        kept = {
            key: value
            for key, value in node.labels.items()
            if key in ours or key.startswith("goog-")
        }
    wanted = {**kept, **spec.labels}
    if spec.owner or OWNER_LABEL not in wanted:
        wanted[OWNER_LABEL] = spec.owner or DEFAULT_OWNER
    if spec.has_hardware and SPEC_LABEL not in wanted:
        # The label records what the node was created from, so it is written only once.
        wanted[SPEC_LABEL] = spec.digest()
    return wanted


def _wanted_tags(spec: NodeSpec, node: Node) -> list[str]:
    return sorted(set(spec.tags) if "tags" in spec.purge else {*node.tags, *spec.tags})


def _disks(spec: NodeSpec, node: Node) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the present and the wanted disks in a comparable form."""
    asked = {_disk_key(disk.source): disk for disk in spec.data_disks}
    seen = {}
    for disk in node.data_disks:
        source = str(disk.get("sourceDisk", ""))
        key = _disk_key(source)
        # An answer of v2 omits the workers; an unknown value does not differ.
        workers = disk.get("workerIds") or (asked[key].worker_ids if key in asked else ())
        mode = str(disk.get("mode") or "READ_WRITE")
        seen[key] = as_disk(source, mode, sorted(str(worker) for worker in workers))
    wanted = {} if "data_disks" in spec.purge else dict(seen)
    for key, disk_wanted in asked.items():
        there = seen.get(key, {})
        # The answer may name the project by its number, so its spelling is kept.
        wanted[key] = as_disk(
            there.get("sourceDisk", disk_wanted.source),
            disk_wanted.mode,
            sorted(disk_wanted.worker_ids) or there.get("workerIds", ()),
        )
    return [seen[key] for key in sorted(seen)], [wanted[key] for key in sorted(wanted)]


def _disk_key(source: str) -> tuple[str, str]:
    return part_of(source, "zones"), basename(source)


def _short(name: str | None) -> str | None:
    return basename(name) if name else None
