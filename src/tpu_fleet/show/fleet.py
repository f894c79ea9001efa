"""Tables of the grant, the requests for slices and the costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
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
    table = Table.of(
        view.grant["allocations"],
        (Column("ZONE"), itemgetter("zone")),
        (Column("TPU"), lambda entry: entry["accelerator_type"] or entry["generation"]),
        (API, itemgetter("api")),
        (Column("TIER"), itemgetter("tier")),
        (Column("IN USE"), lambda entry: f"{entry['used']} of {entry['chips']} chips"),
        (Column("ENDS"), time_left),
        title="Grant",
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
    table = Table.of(
        view.nodes,
        (Column("SLICE"), _named),
        (Column("TYPE", 3), itemgetter("accelerator_type")),
        (API, itemgetter("api")),
        (Column("ZONE", 5), itemgetter("zone")),
        (Column("TIER", 4), itemgetter("tier")),
        (Column("CHIPS", 2, right=True), lambda node: str(node["chips"] or "unknown")),
        (Column("PRICE PER HOUR", right=True), per_hour),
        (Column("COST SO FAR", 1, right=True), lambda node: dollars(node["usd_so_far"])),
        title="Costs",
    )
    table.caption = (
        f"Outside the grant: now {total(view.nodes, 'usd_per_hour_billed')} an hour, so far "
        f"{total(view.nodes, 'usd_so_far')}. List prices of {view.prices['date']}: prices change, "
        "spot prices daily; set fleet_prices for yours."
    )
    return table


def beside_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Draw what costs beside the chips."""
    table = Table.of(
        rows,
        (Column("WHAT"), itemgetter("what")),
        (Column("NAME"), itemgetter("name")),
        (Column("PLACE", 2), itemgetter("place")),
        (Column("KIND", 1), lambda row: row["kind"].lower() or "-"),
        (Column("AMOUNT", right=True), amount_of),
        (Column("A MONTH", right=True), _a_month),
        title="Beside the chips",
    )
    table.caption = (
        f"Together {total(rows, 'usd_per_month')} a month by list price. No grant of chips pays "
        "it; traffic, and what soft delete keeps, are not in it."
    )
    return table


def requests_table(view: FleetView) -> Table:
    """Draw the waiting requests."""
    return Table.of(
        view.queued,
        (Column("NAME"), _named),
        (Column("TYPES", 2), lambda queued: ", ".join(queued["accelerator_types"])),
        (API, itemgetter("api")),
        (Column("ZONE", 4), itemgetter("zone")),
        (Column("TIER", 5), itemgetter("tier")),
        (Column("STATE"), itemgetter("reason")),
        (Column("SINCE", 1), lambda queued: queued["create_time"] or "-"),
        (Column("WAITS UNTIL", 3), lambda queued: queued["valid_until"] or "-"),
        title="Requests",
    )


def _named(one: Mapping[str, Any]) -> str:
    return one["name"] if one["ours"] else f"{one['name']} (not ours)"


def _a_month(row: Mapping[str, Any]) -> str:
    price = dollars(row["usd_per_month"])
    return f"at least {price}" if row["is_cut"] else price
