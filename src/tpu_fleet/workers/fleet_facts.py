"""The grant, the queue and the costs of the fleet in this folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.ownership import DEFAULT_OWNER
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.usage import usage_of
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import (
    IMPERSONATE_ENV,
    TOKEN_ENV,
    AuthOptions,
    Client,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils.read_inventory import (
    Inventory,
    InventoryError,
)

WARN_DAYS = 7.0
"""As in module fleet_info."""


@dataclass(frozen=True)
class FleetView:
    """The result of the module fleet_info, or why there is none."""

    grant: dict[str, Any] = field(default_factory=dict)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    queued: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    prices: dict[str, Any] = field(default_factory=dict)
    now: str = ""
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
    )


def read_fleet(inventory: Inventory) -> FleetView:
    """Read from the API what the fleet uses."""
    try:
        said = inventory.declared(
            "project", "api_endpoint", "allocations", "prices", "owner", "allocation_warn_days"
        )
        client = Client(
            said["project"] or "", endpoint=said["api_endpoint"] or None, auth=auth_here()
        )
        options = {
            "allocations": said["allocations"],
            "prices": said["prices"],
            "owner": said["owner"] or DEFAULT_OWNER,
            "warn_days": float(said["allocation_warn_days"] or WARN_DAYS),
        }
        return view_of(usage_of(options, client))
    except (TpuError, InventoryError) as error:
        return FleetView(problem=str(error))


def auth_here() -> AuthOptions:
    """Return the credentials of this environment, found as the playbooks find them."""
    return AuthOptions(
        access_token=os.environ.get(TOKEN_ENV) or None,
        impersonate_service_account=os.environ.get(IMPERSONATE_ENV) or None,
    )
