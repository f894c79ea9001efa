"""`tpu-fleet status`: workers, runs, queue, grant and costs of a fleet as tables."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import shown
from ansible_collections.tpu.fleet.plugins.plugin_utils.read_inventory import (
    Inventory,
    InventoryError,
)
from rich.console import Console
from rich.table import Table

from ..history.record import remember
from ..show.console import wide_console
from ..show.fleet import costs_table, grant_table, queue_table, table_of
from ..show.waiting import waiting_for
from ..workers.ask import default_file
from ..workers.fleet_facts import FleetView, read_fleet
from ..workers.hosts import Known
from ..workers.play import PlayError, read_inventory
from ..workers.run_answers import Answers, ask_for_runs


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
    runs: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""


def rows_of(
    workers: Iterable[tuple[str, Mapping[str, Any]]],
    runs: Mapping[str, Sequence[dict[str, Any]]],
    unreachable: Mapping[str, str],
) -> list[Row]:
    """Join the inventory with the workers' answers."""
    rows = []
    for host, seen in workers:
        reason = seen.get("tpu_vm_unavailable_reason")
        rows.append(
            Row(
                host=host,
                slice=str(seen.get("tpu_vm_name") or ""),
                type=str(seen.get("tpu_vm_accelerator_type") or ""),
                zone=str(seen.get("tpu_vm_zone") or ""),
                tier=str(seen.get("tpu_vm_tier") or ""),
                state=str(seen.get("tpu_vm_state") or ""),
                external_ip=str(seen.get("tpu_vm_external_ip") or "-"),
                internal_ip=str(seen.get("tpu_vm_internal_ip") or "-"),
                api=str(seen.get("tpu_vm_api") or "tpu"),
                runs=list(runs.get(host, [])),
                problem=shown(reason or unreachable.get(host, "")),
            )
        )
    return rows


def runs_by_host(answers: Answers) -> dict[str, list[dict[str, Any]]]:
    """Return the runs of each worker that answered, as its agents describe them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in answers.runs:
        described = run.status.to_dict() if run.status else {}
        found.setdefault(run.host, []).append({**described, "state": run.state})
    return found


def fleet_table(rows: Sequence[Row]) -> Table:
    """Draw the workers."""
    names = ("worker", "type", "zone", "tier", "state", "external IP", "internal IP", "runs")
    cells = []
    for row in rows:
        runs = "\n".join(
            f"{run['run']}: {run['state']}, attempt {run['attempt']}" for run in row.runs
        )
        seen = (row.host, row.type, row.zone, row.tier, row.state.lower())
        cells.append(
            (row.api, (*seen, row.external_ip, row.internal_ip, row.problem or runs or "-"))
        )
    return table_of("Fleet", names, cells)


def runs_table(rows: Sequence[Row]) -> Table:
    """Draw the runs."""
    table = Table(title="Runs", title_justify="left")
    for name in ("run", "worker", "user", "state", "attempt", "pid", "log"):
        table.add_column(name, overflow="fold")
    for row in rows:
        for run in row.runs:
            problems = "; ".join(run.get("problems") or ())
            table.add_row(
                run["run"],
                row.host,
                run["user"],
                f"{run['state']} ({problems})" if problems else run["state"],
                str(run["attempt"]),
                str(run["pid"] or "-"),
                run["log_path"],
            )
    return table


@dataclass(frozen=True)
class Looked:
    """What the API says of the fleet in this folder."""

    inventory: Inventory
    known: Known
    view: FleetView


def look() -> Looked:
    """Ask the API for workers, grant, queue and costs of the fleet in this folder."""
    inventory = read_inventory()
    known = Known(default_file(os.environ), inventory.fleet())
    return Looked(inventory, known, read_fleet(inventory))


def collect() -> tuple[list[Row], FleetView]:
    """Ask the API and the workers of the fleet in this folder."""
    with waiting_for("Asking the API for nodes, grant and costs"):
        seen = look()
    known = seen.known
    # Their addresses were just read from the API, so no second read is needed.
    workers = list(known.fleet.targets)
    with waiting_for(f"Asking {len(workers)} workers for their runs"):
        answers = ask_for_runs(known, workers, retry=False)
    remember(answers, known, seen.view)
    unreachable = {result.name: result.says for result in answers.results if not result.ok}
    return rows_of(seen.inventory.workers(), runs_by_host(answers), unreachable), seen.view


@click.command()
@click.option("--json", "machine_readable", is_flag=True, help="Print JSON.")
def status(machine_readable: bool) -> None:
    """Show workers, runs, queue, grant and costs of the fleet in this folder."""
    try:
        rows, view = collect()
    except (PlayError, InventoryError) as error:
        raise click.ClickException(str(error)) from error
    if machine_readable:
        click.echo(json.dumps({"workers": [asdict(row) for row in rows], **asdict(view)}, indent=2))
        return
    # A pipe has no width, and tables squeezed into 80 columns are unreadable.
    console = wide_console()
    console.print(fleet_table(rows))
    if any(row.runs for row in rows):
        console.print(runs_table(rows))
    print_view(console, view)


def print_view(console: Console, view: FleetView) -> None:
    """Print queue, grant, costs and warnings."""
    if view.problem:
        console.print(f"Grant and costs are unknown: {view.problem}", style="red", markup=False)
        return
    if view.queued:
        console.print(queue_table(view))
    console.print(grant_table(view))
    if view.nodes:
        console.print(costs_table(view))
    for line in view.warnings:
        console.print(f"Warning: {line}", style="yellow", markup=False, soft_wrap=True)
