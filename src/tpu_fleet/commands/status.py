"""`tpu-fleet status`: the fleet as tables, from the inventory and the status playbook."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import shown
from rich.console import Console
from rich.table import Table

from ..show.console import wide_console
from ..show.fleet import costs_table, grant_table, queue_table
from ..workers.fleet_facts import FleetView, view_of
from ..workers.play import Event, PlayError, play, problem_of, read_inventory

READ_RUNS = "Read the status of the runs"
"""The task of playbooks/status.yml whose result is read."""


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
    runs: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""


def rows_of(
    inventory: Mapping[str, Any],
    runs: Mapping[str, Sequence[dict[str, Any]]],
    unreachable: Mapping[str, str],
) -> list[Row]:
    """Join the inventory (`ansible-inventory --list`) with the workers' answers."""
    variables: Mapping[str, Mapping[str, Any]] = inventory["_meta"]["hostvars"]
    hosts = [
        host
        for group in ("tpu", "tpu_unavailable")
        for host in inventory.get(group, {}).get("hosts", [])
    ]
    rows = []
    for host in hosts:
        seen = {key: _plain(value) for key, value in variables.get(host, {}).items()}
        state = str(seen.get("tpu_vm_state") or "")
        rows.append(
            Row(
                host=host,
                slice=str(seen.get("tpu_vm_name") or ""),
                type=str(seen.get("tpu_vm_accelerator_type") or ""),
                zone=str(seen.get("tpu_vm_zone") or ""),
                tier=str(seen.get("tpu_vm_tier") or ""),
                state=state,
                external_ip=str(seen.get("tpu_vm_external_ip") or "-"),
                internal_ip=str(seen.get("tpu_vm_internal_ip") or "-"),
                runs=list(runs.get(host, [])),
                problem=shown(seen.get("tpu_vm_unavailable_reason") or unreachable.get(host, "")),
            )
        )
    return rows


def _plain(value: Any) -> Any:
    """Remove Ansible's marker from a string that it did not trust as a template."""
    if isinstance(value, dict) and set(value) == {"__ansible_unsafe"}:
        return value["__ansible_unsafe"]
    return value


def runs_of(event: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]] | None:
    """Return host and runs when an ansible-runner event carries them."""
    data = event.get("event_data", {})
    if event.get("event") != "runner_on_ok" or data.get("task") != READ_RUNS:
        return None
    return data["host"], data["res"]["answer"]


def fleet_table(rows: Sequence[Row]) -> Table:
    """Draw the workers."""
    table = Table(title="Fleet", title_justify="left")
    for name in ("worker", "type", "zone", "tier", "state", "external IP", "internal IP", "runs"):
        table.add_column(name, overflow="fold")
    for row in rows:
        runs = "\n".join(
            f"{run['run']}: {run['state']}, attempt {run['attempt']}" for run in row.runs
        )
        table.add_row(
            row.host,
            row.type,
            row.zone,
            row.tier,
            row.state.lower(),
            row.external_ip,
            row.internal_ip,
            row.problem or runs or "-",
        )
    return table


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


def collect() -> tuple[list[Row], FleetView]:
    """Ask the API and the workers of the fleet in this folder."""
    inventory = read_inventory()
    views: list[FleetView] = []
    runs: dict[str, list[dict[str, Any]]] = {}
    unreachable: dict[str, str] = {}

    def on_event(event: Event) -> None:
        found, view, problem = runs_of(event), view_of(event), problem_of(event)
        if found:
            runs[found[0]] = found[1]
        elif view:
            views.append(view)
        elif problem:
            unreachable[problem[0]] = problem[1]

    play("tpu.fleet.status", on_event)
    view = views[-1] if views else FleetView(problem="tpu.fleet.status did not come so far")
    return rows_of(inventory, runs, unreachable), view


@click.command()
@click.option("--json", "machine_readable", is_flag=True, help="Print JSON.")
def status(machine_readable: bool) -> None:
    """Show workers, runs, queue, grant and costs of the fleet in this folder."""
    try:
        rows, view = collect()
    except PlayError as error:
        raise click.ClickException(str(error)) from error
    if machine_readable:
        click.echo(json.dumps({"workers": [asdict(row) for row in rows], **asdict(view)}, indent=2))
        return
    # A pipe has no width of its own; tables squeezed into 80 columns cannot be read.
    console = wide_console()
    console.print(fleet_table(rows))
    if any(row.runs for row in rows):
        console.print(runs_table(rows))
    print_view(console, view)


def print_view(console: Console, view: FleetView) -> None:
    """Print queue, grant, costs and warnings."""
    if view.problem:
        console.print(f"Grant and costs are not known: {view.problem}", style="red", markup=False)
        return
    if view.queued:
        console.print(queue_table(view))
    console.print(grant_table(view))
    if view.nodes:
        console.print(costs_table(view))
    for line in view.warnings:
        console.print(f"Warning: {line}", style="yellow", markup=False, soft_wrap=True)
