"""`tpu-fleet drill`: interrupt a run on purpose, and report what it lost."""

from __future__ import annotations

from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.drill import DRILLS
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import InventoryError

from ..workers.inventory.names import NameOf, no_such
from ..workers.inventory.read import PlayError, read_inventory
from ..workers.sync.declared import declared_runs
from .options import option_worker
from .playbook import How, playbook_options, run_playbook


def check_run(run: str) -> None:
    """Refuse a run that the fleet file does not declare, before the playbook begins."""
    try:
        names = [str(one["name"]) for one in declared_runs(read_inventory())]
    except (PlayError, InventoryError) as error:
        raise click.ClickException(str(error)) from error
    if run not in names:
        raise click.ClickException(no_such("declared run", run, names))


@click.command()
@click.argument("run", type=NameOf("runs"))
@click.option(
    "--drill",
    "drills",
    type=click.Choice(list(DRILLS)),
    multiple=True,
    metavar="DRILL",
    help=f"What is done, in this order: {', '.join(DRILLS)}. [default: kill, agent, reboot]",
)
@click.option("--slice", "place", type=NameOf("slices"), metavar="NAME", help="Only this slice.")
@option_worker()
@click.option(
    "--timeout", type=click.IntRange(1), metavar="SECONDS", help="Time limit until the run is back."
)
@click.option("--yes", is_flag=True, help="Do not ask for the name of the run.")
@playbook_options()
@click.pass_context
def drill(
    context: click.Context,
    run: str,
    drills: tuple[str, ...],
    place: str | None,
    worker: int | None,
    timeout: int | None,
    yes: bool,
    how: How,
) -> None:
    """Interrupt RUN on purpose, and report what it lost.

    Each drill begins when the run has recovered from the one before. The table at the end says
    after how many seconds the program was back, and which steps it lost.

    \b
      tpu-fleet drill digits --check
      tpu-fleet drill digits
      tpu-fleet drill digits --drill kill --drill maintenance --yes

    It runs the playbook tpu.fleet.drill.
    """
    check_run(run)
    asked: dict[str, Any] = {
        "fleet_run": run,
        **({"fleet_drills": ",".join(drills)} if drills else {}),
        **({"fleet_drill_slice": place} if place else {}),
        **({"fleet_drill_worker": worker} if worker is not None else {}),
        **({"fleet_drill_timeout": f"{timeout}s"} if timeout else {}),
    }
    if not yes or how.check:
        foreseen = run_playbook("drill", How(check=True, verbose=how.verbose), asked)
        for line in foreseen.report.messages:
            click.echo(line)
        if foreseen.code or how.check:
            context.exit(foreseen.code)
        answer = click.prompt(f'Type "{run}" to go on', default="", show_default=False, err=True)
        if answer.strip() != run:
            raise click.ClickException(f'"{answer.strip()}" is not "{run}". Nothing was done.')
    ended = run_playbook("drill", how, {**asked, "fleet_drill_confirm": run})
    for line in ended.report.messages:
        click.echo(line)
    context.exit(ended.code)
