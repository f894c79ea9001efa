"""Tables of the grant, the queue and the costs."""

from __future__ import annotations

from rich.table import Table

from ..workers.fleet_facts import FleetView
from .cost import dollars, per_hour, time_left, total


def grant_table(view: FleetView) -> Table:
    """Draw the entries of the grant."""
    table = Table(title="Grant", title_justify="left")
    for name in ("zone", "TPU", "tier", "in use", "until"):
        table.add_column(name, overflow="fold")
    for entry in view.grant["allocations"]:
        table.add_row(
            entry["zone"],
            entry["accelerator_type"] or entry["generation"],
            entry["tier"],
            f"{entry['used']} of {entry['chips']} chips",
            time_left(entry),
        )
    if view.grant["unrestricted"]:
        table.add_row("all", "all", "all", "unrestricted: everything costs money", "no end")
    elif not view.grant["declared"]:
        table.caption = "fleet_allocations is not declared: nothing may be created."
    elif not view.grant["allocations"]:
        table.caption = "fleet_allocations is empty: nothing may be created."
    return table


def costs_table(view: FleetView) -> Table:
    """Draw the nodes with their prices."""
    table = Table(title="Costs", title_justify="left")
    for name in ("slice", "type", "zone", "tier", "chips", "price per hour", "cost so far"):
        table.add_column(name, overflow="fold")
    for node in view.nodes:
        table.add_row(
            node["name"] if node["ours"] else f"{node['name']} (not ours)",
            node["accelerator_type"],
            node["zone"],
            node["tier"],
            str(node["chips"] or "unknown"),
            per_hour(node),
            dollars(node["usd_so_far"]),
        )
    table.caption = (
        f"Outside the grant: now {total(view.nodes, 'usd_per_hour_billed')} an hour, so far "
        f"{total(view.nodes, 'usd_so_far')}. List prices of {view.prices['date']}: prices change, "
        "spot prices daily; set fleet_prices for yours."
    )
    table.caption_justify = "left"
    return table


def queue_table(view: FleetView) -> Table:
    """Draw the waiting requests."""
    table = Table(title="Queued resources", title_justify="left")
    for name in ("name", "types", "zone", "tier", "state", "since", "waits until"):
        table.add_column(name, overflow="fold")
    for queued in view.queued:
        table.add_row(
            queued["name"] if queued["ours"] else f"{queued['name']} (not ours)",
            ", ".join(queued["accelerator_types"]),
            queued["zone"],
            queued["tier"],
            queued["reason"],
            queued["create_time"] or "-",
            queued["valid_until"] or "-",
        )
    return table
