"""Tables of the grant, the requests for slices and the costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..workers.inventory.fleet_facts import FleetView
from .cost import amount_of, dollars, per_hour, time_left, total
from .table import Column, Table

API = Column("API", if_mixed=True)
NOTHING = "Nothing is created yet: tpu-fleet apply creates what is declared."


def planned(maintenance: str) -> str:
    """Return the words for an announced maintenance; empty if there is none."""
    return f"maintenance is planned: {maintenance}" if maintenance else ""


def grant_table(view: FleetView) -> Table:
    """Draw the entries of the grant."""
    columns = (
        Column("ZONE"),
        Column("TPU"),
        API,
        Column("TIER"),
        Column("IN USE"),
        Column("ENDS"),
    )
    table = Table(columns, "Grant")
    for entry in view.grant["allocations"]:
        table.add(
            entry["zone"],
            entry["accelerator_type"] or entry["generation"],
            entry["api"],
            entry["tier"],
            f"{entry['used']} of {entry['chips']} chips",
            time_left(entry),
        )
    if view.grant["unrestricted"]:
        table.add("all", "all", "", "all", "unrestricted: everything costs money", "no end")
    elif not view.grant["declared"]:
        table.caption = "fleet_allocations is not declared: nothing may be created."
    elif not view.grant["allocations"]:
        table.caption = "fleet_allocations is empty: nothing may be created."
    return table


def costs_table(view: FleetView) -> Table:
    """Draw the nodes with their prices."""
    columns = (
        Column("SLICE"),
        Column("TYPE", 3),
        API,
        Column("ZONE", 5),
        Column("TIER", 4),
        Column("CHIPS", 2, right=True),
        Column("PRICE PER HOUR", right=True),
        Column("COST SO FAR", 1, right=True),
    )
    table = Table(columns, "Costs")
    for node in view.nodes:
        table.add(
            node["name"] if node["ours"] else f"{node['name']} (not ours)",
            node["accelerator_type"],
            node["api"],
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
    return table


def beside_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Draw what costs beside the chips."""
    columns = (
        Column("WHAT"),
        Column("NAME"),
        Column("PLACE", 2),
        Column("KIND", 1),
        Column("AMOUNT", right=True),
        Column("A MONTH", right=True),
    )
    table = Table(columns, "Beside the chips")
    for row in rows:
        price = dollars(row["usd_per_month"])
        table.add(
            row["what"],
            row["name"],
            row["place"],
            row["kind"].lower() or "-",
            amount_of(row),
            f"at least {price}" if row["is_cut"] else price,
        )
    table.caption = (
        f"Together {total(rows, 'usd_per_month')} a month by list price. No grant of chips pays "
        "it; traffic, and what soft delete keeps, are not in it."
    )
    return table


def requests_table(view: FleetView) -> Table:
    """Draw the waiting requests."""
    columns = (
        Column("NAME"),
        Column("TYPES", 2),
        API,
        Column("ZONE", 4),
        Column("TIER", 5),
        Column("STATE"),
        Column("SINCE", 1),
        Column("WAITS UNTIL", 3),
    )
    table = Table(columns, "Requests")
    for queued in view.queued:
        table.add(
            queued["name"] if queued["ours"] else f"{queued['name']} (not ours)",
            ", ".join(queued["accelerator_types"]),
            queued["api"],
            queued["zone"],
            queued["tier"],
            queued["reason"],
            queued["create_time"] or "-",
            queued["valid_until"] or "-",
        )
    return table
