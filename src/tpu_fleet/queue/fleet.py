"""What the fleet file says of submitted runs: the queue, its people, the slices that serve it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._compute.slices import ComputeSlices
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import NotFound, TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Slice
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import (
    FleetQueue,
    check_queue,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import Limits
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    RUNNING,
    Owner,
    Submitted,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue
from ansible_collections.tpu.fleet.plugins.module_utils._roles.here import names_on
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import COMPUTE
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory

from ..workers.inventory.client import client_of
from .bucket import FleetBucket
from .demand import COMES, RESTS, UP, Need, Offer, chips_of, needs

VARIABLES = (
    *("fleet_queue", "fleet_slices", "fleet_zone", "fleet_users", "fleet_venvs"),
    *("fleet_secrets", "fleet_runs"),
)
NO_QUEUE = (
    "The fleet file has no fleet_queue, so runs cannot be submitted. Add it with a bucket, as "
    "fleet_queue: {bucket: gs://my-bucket/queue}, and run tpu-fleet apply."
)
_STATES = {"CREATING": "is being created", "PREEMPTED": "preempted", "STOPPED": "stopped"}


class QueueError(RuntimeError):
    """The queue cannot be used as it is declared; the text has the remedy."""


@dataclass(frozen=True)
class Seen:
    """A node of the fleet, as the inventory read it from the API."""

    state: str
    zone: str
    type: str


@dataclass(frozen=True)
class QueueOfFleet:
    """The queue of a fleet file, and what submitted runs refer to."""

    queue: FleetQueue
    slices: Mapping[str, Slice]
    """Those that serve it."""
    users: Sequence[Mapping[str, Any]]
    venvs: Sequence[Mapping[str, Any]]
    secrets: Mapping[str, str]
    """The sets of secrets, each with its user."""
    runs: Sequence[str]
    """The names of declared runs."""
    client: Callable[[], Client]
    login_key: Path
    folder: Path
    """That of the inventory."""
    nodes: Mapping[str, Seen] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        """Return the limits of a person."""
        return Limits(self.queue.runs, self.queue.chips, self.queue.chip_hours)

    def opened(self) -> Queue:
        """Return the operations on the queue."""
        return Queue(FleetBucket(self.client(), self.queue.bucket, self.queue.folder))

    def serving(
        self, runs: Iterable[Submitted] = (), doing: Mapping[str, str] = MappingProxyType({})
    ) -> list[Serving]:
        """Return the slices that serve the queue; one that has a run, or is away, is busy.

        So is one that does something else, by its name.
        """
        has = {one.owner.slice: one.name for one in runs if one.state == RUNNING and one.owner}
        busy = {**doing, **has}
        return [
            Serving(
                *(name, kind, chips_of(kind), names_on(self.venvs, name), busy.get(name) or away),
                reserved=self.queue.reserved_for(name),
            )
            for name, one in self.slices.items()
            for kind, away in [self._now(one)]
        ]

    def _now(self, one: Slice) -> tuple[str, str]:
        """Return the type that a slice has, and why it takes no run; empty if it may."""
        node = self.nodes.get(one.name)
        if node is None:
            away = "comes for a run" if one.on_queue else "does not exist now"
            return one.types[0] if one.types else "", away
        away = "" if node.state == "READY" else _STATES.get(node.state, node.state.lower())
        return node.type, away

    def coming(
        self,
        phases: Mapping[str, str],
        resting: Sequence[str],
        runs: Iterable[Submitted],
        now: float,
    ) -> dict[str, Need]:
        """Return the resting slices that runs need, by the phases of all slices in a plan."""
        offers = [
            Offer(
                *(name, one.types, names_on(self.venvs, name), RESTS if name in resting else UP),
                reserved=self.queue.reserved_for(name),
            )
            for name, one in self.slices.items()
            if name in resting or phases.get(name) in COMES
        ]
        found = needs(runs, offers, self.limits, now=now)
        return {name: need for name, need in found.items() if name in resting}

    def node_of(self, owner: Owner) -> Node | None:
        """Return what the API has under an owner's name now; None: that is not known."""
        declared = self.slices.get(owner.slice)
        # Another fleet may use the same bucket, with slices in another project.
        return None if declared is None else node_at(self.client(), owner, declared.api)


def node_at(client: Client, owner: Owner, api: str) -> Node | None:
    """Return what an API has under an owner's name now; None: that is not known."""
    try:
        if api == COMPUTE:
            return _slice_at(ComputeSlices(client), owner)
        node = client.nodes.get(owner.zone, owner.slice)
    except NotFound:
        return Node("", "")
    except TpuError:
        return None
    return Node(node.state, node.uid or "")


def _slice_at(slices: ComputeSlices, owner: Owner) -> Node:
    group = slices.group(owner.zone, owner.slice)
    if group is not None:
        # Of its machines each may be preempted and come back: only another group is evidence.
        return Node("READY", group.uid)
    alone = slices.instance(owner.zone, owner.slice)
    return Node("", "") if alone is None else Node(alone.state, alone.uid)


def queue_of(inventory: Inventory) -> QueueOfFleet:
    """Return the queue of the fleet in an inventory; raises QueueError and InventoryError."""
    data = {name: inventory.said(name) for name in VARIABLES}
    problems = check_queue({name: value for name, value in data.items() if value is not None})
    if problems:
        raise QueueError("\n".join(map(str, problems)))
    queue = FleetQueue.read(data["fleet_queue"])
    if queue is None:
        raise QueueError(NO_QUEUE)
    first = Path(inventory.sources[0]).absolute()
    slices = [Slice.read(entry, data["fleet_zone"]) for entry in data["fleet_slices"] or ()]
    return QueueOfFleet(
        queue=queue,
        slices={one.name: one for one in slices if queue.is_served_by(one.name)},
        users=data["fleet_users"] or (),
        venvs=data["fleet_venvs"] or (),
        secrets={
            str(one["name"]): str(one.get("user") or "root") for one in data["fleet_secrets"] or ()
        },
        runs=[str(one["name"]) for one in data["fleet_runs"] or ()],
        client=cache(lambda: client_of(inventory)),
        login_key=inventory.key_file(),
        folder=first if first.is_dir() else first.parent,
        nodes=_nodes(inventory.workers()),
    )


def _nodes(workers: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Seen]:
    return {
        str(seen.get("tpu_vm_name")): Seen(
            str(seen.get("tpu_vm_state") or ""),
            str(seen.get("tpu_vm_zone") or ""),
            str(seen.get("tpu_vm_accelerator_type") or ""),
        )
        for _host, seen in workers
        if seen.get("tpu_vm_name")
    }
