# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute Engine as the fleet's cloud: instances with TPUs, and groups of them, as nodes.

What waits for capacity there is the slice itself, so its deletion is one call in all states.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from .._compute.groups import (
    Seen,
    leftovers,
    slice_nodes,
    slice_requests,
    waiting_until,
)
from .._compute.machine_types import shape_of
from .._compute.slice_bodies import Shape, slice_bodies, waiting_body
from .._compute.slice_patch import patch_slice
from .._compute.slices import ComputeSlices
from .._core.error_row import INVALID_ARGUMENT
from .._core.errors import Busy, PermissionDenied, TpuError, from_status
from .._core.wait import Clock
from .._fleet_file.declared import Slice
from .._fleet_file.grant import Place
from .._tpu.client import Client
from .._tpu.model import Listing, Node, Operation, basename, parse_time
from .._tpu.node_spec import NodeSpec
from .._tpu.queued_resources import QueuedResource
from .cloud import Starts
from .plan_terms import Action

# The time until which an instance may wait goes with its body, because only the moment at which it
# is sent decides how long that is.
UNTIL = "until"


class ComputeApi:
    """One project's slices on Compute Engine."""

    def __init__(
        self,
        client: Client,
        wanted: Collection[str] = (),
        slices: ComputeSlices | None = None,
        owner: str | None = None,
    ) -> None:
        """`wanted` names the slices to create: what is left of them is used, not shown.

        Of all others it is shown as a dead node, so that it is deleted, if it is the owner's.
        """
        self._owner = owner
        self._slices = slices or ComputeSlices(client)
        self._wanted = frozenset(wanted)
        self._seen: Seen | None = None
        # Whether each zone lists each machine type, or the error of asking it.
        self._offers: dict[tuple[str, str], bool | TpuError] = {}
        self._starts = Starts(self._slices.refresh)
        # Zone and name of what was deleted: an instance then shows as one that is being stopped.
        self._deleted: set[tuple[str, str]] = set()

    @property
    def clock(self) -> Clock:
        """Return the clock that measures the waits."""
        return self._slices.clock

    def now(self) -> datetime:
        """Return the time of the API."""
        return self._slices.transport.server_time()

    def nodes(self) -> Listing[Node]:
        """Return the slices of all zones that answer, but those that wait for capacity."""
        seen = self._seen = self._slices.list()
        found = slice_nodes(seen)
        left = [node for node in leftovers(seen) if node.name not in self._wanted]
        there = {(node.zone, node.name) for node in found.items if node.state != "CREATING"}
        self._deleted &= there
        return Listing([*map(self._as_deleted, found.items), *left], found.unreachable)

    def _as_deleted(self, node: Node) -> Node:
        going = node.state == "STOPPING" and (node.zone, node.name) in self._deleted
        return replace(node, state="DELETING") if going else node

    def queued(self, tiers: Collection[str]) -> Listing[QueuedResource]:
        """Return the slices that wait, from the same lists as the last nodes.

        A slice that gets its capacity between two looks would otherwise be in neither.
        """
        seen = self._seen or self._slices.list()
        return slice_requests(seen)

    def operations(self, zone: str) -> list[Operation]:
        """Return the operations of a zone."""
        return self._slices.operations(zone)

    def not_offered(self, action: Action) -> TpuError | None:
        """Return the error that a creation would get, as far as the zone's catalogue shows."""
        kind = machine_type_of(action.body)
        key = (action.zone, kind)
        if kind and key not in self._offers:
            self._offers[key] = self._offered(*key)
        offer = self._offers.get(key, True)
        if isinstance(offer, TpuError):
            return offer
        if offer:
            return None
        message = f"Machine type with name '{kind}' does not exist in zone '{action.zone}'."
        return from_status({"code": INVALID_ARGUMENT, "message": message}, f"zones/{action.zone}")

    def _offered(self, zone: str, kind: str) -> bool | TpuError:
        try:
            return self._slices.offers(zone, kind)
        except PermissionDenied:
            # Permission to create slices does not include permission to read the catalogue.
            return True
        except TpuError as error:
            return error

    def prepare(self, action: Action, patience: float) -> None:
        """Make the policy and the template of a group."""
        if "group" in action.body:
            self._slices.prepare(action.zone, action.body, patience)

    def do(self, action: Action, patience: float) -> Operation:
        """Carry out an action."""
        slices, zone, name = self._slices, action.zone, action.name
        if action.kind.startswith("create"):
            return slices.create(zone, self._timed(action.body), patience, prepared=True)
        if action.kind.startswith("delete"):
            operation = slices.delete(zone, name, patience, self._owner, uid=action.uid)
            self._deleted.add((zone, name))
            return operation
        if action.kind == "start_node":
            return self._starts.start(zone, name, lambda: slices.start(zone, name, action.uid))
        if action.kind == "stop_node":
            return slices.stop(zone, name, action.uid)
        return patch_slice(slices, zone, name, action.differences, patience, action.uid)

    def _timed(self, bodies: Mapping[str, Any]) -> dict[str, Any]:
        """Return the bodies of a request that does not wait longer than it may."""
        timed = {kind: body for kind, body in bodies.items() if kind != UNTIL}
        until = parse_time(bodies.get(UNTIL))
        params = timed.get("instance", {}).get("params")
        if until is None or not params:
            return timed
        left = (until - self.now()).total_seconds()
        if left < 1:
            raise Busy(f"The time until which it could wait ended at {bodies[UNTIL]}.")
        seconds = min(left, float(params["requestValidForDuration"]["seconds"]))
        return {**timed, "instance": waiting_body(timed["instance"], seconds)}


def compute_creation(
    want: Slice, place: Place, spec: NodeSpec, until: str | None
) -> tuple[str, dict[str, Any]]:
    """Return the kind and the request bodies of the action that creates a slice at a place."""
    kind, topology = want.machine_type, want.topology
    if not kind:
        kind, topology = shape_of(place.accelerator_type, want.topology)
    shape = Shape(
        machine_type=kind,
        topology=topology,
        tier=want.tier,
        max_run_duration=want.max_run_duration,
        valid_for=want.valid_for,
        reservation=want.reservation,
    )
    bodies: dict[str, Any] = slice_bodies(spec, shape)
    if until and "group" in bodies:
        bodies["group"]["description"] = waiting_until(until)
    elif until:
        bodies[UNTIL] = until
    return "create_node", bodies


def machine_type_of(bodies: Mapping[str, Any]) -> str:
    """Return the machine type that the bodies of a creation ask for."""
    template = bodies.get("template", {}).get("properties", {})
    return basename(str(bodies.get("instance", template).get("machineType") or ""))
