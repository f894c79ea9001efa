"""The grant, the queue and the costs of the fleet in this folder."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._ansible.api_module import client_from
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import book_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import budget_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.usage import (
    DECLARED,
    beside_of,
    missing_slices,
    usage_at,
    world_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.bucket_places import (
    PLACED,
    Places,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import KEEP, Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.modules.fleet_info import DOCUMENTATION
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import (
    Inventory,
    InventoryError,
)


@dataclass(frozen=True)
class FleetView:
    """The result of the module fleet_info, or why there is none."""

    grant: dict[str, Any] = field(default_factory=dict)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    queued: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    prices: dict[str, Any] = field(default_factory=dict)
    now: str = ""
    unreachable_zones: list[str] = field(default_factory=list)
    missing: list[dict[str, Any]] | None = None
    """The declared slices without a node; None if the fleet file could not be read."""
    problem: str = ""
    beside: list[dict[str, Any]] | None = None
    """What costs beside the chips; None if it was not asked for."""
    budget: dict[str, Any] | None = None
    """The budget with what is spent and left; None without one, or if it was not asked for."""


def view_of(
    usage: Mapping[str, Any], missing: list[dict[str, Any]] | None = None, unread: str = ""
) -> FleetView:
    """Return the fleet's facts as the commands show them.

    `unread` says why the declared slices are not known.
    """
    unreachable = ", ".join(usage["unreachable_zones"])
    unknown = (
        [f"not counted, because these zones did not answer: {unreachable}"] if unreachable else []
    )
    unknown += [f"not in the costs: {why}" for why in usage.get("beside_unknown", ())]
    return FleetView(
        grant=usage["grant"],
        nodes=usage["nodes"],
        queued=usage["queued"],
        warnings=[*usage["grant_warnings"], *unknown, *([unread] if unread else [])],
        prices=usage["prices"],
        now=usage["now"],
        unreachable_zones=usage["unreachable_zones"],
        missing=missing,
        beside=usage.get("beside"),
        budget=usage.get("budget"),
    )


def read_fleet(inventory: Inventory, beside: bool = False) -> FleetView:
    """Read from the API what the fleet uses; `beside` also what costs beside the chips."""
    try:
        params = inventory.params(DOCUMENTATION, DECLARED)
        client = client_from(params)
        world = world_of(params, client)
        usage = usage_at(params, world.nodes, world.queued, world.unreachable, world.now)
        if beside:
            usage |= beside_of(params, client, world.nodes, buckets_of(inventory))
            told = {**params, "budget": inventory.said("fleet_budget")}
            usage["budget"] = budget_of(told, client, world)
    except (TpuError, InventoryError) as error:
        return FleetView(problem=str(error))
    try:
        return view_of(usage, missing_of(inventory, client, world))
    except (TpuError, InventoryError) as error:
        return view_of(usage, None, f"the declared slices are not known: {error}")


def buckets_of(inventory: Inventory) -> list[str]:
    """Return the buckets that slices use, as far as the fleet file can be read."""
    data = {}
    for name in PLACED:
        with contextlib.suppress(InventoryError):
            data[name] = inventory.said(name)
    return Places.declared({key: value for key, value in data.items() if value}).buckets()


def missing_of(inventory: Inventory, client: Client, world: World) -> list[dict[str, Any]]:
    """Return the declared slices without a node; those that rest are not meant to have one."""
    params = inventory.planned()
    fleet = Fleet.from_params(params, client.project)
    if fleet.holds or any(one.on_finish != KEEP for one in fleet.slices):
        world = replace(world, rest=book_of(client, params["owner"], params["rest_file"]).read())
    return missing_slices(fleet, world)
