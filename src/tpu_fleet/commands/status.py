"""`tpu-fleet status`: workers, runs, queue, grant and costs of a fleet as tables."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import STUCK
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import lines_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.usage import DECLARED
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import RUNNING
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.workers import maintenance_text
from ansible_collections.tpu.fleet.plugins.modules.fleet_info import DOCUMENTATION
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory
from rich.console import Console

from ..contract.printing import option_json, print_json
from ..history.money import Account, chips_in
from ..history.record import account, history_here, remember
from ..history.store import HistoryError
from ..show.console import say, wide_console
from ..show.cost import dollars, idle_price
from ..show.fleet import (
    API,
    NOTHING,
    beside_table,
    costs_table,
    grant_table,
    planned,
    requests_table,
)
from ..show.table import Column, Table, print_tables
from ..show.times import long
from ..show.waiting import waiting_for
from ..workers.ask.run_answers import Answers, ask_for_runs
from ..workers.ask.run_view import RunView, views_of
from ..workers.inventory.fleet_facts import FleetView, read_fleet
from ..workers.inventory.hosts import NO_CONFIG, Known
from ..workers.inventory.read import read_inventory
from .asking import asking
from .runs import described
from .runs import table_of as runs_table

DAYS = 7.0
"""Days of which the use is shown."""
UNHEALTHY = "UNHEALTHY"
"""The state of a worker whose node is READY, and which cannot be used."""


@dataclass(frozen=True)
class Row:
    """One row of the table of workers."""

    host: str
    slice: str
    type: str
    zone: str
    tier: str
    state: str
    external_ip: str
    internal_ip: str
    api: str = "tpu"
    problem: str = ""
    maintenance: str = ""
    """Which maintenance the API announces, and when."""


def rows_of(
    workers: Iterable[tuple[str, Mapping[str, Any]]], unreachable: Mapping[str, str]
) -> list[Row]:
    """Join the inventory with why workers did not answer."""
    rows = []
    for host, seen in workers:
        reason = seen.get("tpu_vm_unavailable_reason")
        state = str(seen.get("tpu_vm_state") or "")
        rows.append(
            Row(
                host=host,
                slice=str(seen.get("tpu_vm_name") or ""),
                type=str(seen.get("tpu_vm_accelerator_type") or ""),
                zone=str(seen.get("tpu_vm_zone") or ""),
                tier=str(seen.get("tpu_vm_tier") or ""),
                state=UNHEALTHY if reason and state == "READY" else state,
                external_ip=str(seen.get("tpu_vm_external_ip") or "-"),
                internal_ip=str(seen.get("tpu_vm_internal_ip") or "-"),
                api=str(seen.get("tpu_vm_api") or "tpu"),
                problem=shown(reason or unreachable.get(host, "")),
                maintenance=shown(maintenance_text(seen.get("tpu_vm_upcoming_maintenance"))),
            )
        )
    return rows


def runs_on(host: str, answers: Answers) -> list[dict[str, Any]]:
    """Return the runs of a worker, as its agents describe them."""
    return [
        {**run.status.to_dict(), "state": run.state} for run in answers.runs if run.host == host
    ]


def fleet_table(rows: Sequence[Row], missing: Sequence[Mapping[str, Any]] = ()) -> Table:
    """Draw the workers."""
    columns = (
        Column("WORKER"),
        Column("TYPE", 1),
        API,
        Column("ZONE", 4),
        Column("TIER", 2),
        Column("STATE"),
        Column("EXTERNAL IP", 3),
        Column("INTERNAL IP", 5),
    )
    table = Table(columns, "Workers", note="WHY")
    for row in sorted(rows, key=lambda one: not one.problem):
        seen = (row.host, row.type, row.api, row.zone, row.tier, row.state.lower())
        table.add(
            *(*seen, row.external_ip, row.internal_ip),
            notes=[row.problem, planned(row.maintenance)],
            style="red" if row.problem else "yellow" if row.maintenance else "",
        )
    api = rows[0].api if rows else ""
    for one in missing:
        cells = (one["name"], one["accelerator_type"], api, one["zone"], one["tier"], one["phase"])
        style = "red" if one["phase"] in STUCK else "yellow"
        table.add(*cells, "-", "-", notes=[one["text"]], style=style)
    return table


@dataclass(frozen=True)
class Looked:
    """What the API says of the fleet in this folder."""

    inventory: Inventory
    known: Known
    view: FleetView
    name: str = ""
    """The fleet's name for people."""


def look_at_fleet(beside: bool = False) -> Looked:
    """Ask the API for workers, grant, requests and costs of the fleet in this folder.

    `beside` also asks for what costs beside the chips, which takes longer.
    """
    inventory = read_inventory()
    known = Known(NO_CONFIG, inventory.fleet())
    return Looked(inventory, known, read_fleet(inventory, beside), name_of(inventory))


def name_of(inventory: Inventory) -> str:
    """Return the fleet's name for people."""
    params = inventory.params(DOCUMENTATION, DECLARED)
    project, owner = str(params["project"]), str(params["owner"])
    return project if owner == "managed" else f"{project}/{owner}"


def collect() -> tuple[list[Row], Answers, FleetView]:
    """Ask the API and the workers of the fleet in this folder."""
    with waiting_for("Asking the API for nodes, grant and costs"):
        seen = look_at_fleet(beside=True)
    known = seen.known
    # Their addresses were just read from the API, so no second read is needed.
    workers = list(known.fleet.targets)
    with asking(workers):
        answers = ask_for_runs(known, workers, retry=False)
    remember(answers, known, seen.view)
    unreachable = {result.name: result.says for result in answers.results if not result.ok}
    rows = rows_of(seen.inventory.workers(), unreachable)
    return rows, answers, seen.view


@click.command()
@option_json()
def status(machine_readable: bool) -> None:
    """Show workers, runs, queue, grant and costs of the fleet.

    Chips without a running run are named with their price. The use by each person in seven days is
    that which the watcher and other commands have seen.

    \b
      tpu-fleet status
      tpu-fleet status --json | jq .runs
    """
    rows, answers, view = collect()
    views = views_of(answers.runs)
    if machine_readable:
        workers = [{**asdict(row), "runs": runs_on(row.host, answers)} for row in rows]
        runs = [*map(described, views)]
        print_json("status", {"workers": workers, "runs": runs, **asdict(view)})
        return
    show(wide_console(), rows, views, view, use_seen())


def use_seen() -> Account | None:
    """Return the use of the last days; None if nothing is kept."""
    try:
        with contextlib.closing(history_here()) as history:
            return account(history, DAYS, time.time())
    except HistoryError:
        return None  # `remember` has said why


def use_table(use: Account) -> Table:
    """Draw who used what, with a sum."""
    columns = (
        Column("PERSON"),
        Column("CHIP HOURS", right=True),
        Column("IDLE OF THESE", 2, right=True),
        Column("OF THE GRANT", 3, right=True),
        Column("LIST PRICE", 1, right=True),
        Column("BILLED", right=True),
    )
    table = Table(columns, f"Use in {long(use.seconds)}")
    rows = [(user or "no run yet", one) for user, one in use.people.items()]
    for name, one in [*rows, ("together", use.whole)]:
        share = f"{one.hours / use.granted * 100:.1f} %" if use.granted else "-"
        hours = [f"{one.hours:,.1f}", f"{one.idle:,.1f}"]
        table.add(name, *hours, share, dollars(one.list_usd), dollars(one.usd))
    return table


def show(
    console: Console,
    rows: Sequence[Row],
    runs: Sequence[RunView],
    view: FleetView,
    use: Account | None = None,
) -> None:
    """Print workers, runs, queue, grant, costs, who used what, and warnings."""
    tables = [fleet_table(rows, view.missing or ())] if rows or view.missing else []
    tables += [runs_table(runs, "Runs")] if runs else []
    if not view.problem:
        tables += [requests_table(view)] if view.queued else []
        tables += [grant_table(view)]
        tables += [costs_table(view)] if view.nodes else []
        tables += [beside_table(view.beside)] if view.beside else []
    tables += [use_table(use)] if use and use.whole.hours else []
    if not (rows or view.nodes or view.queued or view.problem):
        say(console, f"{NOTHING}\n")
    print_tables(console, *tables)
    chips = chips_in(view.nodes, {one.slice for one in runs if one.state == RUNNING})
    if chips.idle:
        price = idle_price(chips.idle_usd, chips.idle_billed)
        told = f"{chips.idle} of {chips.all} chips are idle ({', '.join(chips.slices)}): {price}."
        say(console, told, "yellow")
    for line in lines_of(view.budget):
        say(console, f"Budget: {line}.")
    if view.problem:
        say(console, f"Grant and costs are unknown: {view.problem}", "red")
    for line in view.warnings:
        say(console, f"Warning: {line}", "yellow")
