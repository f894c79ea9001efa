"""The grant, the queue and the costs, as the status playbook read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .play import Event, PlayError, play

READ_FLEET = "Read the fleet"
"""The task of playbooks/status.yml whose result is read."""


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


def view_of(event: Event) -> FleetView | None:
    """Return the fleet's facts, if an ansible-runner event contains them."""
    data: Mapping[str, Any] = event.get("event_data", {})
    if data.get("task") != READ_FLEET:
        return None
    if event.get("event") == "runner_on_failed":
        return FleetView(problem=str(data["res"].get("msg", "the fleet could not be read")))
    if event.get("event") != "runner_on_ok":
        return None
    result = data["res"]
    unreachable = ", ".join(result["unreachable_zones"])
    unknown = [f"not counted, for nobody could be asked: {unreachable}"] if unreachable else []
    return FleetView(
        grant=result["grant"],
        nodes=result["nodes"],
        queued=result["queued"],
        warnings=[*result["grant_warnings"], *unknown],
        prices=result["prices"],
        now=result["now"],
    )


def read_fleet() -> FleetView:
    """Ask the API what the fleet in this folder uses."""
    found: list[FleetView] = []

    def on_event(event: Event) -> None:
        view = view_of(event)
        if view:
            found.append(view)

    play("tpu.fleet.status", on_event, tags="grant")
    if not found:
        raise PlayError("tpu.fleet.status did not come as far as the fleet; run it to see why.")
    return found[-1]
