# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what to do with a node, whichever API has it: (wanted, seen) to steps. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._core.errors import Refused
from .._core.ownership import DEFAULT_OWNER, OWNER_LABEL, require_owned
from .._schema.accelerators import API_ENUM, parse
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


@dataclass(frozen=True)
class Subject:
    """What a decision is about: what is wanted, what there is, and what its API can do with it."""

    spec: NodeSpec
    # None if there is none.
    node: Node | None
    noun: str
    # What is known of the state.
    in_words: str
    # What the options lack to create it, as a remedy; empty if they lack nothing.
    lacks: str
    # Whether it has several workers. Only one that has a single worker can be stopped.
    several: bool
    # Why it will never run again unless it is created or started again; empty if it may.
    lost: str = ""
    # Whether one that was lost, or is spot, can be started again.
    restarts: bool = False
    # Whether it waits for capacity.
    waits: bool = False
    # Whether only parts of it are left.
    is_rest: bool = False
    differences: tuple[Difference, ...] = ()

    @property
    def where(self) -> str:
        """Return what it is called, and where it is."""
        return f"{self.noun} {self.spec.name} in {self.spec.zone}"


def decide(
    state: str,
    spec: NodeSpec,
    node: Node | None,
    *,
    adopt: bool = False,
    recreate: bool = False,
    wait: bool = True,
) -> Decision:
    """Return the steps for a node of the Cloud TPU API; see decide_about."""
    several, lost, known = False, "", None if node is None else parse(node.accelerator_type)
    if node is not None:
        several = len(node.endpoints) > 1 or (known is not None and known.workers > 1)
        if node.is_lost:
            lost = f"{node.state} and will never run again; it still counts against the quota"
    subject = Subject(
        spec,
        node,
        "node",
        in_words=node.in_words if node else "",
        lacks="" if spec.has_hardware else "Set accelerator_type, or accelerator_config.",
        several=several,
        lost=lost,
        differences=() if node is None else tuple(plan(spec, node)),
    )
    return decide_about(subject, state, adopt=adopt, recreate=recreate, wait=wait)


def decide_about(
    subject: Subject, state: str, *, adopt: bool, recreate: bool, wait: bool
) -> Decision:
    """Return the steps from the seen to the wanted state, or refuse with the remedy."""
    node = subject.node
    if node is None:
        creates = state != "absent"
        return Decision(_creation(state, subject, wait, "there is none") if creates else [])
    if node.state == "DELETING":
        # Its name stays in use until it is gone; then the case is the same as without a node.
        last = [Step("wait_gone", "it is being deleted")]
        if state == "absent":
            return Decision(last if wait else [])
        return Decision([*last, *_creation(state, subject, wait, "there is none")])
    owner = node.labels.get(OWNER_LABEL)
    require_owned(subject.where, owner, subject.spec.owner, adopt, node.name)
    if state == "absent":
        return Decision(_deletion("it is no longer wanted", wait))
    if subject.is_rest:
        return Decision(_creation(state, subject, wait, "only parts of it are left"))
    # One that is stopped already stays so, and one that can start again is not lost for good.
    stays = subject.restarts and node.is_lost and node.endpoints and state != "present"
    if subject.lost and not stays:
        return _decide_lost(state, subject, node, recreate, wait)
    _require_possible(state, subject, node)
    if subject.waits and not wait:
        return Decision()
    return Decision(_changes(state, subject, node, wait), list(subject.differences))


def _changes(state: str, subject: Subject, node: Node, wait: bool) -> list[Step]:
    """Return the steps for what is there, or is on its way."""
    stopped = node.state in ("STOPPED", "STOPPING") or node.is_lost
    moving = subject.waits or node.is_pending
    steps: list[Step] = []
    if subject.differences and moving:
        steps.append(Step("wait_ready", f"what is {node.state} cannot be changed"))
    if subject.differences:
        names = ", ".join(item.field for item in subject.differences)
        steps.append(Step("patch", f"{names} differ"))
    if state == "stopped":
        if not stopped and moving and not steps:
            steps.append(Step("wait_ready", f"what is {node.state} cannot be stopped"))
        if not stopped:
            steps.append(Step("stop", f"it is {node.state}"))
        if wait and (not stopped or node.state == "STOPPING"):
            steps.append(Step("wait_stopped", "stopping takes a while"))
    elif state == "started" and stopped:
        if node.state == "STOPPING":
            steps.append(Step("wait_stopped", "it is still stopping"))
        steps.append(Step("start", f"it is {node.state}"))
        if wait:
            steps.append(Step("wait_ready", "starting takes a while"))
    elif wait and not (node.is_ready or stopped or any(one.kind == "wait_ready" for one in steps)):
        steps.append(Step("wait_ready", f"it is {subject.in_words}"))
    return steps


def _decide_lost(state: str, subject: Subject, node: Node, recreate: bool, wait: bool) -> Decision:
    what = f"The {subject.where} is"
    if not recreate or state == "stopped":
        again = ", start it with state: started" if subject.restarts else ""
        raise Refused(
            f"{what} {subject.lost}.",
            remedy=f"Create it again with recreate: true{again}, or delete it with state: absent.",
            resource=node.name,
        )
    if node.queued_resource:
        raise Refused(
            f"{what} {node.state}, and it belongs to the queued resource {node.queued_resource}.",
            remedy=f"Delete the queued resource {node.queued_resource} and request it "
            "again (tpu.fleet.queued_resource with recreate: true).",
            resource=node.name,
        )
    why = f"it is {subject.in_words}"
    creation = _creation(state, subject, wait, why)
    return Decision([*_deletion(why, wait=True), *creation])


def _deletion(why: str, wait: bool) -> list[Step]:
    gone = Step("wait_gone", "its name, and what belongs to it, stay in use until then")
    return [Step("delete", why), *([gone] if wait else [])]


def _creation(state: str, subject: Subject, wait: bool, why: str) -> list[Step]:
    if state == "stopped":
        raise Refused(
            f"There is no {subject.where} to stop.", remedy="Create it with state: present first."
        )
    if subject.lacks:
        raise Refused(
            f"There is no {subject.where}, and no option says what to create.",
            remedy=subject.lacks,
        )
    return [Step("create", why), *([Step("wait_ready", "it takes minutes")] if wait else [])]


def _require_possible(state: str, subject: Subject, node: Node) -> None:
    """Raise Refused for what the API cannot do with what is there."""
    where, fixed = subject.where, [item for item in subject.differences if item.mask is None]
    listed = "; ".join(f"{item.field} is {item.have!r}, wanted {item.want!r}" for item in fixed)
    stops, belongs = state == "stopped" and node.state != "STOPPED", node.queued_resource
    starts = state == "started" and node.state in ("STOPPED", "STOPPING")
    refusals = (
        (
            stops and subject.several,
            f"The {where} has several workers, so it cannot be stopped.",
            "Delete it with state: absent and create it again later.",
        ),
        (
            fixed,
            f"The {where} cannot be changed in place: {listed}.",
            "Correct the option, or delete it with state: absent (its boot disks and what runs "
            "there are lost) and create it again.",
        ),
        (
            stops and subject.waits,
            f"The {where} waits for capacity, so there is nothing to stop.",
            "Take the request back with state: absent.",
        ),
        (
            stops and belongs,
            f"The {where} belongs to the queued resource {belongs} and cannot be stopped.",
            f"Delete the queued resource {belongs}.",
        ),
        (
            starts and node.tier in ("spot", "preemptible") and not subject.restarts,
            f"The {where} is {node.tier} and stopped; such nodes cannot be started again.",
            "Delete it with state: absent and create it again.",
        ),
    )
    for applies, text, remedy in refusals:
        if applies:
            raise Refused(text, remedy=remedy, resource=node.name)


def fixed(spec: NodeSpec, node: Node) -> list[Difference]:
    """Return the differences in fields that are fixed at creation."""
    known = parse(node.accelerator_type)
    version = str((node.raw.get("acceleratorConfig") or {}).get("type") or "")
    if not version and known is not None:
        version = API_ENUM.get(known.generation, "")
    boot_disk = _gib((node.raw.get("bootDiskConfig") or {}).get("diskSizeGb"))
    boot_wanted = _gib(spec.boot_disk_size_gb) or None
    pairs: list[tuple[str, str, str | None]] = [
        ("accelerator_type", node.accelerator_type, spec.accelerator_type),
        # As many chips can be one machine or several, which have the same accelerator type.
        ("machine_type", node.machine_type, spec.machine_type if node.machine_type else None),
        # An answer may omit these; an unknown value does not differ.
        ("accelerator_config.type", version, spec.accelerator_version if version else None),
        (_topology_field(node), node.topology, spec.topology if node.topology else None),
        ("runtime_version", node.runtime_version, spec.runtime_version),
        ("tier", _tier(node, spec), spec.tier),
        ("network", node.network or "default", _short(spec.network)),
        ("subnetwork", node.subnetwork, _short(spec.subnetwork)),
        ("service_account", node.service_account, spec.service_account),
        ("boot_disk_size", boot_disk, boot_wanted if boot_disk else None),
    ]
    if node.api == COMPUTE:
        # Compute Engine has no method that changes it.
        pairs.append(("description", node.description, spec.description))
    return [
        Difference(name, have, want)
        for name, have, want in pairs
        if want is not None and have != want
    ]


def _gib(size: Any) -> str:
    return f"{size}GiB" if size else ""


def _tier(node: Node, spec: NodeSpec) -> str:
    """Return the tier of a node; one of the kind before spot is as good where spot is wanted."""
    return "spot" if (node.tier, spec.tier) == ("preemptible", "spot") else node.tier


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
