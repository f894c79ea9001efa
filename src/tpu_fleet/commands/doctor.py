"""`tpu-fleet doctor`: a table of problems and remedies. The playbook runs the checks."""

from __future__ import annotations

from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible

from ..contract.exits import Exit
from ..contract.printing import option_json, print_json
from ..show.console import say, wide_console
from ..show.table import Column, Table, print_tables
from ..show.waiting import waiting_for
from ..workers.inventory.hosts import fold
from ..workers.inventory.read import PlayError, reason_of
from ..workers.play import Event, fact_of, play
from .many import limit_of
from .options import option_limit, option_slice, option_timeout

COLOURS = {"fail": "red", "warn": "yellow", "ok": "green", "skipped": "dim"}
"""The colour of each state, the worst first."""


def table_of(report: dict[str, Any], everything: bool) -> Table:
    """Draw the rows; without `everything` only those with problems."""
    table = Table([Column("STATE"), Column("WHERE"), Column("CHECK")], note="WHAT")
    for row in sorted(report["rows"], key=lambda one: [*COLOURS].index(one["status"])):
        if everything or row["status"] not in ("ok", "skipped"):
            subject = f"{row['check']} {row['subject']}".strip()
            remedy = row["remedy"] and f"Remedy: {row['remedy']}"
            table.add(
                *(row["status"], fold(row["hosts"]), subject),
                notes=(row["says"], remedy),
                style=COLOURS[row["status"]],
            )
    return table


def ask_doctor(limit: str | None, fix: bool, time_limit: float | None) -> dict[str, Any]:
    """Run the playbook; return its report."""
    found: list[dict[str, Any]] = []
    said: list[str] = []

    def on_event(event: Event) -> None:
        report = fact_of(event, "doctor_report")
        if report:
            found.append(report)
        elif event.get("stdout") and event.get("event") in ("error", "verbose"):
            said.append(str(event["stdout"]))

    variables: dict[str, Any] = {"doctor_fix": fix, "doctor_fail_on": "never"}
    if time_limit is not None:
        variables["doctor_time_limit"] = time_limit
    # The inventory itself may be wrong.
    env = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "false"}
    wanted = f"localhost,{limit}" if limit else None
    play("tpu.fleet.doctor", on_event, limit=wanted, variables=variables, env=env)
    if not found:
        why = reason_of("\n".join(said)) or "\n".join(said[-5:])
        raise PlayError(why or "tpu.fleet.doctor did not finish.")
    return found[-1]


@click.command()
@option_json()
@click.option("--all", "everything", is_flag=True, help="Also show successful checks.")
@click.option("--fix", is_flag=True, help="Apply the safe repairs.")
@option_slice()
@option_limit()
@option_timeout("time_limit", "for a worker. [default: 20]")
@click.pass_context
def doctor(
    context: click.Context,
    machine_readable: bool,
    everything: bool,
    fix: bool,
    slices: tuple[str, ...],
    limit: str | None,
    time_limit: float | None,
) -> None:
    """Check the fleet, and show problems with their remedies.

    \b
      tpu-fleet doctor
      tpu-fleet doctor --slice pair
      tpu-fleet doctor --limit pair-w1 --fix
    """
    try:
        with waiting_for("Checking the fleet and its workers"):
            report = ask_doctor(limit_of(slices, limit), fix, time_limit)
    except PlayError as error:
        click.echo(f"Error: {visible(str(error))}", err=True)
        context.exit(Exit.UNKNOWN)
    if machine_readable:
        shown = {key: value for key, value in report.items() if key != "lines"}
        print_json("doctor", shown)
    else:
        show(report, everything)
    context.exit(int(report["exit_code"]))


def show(report: dict[str, Any], everything: bool) -> None:
    """Print the report for a person."""
    console = wide_console()
    table = table_of(report, everything)
    if table.rows:
        print_tables(console, table)
    for line in report["lines"]:
        if line.startswith(("fixed: ", "not fixed: ")):
            say(console, line)
    say(console, report["lines"][-1])
