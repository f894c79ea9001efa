# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Cloud TPU API as the fleet's cloud: nodes, and queued resources where they are needed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from .._core.error_row import INVALID_ARGUMENT
from .._core.error_table import Reaction
from .._core.errors import TpuError, from_status, row_of
from .._core.wait import Clock
from .._fleet_file.declared import Slice
from .._fleet_file.grant import Place
from .._tpu.client import Client
from .._tpu.model import Listing, Node, Operation
from .._tpu.node_apply import patch_body
from .._tpu.node_spec import NodeSpec
from .._tpu.queued_resources import QueuedResource
from .._tpu.queued_spec import queued_body
from .._tpu.versions import V2, V2ALPHA1
from .cloud import Starts
from .plan_terms import Action

# Only v2alpha1 returns these in its answers.
ALPHA_TIERS = frozenset({"best_effort", "flex_start"})


class TpuApi:
    """One project's nodes and queued resources."""

    def __init__(self, client: Client) -> None:
        self._client = client
        # What each zone offers, or the error of asking it.
        self._offers: dict[tuple[str, str], frozenset[str] | TpuError] = {}
        self._starts = Starts(client.operations.refresh)

    @property
    def clock(self) -> Clock:
        """Return the clock that measures the waits."""
        return self._client.clock

    def now(self) -> datetime:
        """Return the time of the API."""
        return self._client.transport.server_time()

    def nodes(self) -> Listing[Node]:
        """Return the nodes of all zones that answer."""
        return self._client.nodes.list()

    def queued(self, tiers: Collection[str]) -> Listing[QueuedResource]:
        """Return the queued resources, from a version of the API that distinguishes these tiers."""
        version = V2 if ALPHA_TIERS.isdisjoint(tiers) else V2ALPHA1
        return self._client.queued_resources.list(version=version)

    def operations(self, zone: str) -> list[Operation]:
        """Return the operations of a zone."""
        return self._client.operations.list(zone).items

    def not_offered(self, action: Action) -> TpuError | None:
        """Return the error that a creation would get, as far as the zone's catalogue shows."""
        spec = action.body.get("tpu", {}).get("nodeSpec", [{}])[0].get("node", action.body)
        for field_name, known in (
            ("acceleratorType", self._client.accelerator_types),
            ("runtimeVersion", self._client.runtime_versions),
        ):
            wanted = str(spec.get(field_name) or "")
            key = (action.zone, field_name)
            if key not in self._offers:
                self._offers[key] = _offered(known, action.zone)
            offers = self._offers[key]
            if isinstance(offers, TpuError):
                return offers
            if wanted and offers and wanted not in offers:
                return _no_such_offer(field_name, wanted, action.zone, offers)
        return None

    def prepare(self, action: Action, patience: float) -> None:
        """Nothing is needed before."""

    def do(self, action: Action, patience: float) -> Operation:
        """Carry out an action by one request."""
        nodes, queued = self._client.nodes, self._client.queued_resources
        zone, name = action.zone, action.name
        if action.kind == "create_node":
            return nodes.ask(zone, name, action.body)
        if action.kind == "create_queued":
            return queued.ask(zone, name, action.body)
        if action.kind == "delete_node":
            return nodes.ask_deletion(zone, name)
        if action.kind == "delete_queued":
            return queued.ask_deletion(zone, name)
        if action.kind == "start_node":
            return self._starts.start(zone, name, lambda: nodes.ask_start(zone, name))
        if action.kind == "stop_node":
            return nodes.stop(zone, name)
        body, mask = patch_body(action.differences)
        operation = nodes.ask_patch(zone, name, body, mask)
        # The next look has to show the change, otherwise the patch would be sent twice.
        self._client.operations.wait(operation, timeout=patience)
        return operation


def creation(want: Slice, place: Place, spec: NodeSpec, until: str | None) -> tuple[str, Any]:
    """Return the kind and the request body of the action that creates a slice at a place."""
    body = spec.create_body()
    if not want.queued:
        return "create_node", body
    return "create_queued", queued_body(
        spec.project,
        place.zone,
        {want.name: body},
        tier=want.asked_tier,
        valid_until_time=until,
        reservation=want.reservation,
        max_run_duration=want.max_run_duration,
    )


def _offered(known: Any, zone: str) -> frozenset[str] | TpuError:
    """Return what a zone offers; empty where the catalogue may not be read."""
    try:
        return frozenset(getattr(item, "name", item) for item in known.list(zone).items)
    except TpuError as error:
        # Permission to create slices does not include permission to read the catalogue.
        return error if row_of(error).reaction is Reaction.NEVER_HERE else frozenset()


def _no_such_offer(field_name: str, wanted: str, zone: str, offers: frozenset[str]) -> TpuError:
    """Return the error that the API would give to a request for the slice."""
    near = get_close_matches(wanted, sorted(offers), 3)
    hint = f" There is {', '.join(near)}." if near else ""
    what = (
        f'The requested runtime version "{wanted}" was not found in zone "{zone}".'
        if field_name == "runtimeVersion"
        else f'The accelerator type "{wanted}" was not found in zone "{zone}".'
    )
    return from_status({"code": INVALID_ARGUMENT, "message": what + hint})
