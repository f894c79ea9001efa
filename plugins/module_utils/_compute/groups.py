# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Managed instance groups and their templates, and what lists of them show as slices. No I/O.

A slice is an instance with TPUs, or a group of them. One that waits for capacity becomes a queued
resource, all others become nodes. Source of the fields: Google's discovery document of the Compute
API, and https://docs.cloud.google.com/compute/docs/instance-groups/about-bulk-mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any

from .._core.error_row import RESOURCE_EXHAUSTED
from .._core.ownership import OWNER_LABEL, owner_in
from .._tpu.model import (
    COMPUTE,
    Listing,
    Node,
    basename,
    map_in,
    parse_time,
    part_of,
    text_in,
    texts_in,
)
from .._tpu.node_spec import SPEC_LABEL
from .._tpu.queued_resources import QueuedResource
from .instance import WAIT_LABEL, Instance, born, node_of, node_raw, own_topology, shown
from .machine_types import machine_type, topologies
from .operations import status_of

WAITING, FAILED = "WAITING_FOR_RESOURCES", "FAILED"
# What the state PENDING of an instance, and a group that waits without an error, leave open.
UNDECIDED = "Compute Engine does not show whether capacity or quota is missing"
# A list may show an instance a moment before the list of groups shows its group.
NEW = timedelta(seconds=120)
_OURS = (OWNER_LABEL, SPEC_LABEL)
# Tiers whose requests do not wait: what has no capacity now has failed.
_IMPATIENT = ("on_demand", "spot")
_UNTIL = re.compile(r"^Waits for capacity until (?P<until>\S+)")
_MARK = re.compile(r"^Slice (?P<slice>\S+) in (?P<zone>\S+), (?P<digest>[0-9a-f]+)\b")


def waiting_until(until: str) -> str:
    """Return the description of a group that may wait until then; only its owner ends the wait."""
    return f"Waits for capacity until {until}"


@dataclass(frozen=True)
class Mark:
    """What the description of a part of a slice says: of which slice, made from what, whose."""

    slice: str
    zone: str
    digest: str
    owner: str

    @classmethod
    def read(cls, description: str) -> Mark | None:
        """Return the mark of a description; None if it has none."""
        found, owner = _MARK.search(description), owner_in(description)
        if found is None or owner is None:
            return None
        return cls(found["slice"], found["zone"], found["digest"], owner)

    def __str__(self) -> str:
        return f"Slice {self.slice} in {self.zone}, {self.digest} [{OWNER_LABEL}: {self.owner}]"

    def is_like(self, other: Mark) -> bool:
        """Return whether both are made from the same, which may serve two zones of a region."""
        return (self.slice, self.digest, self.owner) == (other.slice, other.digest, other.owner)


@dataclass(frozen=True)
class Part:
    """An instance template or a workload policy."""

    kind: str
    name: str
    scope: str
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def from_api(cls, raw: Mapping[str, Any], kind: str) -> Part:
        """Return the part that an API answer describes."""
        region = basename(text_in(raw, "region"))
        scope = f"regions/{region}" if region else "global"
        return cls(kind, text_in(raw, "name"), scope, dict(raw))

    @property
    def path(self) -> str:
        """Return its path in the project."""
        return f"{self.scope}/{self.kind}/{self.name}"

    @property
    def mark(self) -> Mark | None:
        """Return its mark; None if this collection did not make it."""
        return Mark.read(text_in(self.raw, "description"))

    @property
    def properties(self) -> Mapping[str, Any]:
        """Return the properties of the instances that a template makes."""
        return map_in(self.raw, "properties")

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels that a template gives to its instances."""
        return texts_in(self.properties, "labels")

    @property
    def machine_type(self) -> str:
        """Return the machine type that a template gives to its instances."""
        return basename(text_in(self.properties, "machineType"))

    @property
    def topology(self) -> str:
        """Return the topology that a policy asks for."""
        return text_in(map_in(self.raw, "workloadPolicy"), "acceleratorTopology")


@dataclass(frozen=True)
class Group:
    """A managed instance group."""

    name: str
    uid: str
    project: str
    # A zone, or for a regional group the one zone that it may use; empty if it has several.
    zone: str
    size: int
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def from_api(cls, raw: Mapping[str, Any]) -> Group:
        """Return the group that an API answer describes."""
        zones = map_in(raw, "distributionPolicy").get("zones") or []
        zone = text_in(raw, "zone")
        if not zone and len(zones) == 1:
            zone = text_in(zones[0], "zone")
        return cls(
            name=text_in(raw, "name"),
            uid=text_in(raw, "id"),
            project=part_of(text_in(raw, "selfLink") or zone, "projects"),
            zone=basename(zone),
            size=int(raw.get("targetSize") or 0),
            raw=dict(raw),
        )

    @property
    def scope(self) -> str:
        """Return where it is: zones/Z or regions/R."""
        region = basename(text_in(self.raw, "region"))
        return f"regions/{region}" if region else f"zones/{self.zone}"

    @property
    def _status(self) -> Mapping[str, Any]:
        return map_in(self.raw, "status")

    @property
    def template(self) -> str:
        """Return the path in the project of its template."""
        link = text_in(self.raw, "instanceTemplate")
        region = part_of(link, "regions")
        return f"{f'regions/{region}' if region else 'global'}/instanceTemplates/{basename(link)}"

    @property
    def policy(self) -> str:
        """Return the path in the project of its workload policy; empty if it has none."""
        link = text_in(map_in(self.raw, "resourcePolicies"), "workloadPolicy")
        region = part_of(link, "regions")
        return f"regions/{region}/resourcePolicies/{basename(link)}" if link else ""

    @property
    def in_progress(self) -> bool:
        """Return whether the creation of all its instances at once goes on."""
        return bool(map_in(self._status, "bulkInstanceOperation").get("inProgress"))

    @property
    def error(self) -> dict[str, Any]:
        """Return the error of the last look for capacity, as a status; empty if there is none."""
        check = map_in(map_in(self._status, "bulkInstanceOperation"), "lastProgressCheck")
        return status_of(map_in(check, "error").get("errors") or [])

    @property
    def until(self) -> str:
        """Return until when it may wait for capacity; empty if that is not limited."""
        said = _UNTIL.search(text_in(self.raw, "description"))
        return said["until"] if said else ""

    @property
    def is_stable(self) -> bool:
        """Return whether nothing is being done to it or to any of its instances."""
        return bool(self._status.get("isStable")) and self.acting == 0 and not self.in_progress

    def _actions(self) -> dict[str, int]:
        actions = map_in(self.raw, "currentActions")
        return {str(name): int(count or 0) for name, count in actions.items()}

    @property
    def acting(self) -> int:
        """Return how many of its instances something is being done to."""
        return sum(count for name, count in self._actions().items() if name != "none")

    @property
    def deleting(self) -> int:
        """Return how many of its instances are being deleted."""
        return self._actions().get("deleting", 0)

    @property
    def running(self) -> int | None:
        """Return how many of its instances run, as the group counts them; None if it does not."""
        counts = map_in(self._status, "currentInstanceStatuses")
        # Fields that are zero may be absent, so any other field says that it counts.
        return int(counts.get("running") or 0) if counts else None

    @property
    def existing(self) -> int:
        """Return how many of its instances exist, as far as the group counts them."""
        counts = map_in(self._status, "currentInstanceStatuses")
        if not counts:
            return 0 if self.in_progress else self.size
        return sum(int(count or 0) for name, count in counts.items() if name != "nonExistent")

    @property
    def _applied(self) -> Mapping[str, Any]:
        applied = self._status.get("appliedAcceleratorTopologies")
        first = applied[0] if isinstance(applied, list) and applied else {}
        return first if isinstance(first, Mapping) else {}

    @property
    def topology(self) -> str:
        """Return how its chips are connected; empty if the group does not say it."""
        return text_in(self._applied, "acceleratorTopology")

    @property
    def topology_state(self) -> str:
        """Return the state of the connections; empty if the group does not say it."""
        return text_in(self._applied, "state")


@dataclass(frozen=True)
class Seen:
    """What lists of a project showed; the groups were listed before the instances."""

    groups: Listing[Group]
    instances: Listing[Instance]
    templates: Listing[Part] = field(default_factory=lambda: Listing([]))
    policies: Listing[Part] = field(default_factory=lambda: Listing([]))
    at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    @cached_property
    def template_of(self) -> dict[str, Part]:
        """Return the templates by their paths."""
        return {template.path: template for template in self.templates.items}

    @cached_property
    def policy_of(self) -> dict[str, Part]:
        """Return the policies by their paths."""
        return {policy.path: policy for policy in self.policies.items}

    @cached_property
    def members(self) -> dict[tuple[str, str], list[Instance]]:
        """Return the instances of groups by scope and name of the group, in order of workers."""
        found: dict[tuple[str, str], list[Instance]] = {}
        for instance in self.instances.items:
            if instance.has_tpus and not instance.is_single:
                region = part_of(instance.group, "regions")
                scope = f"regions/{region}" if region else f"zones/{instance.zone}"
                found.setdefault((scope, instance.slice_name), []).append(instance)
        for members in found.values():
            members.sort(key=_order)
        return found

    @cached_property
    def slices(self) -> list[GroupSlice]:
        """Return the groups whose instances have TPUs; none whose instances are out of sight."""
        found = []
        for group in self.groups.items:
            if group.zone in self.instances.unreachable:
                continue
            members = self.members.get((group.scope, group.name), [])
            template = self.template_of.get(group.template)
            one = GroupSlice(group, template, tuple(members), self._policy(group), self.at)
            if machine_type(one.machine_type) is not None and one.zone:
                found.append(one)
        return found

    def _policy(self, group: Group) -> Part | None:
        return self.policy_of.get(group.policy)

    @property
    def unreachable(self) -> list[str]:
        """Return the zones of which a list is missing, or a group that cannot be judged."""
        zones = dict.fromkeys([*self.groups.unreachable, *self.instances.unreachable])
        for group in self.groups.items:
            known = group.template in self.template_of or (group.scope, group.name) in self.members
            scope = group.template.partition("/instanceTemplates/")[0]
            if not known and scope in self.templates.unreachable:
                zones[group.zone] = None
        return [zone for zone in zones if zone and "/" not in zone]


@dataclass(frozen=True)
class GroupSlice:
    """A group of instances with TPUs, and what belongs to it."""

    group: Group
    template: Part | None
    members: tuple[Instance, ...]
    policy: Part | None = None
    at: datetime | None = None

    @property
    def zone(self) -> str:
        """Return its zone."""
        return self.group.zone or (self.members[0].zone if self.members else "")

    @property
    def machine_type(self) -> str:
        """Return the machine type of its instances."""
        if self.members:
            return self.members[0].machine_type
        return self.template.machine_type if self.template else ""

    @property
    def topology(self) -> str:
        """Return its topology, from the first that says it."""
        told = [self.group.topology, self.policy.topology if self.policy else ""]
        if not any(told):
            told += [member.topology for member in self.members if "tpu-env" in member.metadata]
        shapes = topologies(self.machine_type).items()
        told += [shape for shape, vms in shapes if vms == self.group.size]
        return next((topology for topology in told if topology), own_topology(self.machine_type))

    @property
    def tier(self) -> str:
        """Return its tier."""
        return Node.from_api({"schedulingConfig": self._properties()["schedulingConfig"]}).tier

    @property
    def waits(self) -> bool:
        """Return whether it waits for capacity: none of its instances exists before all can."""
        nothing_yet = all(member.waits for member in self.members)
        return self.group.in_progress and nothing_yet and not self._is_going

    @property
    def failure(self) -> dict[str, Any]:
        """Return why it will not come, as a status; empty if it may still come, or exists.

        Google ends the wait of a single instance, but never that of a group.
        """
        group, error = self.group, self.group.error
        if not self.waits:
            gave_up = group.is_stable and not (self.members or group.running)
            return error if gave_up else {}
        until = parse_time(group.until)
        if until is not None and self.at is not None and self.at >= until:
            why = f" {error['message']}" if error else ""
            text = f"The request waited until its valid until time {group.until}.{why}"
            return {"code": error.get("code", RESOURCE_EXHAUSTED), "message": text}
        return error if error and self.tier in _IMPATIENT else {}

    @property
    def state(self) -> str:
        """Return the state of the whole slice in the words of nodes."""
        return next(state for state, is_so in GROUP_STATES if is_so(self))

    # The terms of the table of states -----------------------------------------------------------

    def _all(self, *states: str) -> bool:
        return bool(self.members) and all(member.state in states for member in self.members)

    def _any(self, *states: str) -> bool:
        return any(member.state in states for member in self.members)

    @property
    def _is_going(self) -> bool:
        return self._all("DELETING") or 0 < max(1, len(self.members)) <= self.group.deleting

    @property
    def _is_whole(self) -> bool:
        size = self.group.size
        count = sum(member.state == "READY" for member in self.members)
        counted = size if self.group.running is None else self.group.running
        return 0 < size == count == counted

    @property
    def _is_ready(self) -> bool:
        active = self.group.topology_state in ("", "ACTIVE")
        return self.group.is_stable and self._is_whole and active

    @property
    def _is_final(self) -> bool:
        """Return whether an instance is missing and will not be replaced."""
        alive = sum(member.is_alive for member in self.members)
        counted = alive if self.group.running is None else self.group.running
        busy = self._any("STOPPING", "DELETING", "CREATING", "REPAIRING")
        return self.group.is_stable and not busy and max(alive, counted) < max(1, self.group.size)

    @property
    def _is_coming(self) -> bool:
        """Return whether it comes up for the first time, as far as the API shows."""
        activating = self.group.topology_state in ("", "ACTIVATING")
        return not self._any("READY") or activating

    @property
    def _has_lost_topology(self) -> bool:
        return self.group.topology_state == "FAILED" and self.group.is_stable

    def raw(self, state: str) -> dict[str, Any]:
        """Return the slice as the Cloud TPU API would show it."""
        group, members = self.group, self.members
        planned = [one.upcoming_maintenance for one in members]
        maintenance = [one for one in planned if one]
        ongoing = [one for one in maintenance if one.get("maintenanceStatus") == "ONGOING"]
        return node_raw(
            (group.project, self.zone, group.name),
            self.machine_type,
            self.topology,
            self._properties(),
            members,
            id=group.uid,
            state=state,
            health="UNHEALTHY_MAINTENANCE" if ongoing else "HEALTHY",
            createTime=born(group.raw),
            upcomingMaintenance=next(iter([*ongoing, *maintenance]), {}),
        )

    def _properties(self) -> dict[str, Any]:
        """Return what all its instances have in common, or will have by their template."""
        template = self.template.properties if self.template else {}
        planned = shown(template, self.group.project, self.zone)
        if not self.members:
            return planned
        each = [member.own_properties() for member in self.members]
        common = self.members[0].properties()
        for key in ("labels", "metadata"):
            common[key] = _common([one[key] for one in each])
        ours = {key: planned["labels"][key] for key in _OURS if key in planned["labels"]}
        common["labels"] = {**ours, **common["labels"]}
        common["dataDisks"] = _disks_of_all([one["dataDisks"] for one in each])
        return common


# The first that is so decides about a group that does not wait for capacity. Google's words:
# stable, bulk instance operation, current instance statuses, applied accelerator topology.
GROUP_STATES: tuple[tuple[str, Callable[[GroupSlice], bool]], ...] = (
    ("DELETING", lambda one: one._is_going),
    ("READY", lambda one: one._is_ready),
    ("TERMINATED", lambda one: one._has_lost_topology),
    ("STOPPED", lambda one: one._all("STOPPED") and len(one.members) >= one.group.size),
    ("PREEMPTED", lambda one: one._is_final and one._any("PREEMPTED")),
    # Its instances have expired or were deleted, and the group does not make them again.
    ("TERMINATED", lambda one: one._is_final),
    ("STOPPING", lambda one: one._all("STOPPING", "STOPPED", "DELETING")),
    ("CREATING", lambda one: one._is_coming),
    # ACTIVE_DEGRADED, INCOMPLETE, REACTIVATING, or an instance that is being recreated.
    ("REPAIRING", lambda one: True),
)


def slice_nodes(seen: Seen) -> Listing[Node]:
    """Return the slices that exist."""
    alone = [
        node_of(instance)
        for instance in seen.instances.items
        if instance.has_tpus and instance.is_single and not instance.waits
    ]
    groups = [
        Node.from_api(one.raw(one.state)) for one in seen.slices if not (one.waits or one.failure)
    ]
    return Listing([*alone, *groups, *_strays(seen)], seen.unreachable)


def slice_requests(seen: Seen) -> Listing[QueuedResource]:
    """Return the slices that wait for capacity, or have waited in vain."""
    alone = [
        _request(node_of(instance), WAITING, {}, instance.raw)
        for instance in seen.instances.items
        if instance.has_tpus and instance.is_single and instance.waits
    ]
    groups = []
    for one in seen.slices:
        if one.waits or one.failure:
            node = Node.from_api(one.raw("CREATING"))
            state, error = (FAILED, one.failure) if one.failure else (WAITING, one.group.error)
            groups.append(_request(node, state, error, one.group.raw))
    return Listing([*alone, *groups], seen.unreachable)


def leftovers(seen: Seen) -> list[Node]:
    """Return what is left of slices, or was made for one before its group could be: as dead nodes.

    They have no chips, so they have no accelerator type.
    """
    # Two zones of a region may share a part.
    used = {path for group in seen.groups.items for path in (group.template, group.policy)}
    found: dict[tuple[str, str, str], Node] = {}
    for part in [*seen.templates.items, *seen.policies.items]:
        mark = part.mark
        if mark is None or part.path in used:
            continue
        if any(zone.startswith(f"{basename(part.scope)}-") for zone in seen.groups.unreachable):
            continue  # A group that is out of sight may use it.
        if (f"zones/{mark.zone}", mark.slice) in seen.members:
            continue  # Its instances are still there.
        found.setdefault((mark.zone, mark.slice, mark.owner), _leftover(part, mark))
    return list(found.values())


def _leftover(part: Part, mark: Mark) -> Node:
    link = text_in(part.raw, "selfLink") or text_in(part.raw, "region")
    path = (part_of(link, "projects"), mark.zone, mark.slice)
    raw = node_raw(path, part.machine_type, "", {"labels": {OWNER_LABEL: mark.owner}})
    return Node.from_api({**raw, "state": "TERMINATED", "createTime": born(part.raw)})


def _strays(seen: Seen) -> list[Node]:
    """Return the instances of groups that are gone."""
    there = {(group.scope, group.name) for group in seen.groups.items}
    found = []
    for (scope, name), members in seen.members.items():
        if (scope, name) in there or {scope, basename(scope)} & {*seen.groups.unreachable}:
            continue
        first = members[0]
        one = GroupSlice(Group(name, "", first.project, first.zone, 0, {}), None, tuple(members))
        created = sorted(born(member.raw) for member in members)
        moments = [parse_time(moment) for moment in created]
        is_new = any(moment is not None and seen.at - moment < NEW for moment in moments)
        going = all(member.state in ("STOPPING", "DELETING") for member in members)
        state = "DELETING" if going else "CREATING" if is_new else "TERMINATED"
        raw = {**one.raw(state), "createTime": created[0]}
        found.append(Node.from_api(raw))
    return found


def _request(
    node: Node, state: str, error: Mapping[str, Any], raw: Mapping[str, Any]
) -> QueuedResource:
    return QueuedResource(
        name=node.name,
        project=node.project,
        zone=node.zone,
        state=state,
        initiator="",
        tier=node.tier,
        nodes=[replace(node, state="CREATING")],
        error=dict(error),
        reservation=_reservation(raw),
        valid_until=_valid_until(raw),
        create_time=node.create_time,
        raw=dict(raw),
        api=COMPUTE,
    )


def _reservation(raw: Mapping[str, Any]) -> str:
    values = map_in(raw, "reservationAffinity").get("values") or [""]
    return basename(str(values[0]))


def _valid_until(raw: Mapping[str, Any]) -> str | None:
    """Return when a request ends, if it says how long it may wait."""
    said = _UNTIL.search(text_in(raw, "description"))
    if said:
        return said["until"]
    created = parse_time(text_in(raw, "creationTimestamp"))
    lasting = texts_in(raw, "labels").get(WAIT_LABEL, "")
    if created is None or not lasting.isdigit():
        return None
    ends = (created + timedelta(seconds=int(lasting))).astimezone(timezone.utc)
    return ends.strftime("%Y-%m-%dT%H:%M:%SZ")


def _order(instance: Instance) -> tuple[bool, int, str]:
    return instance.worker is None, instance.worker or 0, instance.name


def _common(maps: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first, *others = maps
    return {
        key: value for key, value in first.items() if all(one.get(key) == value for one in others)
    }


def _disks_of_all(each: Iterable[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the data disks, with the workers that have them where not all do."""
    having: dict[tuple[str, str], list[str]] = {}
    workers = 0
    for index, disks in enumerate(each):
        workers += 1
        for disk in disks:
            having.setdefault((disk["sourceDisk"], disk["mode"]), []).append(str(index))
    return [
        {
            "sourceDisk": source,
            "mode": mode,
            **({} if len(ids) == workers else {"workerIds": ids}),
        }
        for (source, mode), ids in having.items()
    ]
