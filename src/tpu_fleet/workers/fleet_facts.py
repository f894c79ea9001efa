"""The grant, the queue and the costs of the fleet in this folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._ansible.api_module import client_from
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.usage import DECLARED, usage_of
from ansible_collections.tpu.fleet.plugins.modules.fleet_info import DOCUMENTATION
from ansible_collections.tpu.fleet.plugins.plugin_utils.read_inventory import (
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
    problem: str = ""


def view_of(usage: Mapping[str, Any]) -> FleetView:
    """Return the fleet's facts as the commands show them."""
    unreachable = ", ".join(usage["unreachable_zones"])
    unknown = (
        [f"not counted, because these zones did not answer: {unreachable}"] if unreachable else []
    )
    return FleetView(
        grant=usage["grant"],
        nodes=usage["nodes"],
        queued=usage["queued"],
        warnings=[*usage["grant_warnings"], *unknown],
        prices=usage["prices"],
        now=usage["now"],
        unreachable_zones=usage["unreachable_zones"],
    )


def read_fleet(inventory: Inventory) -> FleetView:
    """Read from the API what the fleet uses."""
    try:
        params = inventory.params(DOCUMENTATION, DECLARED)
        return view_of(usage_of(params, client_from(params)))
    except (TpuError, InventoryError) as error:
        return FleetView(problem=str(error))
