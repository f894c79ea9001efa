"""`tpu-fleet apply`: bring the fleet to the declared state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError

from ..contract.exits import Exit
from ..history.record import remember
from ..show.ended import ended_lines
from ..show.output import show_problems
from ..show.waiting import waiting_for
from ..workers.ask.run_answers import ask_for_runs
from ..workers.ask.run_view import views_of
from ..workers.inventory.fleet_facts import read_fleet
from ..workers.inventory.hosts import NO_CONFIG, Known
from ..workers.inventory.read import read_inventory
from ..workers.report import Report
from .options import option_slice
from .parts import PARTS, Step, steps_of
from .playbook import Ended, How, playbook_options, run_playbook
from .slices import check_slices, show_plan


def words_again(slices: Sequence[str], only: Sequence[str]) -> str:
    """Return the command that goes on after an interruption."""
    names = [f"--slice {name}" for name in slices]
    return " ".join(["tpu-fleet apply", *names, *(f"--only {name}" for name in only)])


@click.command()
@option_slice("declared slices")
@click.option(
    "--only",
    type=click.Choice(list(PARTS)),
    multiple=True,
    metavar="PART",
    help=f"Only this part, with what it needs on the machines: {', '.join(PARTS)}.",
)
@playbook_options(limit=True)
@click.pass_context
def apply(context: click.Context, slices: tuple[str, ...], only: tuple[str, ...], how: How) -> None:
    """Bring the fleet to what its file declares.

    Creates the slices, sets the machines up, and starts the runs. What is as declared stays as it
    is, and a run whose definition and code did not change is not disturbed: call it as often as
    you like. It shows one line for each slice while it works, and at the end what exists, what
    failed, and what it costs.

    \b
      tpu-fleet apply
      tpu-fleet apply --slice pair
      tpu-fleet apply --only users --only code
      tpu-fleet apply --check --diff

    It runs the playbook tpu.fleet.site, and with --only the one that it names; pipelines call that
    playbook. Ctrl-C ends it: what is done stays, and the next call goes on.
    """
    if slices and how.limit:
        raise click.UsageError("--slice and --limit both choose workers: give one of them.")
    check_slices(slices)
    how = how.limited_to(slices)
    variables: dict[str, Any] | None = {"fleet_only": list(slices)} if slices else None
    again, whole = words_again(slices, only), Report()
    code: int = Exit.DONE
    for step in steps_of(only) if only else [Step("site")]:
        ended = _run(step, how, variables, again)
        whole.take(ended.report)
        code = ended.code
        if code:
            break
    if how.check:
        show_plan(whole)
    else:
        show_end(whole)
    context.exit(code)


def _run(step: Step, how: How, variables: Mapping[str, Any] | None, again: str) -> Ended:
    # A part of the machines has no task on this computer that the limit could be about.
    asked = variables if step.playbook in ("site", "provision") else None
    return run_playbook(step.playbook, how, asked, step.tags, go_on=again)


def show_end(report: Report) -> None:
    """Print what exists now."""
    try:
        with waiting_for("Asking the API and the workers what exists now"):
            inventory = read_inventory(fresh=True)
            known, view = Known(NO_CONFIG, inventory.fleet()), read_fleet(inventory)
            answers = ask_for_runs(known, list(known.fleet.targets), retry=False)
    except (TpuError, RuntimeError, click.ClickException) as error:
        click.echo(f"What exists now could not be read: {error}", err=True)
        return
    remember(answers, known, view)
    failed = {one.host for one in report.troubled}
    away = {one.name for one in answers.results if not one.ok}
    states = [
        "failed" if host in failed else "not reached" if host in away else "ready"
        for host in known.fleet.targets
    ]
    states += ["not usable" for _host, seen in inventory.workers() if _unusable(seen)]
    for line in ended_lines(report, states, views_of(answers.runs), view):
        click.echo(line)
    show_problems(answers.results)


def _unusable(seen: Mapping[str, Any]) -> bool:
    return bool(seen.get("tpu_vm_unavailable_reason"))
