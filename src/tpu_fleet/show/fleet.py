"""Tables of the grant, the queue and the costs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from ..workers.fleet_facts import FleetView
from .cost import dollars, per_hour, time_left, total

# A row is the API that has it, and its cells.
Rows = Sequence[tuple[str, Sequence[str]]]


def table_of(title: str, names: Sequence[str], rows: Rows) -> Table:
    """Draw rows; the API is a column, the third, where they are not all of one."""
    table = Table(title=title, title_justify="left")
    both = len({api for api, _cells in rows}) > 1
    for name in [*names[:2], *(["API"] if both else []), *names[2:]]:
        table.add_column(name, overflow="fold")
    for api, cells in rows:
        table.add_row(*cells[:2], *([api] if both else []), *cells[2:])
    return table


def grant_table(view: FleetView) -> Table:
    """Draw the entries of the grant."""
    names = ("zone", "TPU", "tier", "in use", "until")
    rows = [
        (
            entry["api"],
            (
                entry["zone"],
                entry["accelerator_type"] or entry["generation"],
                entry["tier"],
                f"{entry['used']} of {entry['chips']} chips",
                time_left(entry),
            ),
        )
        for entry in view.grant["allocations"]
    ]
    table = table_of("Grant", names, rows)
    if view.grant["unrestricted"]:
        table.add_row("all", "all", "all", "unrestricted: everything costs money", "no end")
    elif not view.grant["declared"]:
        table.caption = "fleet_allocations is not declared: nothing may be created."
    elif not view.grant["allocations"]:
        table.caption = "fleet_allocations is empty: nothing may be created."
    return table


def costs_table(view: FleetView) -> Table:
    """Draw the nodes with their prices."""
    names = ("slice", "type", "zone", "tier", "chips", "price per hour", "cost so far")
    rows = [
        (
            node["api"],
            (
                node["name"] if node["ours"] else f"{node['name']} (not ours)",
                node["accelerator_type"],
                node["zone"],
                node["tier"],
                str(node["chips"] or "unknown"),
                per_hour(node),
                dollars(node["usd_so_far"]),
            ),
        )
        for node in view.nodes
    ]
    table = table_of("Costs", names, rows)
    table.caption = (
        f"Outside the grant: now {total(view.nodes, 'usd_per_hour_billed')} an hour, so far "
        f"{total(view.nodes, 'usd_so_far')}. List prices of {view.prices['date']}: prices change, "
        "spot prices daily; set fleet_prices for yours."
    )
    table.caption_justify = "left"
    return table


def queue_table(view: FleetView) -> Table:
    """Draw the waiting requests."""
    names = ("name", "types", "zone", "tier", "state", "since", "waits until")
    rows = [
        (
            queued["api"],
            (
                queued["name"] if queued["ours"] else f"{queued['name']} (not ours)",
                ", ".join(queued["accelerator_types"]),
                queued["zone"],
                queued["tier"],
                queued["reason"],
                queued["create_time"] or "-",
                queued["valid_until"] or "-",
            ),
        )
        for queued in view.queued
    ]
    return table_of("Requests", names, rows)
