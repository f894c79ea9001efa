# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What exists in a project, how much of the grant it uses, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from .._core.ownership import OWNER_LABEL
from .._fleet_file.declared import Fleet
from .._fleet_file.grant import (
    Grant,
    Holding,
    allocation_facts,
    holdings_of,
    parse_allocations,
    type_of,
)
from .._fleet_file.prices import DATE, SOURCES, parse_prices
from .._google.apis import GoogleApis
from .._tpu.client import Client
from .._tpu.model import Node
from .._tpu.queued_facts import reason_of
from .._tpu.queued_resources import QueuedResource
from .._tpu.queued_spec import seconds_of
from .._tpu.workers import maintenance_text, unavailable_reason, worker_count
from .apis import everything
from .beside import look
from .costs import Cost, costs_of, money
from .plan import plan_fleet
from .plan_terms import ENDED, READY, World

# The variable of the fleet file for each option of the module fleet_info.
DECLARED = {
    **{
        option: f"fleet_{option}"
        for option in ("project", "api_endpoint", "allocations", "prices", "owner")
    },
    "warn_before": "fleet_allocation_warn_before",
}


def node_row(node: Node, held: Holding, cost: Cost, owner: str) -> dict[str, Any]:
    """Describe one node and its cost."""
    return {
        "name": node.name,
        "zone": node.zone,
        "api": node.api,
        "accelerator_type": held.place.accelerator_type,
        "tier": held.tier,
        "state": node.state,
        "chips": held.chips,
        "ours": node.labels.get(OWNER_LABEL) == owner,
        "create_time": node.create_time,
        "outside": cost.outside,
        "usd_per_hour": money(cost.per_hour),
        "usd_per_hour_billed": money(cost.billed_per_hour),
        "usd_so_far": money(cost.so_far),
        "unavailable": unavailable_reason(node) or "",
        "maintenance": maintenance_text(node.upcoming_maintenance),
        "workers": worker_count(node),
    }


def queued_row(queued: QueuedResource, owner: str) -> dict[str, Any]:
    """Describe one queued resource."""
    return {
        "name": queued.name,
        "zone": queued.zone,
        "api": queued.api,
        "state": queued.state,
        "reason": reason_of(queued),
        "tier": queued.tier,
        "accelerator_types": [type_of(node) for node in queued.nodes],
        "chips": sum(held.chips for held in holdings_of([], [queued])),
        "create_time": queued.create_time,
        "valid_until": queued.valid_until,
        "ours": queued.labels.get(OWNER_LABEL) == owner,
    }


def usage_of(params: Mapping[str, Any], client: Client) -> dict[str, Any]:
    """Return what module fleet_info returns, for its options."""
    world = world_of(params, client)
    found = usage_at(params, world.nodes, world.queued, world.unreachable, world.now)
    return {**found, **beside_of(params, client, world.nodes)}


def beside_of(
    params: Mapping[str, Any], client: Client, nodes: Iterable[Node], buckets: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what costs beside the chips; buckets are those of the options and these."""
    names = sorted({*(params.get("buckets") or ()), *buckets})
    seen = look(GoogleApis(client), nodes, params["owner"], names)
    return {"beside": seen.rows, "beside_unknown": seen.unknown}


def world_of(params: Mapping[str, Any], client: Client) -> World:
    """Return what the API has and waits for, of any creator."""
    listed, waiting = everything(client, parse_allocations(params["allocations"]))
    unreachable = frozenset([*listed.unreachable, *waiting.unreachable])
    now = client.transport.server_time()
    return World(tuple(listed.items), tuple(waiting.items), unreachable, now)


NOT_CREATED = "not created"


def missing_slices(fleet: Fleet, world: World) -> list[dict[str, Any]]:
    """Describe the declared slices without a node, but for those that are not meant to have one."""
    wants = {want.name: want for want in fleet.slices}
    there = {node.name for node in world.nodes if fleet.owns(node.labels)}
    found = []
    for status in plan_fleet(fleet, world, {}).statuses:
        if status.slice in there or status.phase in (READY, ENDED):
            continue
        want, asked = wants[status.slice], status.phase != "coming"
        found.append(
            {
                "name": want.name,
                "phase": status.phase if asked else NOT_CREATED,
                "text": status.text if asked else "it is declared, and nothing was requested yet",
                "accelerator_type": ", ".join(want.types),
                "zone": ", ".join(want.zones),
                "tier": want.tier,
            }
        )
    return found


def usage_at(
    params: Mapping[str, Any],
    found: Iterable[Node],
    waiting: Sequence[QueuedResource],
    unreachable: Iterable[str],
    now: datetime,
) -> dict[str, Any]:
    """Return the same of what was just read from the API."""
    grant = parse_allocations(params["allocations"])
    prices = parse_prices(params["prices"])
    nodes = sorted(found, key=lambda node: (node.created or now, node.name))
    holdings = holdings_of(nodes, waiting)
    own = holdings[: len(nodes)]
    costs = costs_of(nodes, own, grant, prices, now)
    owner, used = params["owner"], _grant(grant, holdings, now)
    warnings = grant.warnings(
        holdings, now, seconds_of("warn_before", params["warn_before"]), owner
    )
    return {
        "lines": [*map(_line, used["allocations"]), *warnings],
        "grant": used,
        "grant_warnings": warnings,
        "nodes": [
            node_row(node, held, cost, owner)
            for node, held, cost in zip(nodes, own, costs, strict=True)
        ],
        "queued": [queued_row(queued, owner) for queued in waiting if not queued.is_active],
        "prices": {"date": DATE, "sources": list(SOURCES)},
        "now": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "unreachable_zones": sorted(set(unreachable)),
    }


def _grant(grant: Grant, holdings: list[Holding], now: datetime) -> dict[str, Any]:
    return {
        "unrestricted": grant.unrestricted,
        "declared": grant.declared,
        "allocations": allocation_facts(grant, holdings, now),
    }


def _line(entry: dict[str, Any]) -> str:
    end = f", until {entry['last_day']}" if entry["ends"] else ""
    return f"{entry['text']}: {entry['used']} in use{end}"
