"""`tpu-fleet slice`: create, delete, wake and finish slices, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import KEEP

from ..show.cost import dollars
from ..show.figures import amount
from ..show.plan import plan_text
from ..workers.inventory.fleet_facts import read_fleet
from ..workers.inventory.names import NameOf, no_such, remember
from ..workers.inventory.read import read_inventory
from ..workers.report import Report
from .options import option_folder
from .playbook import How, playbook_options, run_playbook

# The declared ones, as a command saw them last, and those that are there.
DECLARED = NameOf("declared slices")
NAMES = click.argument("names", type=DECLARED, nargs=-1, required=True, metavar="SLICE...")


def declared_slices() -> dict[str, Mapping[str, Any]]:
    """Return the slices that the fleet file declares, by their names."""
    inventory = read_inventory()
    declared = {str(one["name"]): one for one in inventory.planned()["slices"]}
    remember(list(inventory.sources), declared=list(declared))
    return declared


def check_slices(names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Refuse names that the fleet file does not declare, before anything starts; return all."""
    declared = declared_slices() if names else {}
    for name in names:
        if name not in declared:
            raise click.ClickException(no_such("declared slice", name, list(declared)))
    return declared


def show_plan(report: Report) -> None:
    """Print what would be done."""
    for line in plan_text(report):
        click.echo(line)


def listed(names: Sequence[str]) -> str:
    """Return names in one line."""
    return ", ".join(names) or "none at all"


@click.group("slice")
def slice_group() -> None:
    """Create, delete, wake and finish slices, one by one.

    `tpu-fleet apply` does what is needed for all of them.
    """


@slice_group.command()
@NAMES
@playbook_options()
@click.pass_context
def create(context: click.Context, names: tuple[str, ...], how: How) -> None:
    """Create declared slices, and wait until each worker answers.

    Nothing is installed on their machines: `tpu-fleet apply` does that. Other slices are left
    alone.

    \b
      tpu-fleet slice create pair
      tpu-fleet slice create pair --check

    It runs the playbook tpu.fleet.provision.
    """
    check_slices(names)
    only = {"fleet_only": list(names)}
    ended = run_playbook("provision", how.limited_to(names), only)
    if how.check:
        show_plan(ended.report)
    context.exit(ended.code)


@slice_group.command()
@NAMES
@click.option("--yes", is_flag=True, help="Do not ask for the name.")
@playbook_options()
@click.pass_context
def delete(context: click.Context, names: tuple[str, ...], yes: bool, how: How) -> None:
    """Delete slices with their machines; data disks stay.

    Asks for the name of the slice, or of all slices in their order. What only their own disks have
    is lost: `tpu-fleet slice finish` fetches what runs left before it deletes. A slice that is
    still declared is created again by the next `tpu-fleet apply`.

    \b
      tpu-fleet slice delete pair
      tpu-fleet slice delete pair solo --yes

    It runs the playbook tpu.fleet.teardown.
    """
    check_slices(names)
    whole = " ".join(names)
    if not yes and not how.check:
        click.echo(what_goes(names), err=True)
        answer = click.prompt(f'Type "{whole}" to delete', default="", show_default=False, err=True)
        if answer.strip() != whole:
            raise click.ClickException(f'"{answer.strip()}" is not "{whole}". Nothing was deleted.')
    ended = run_playbook("teardown", how, {"teardown": ",".join(names)})
    if ended.code == 0 and not how.check:
        click.echo(
            f"Deleted: {listed(names)}.\nThe next `tpu-fleet apply` creates what is still "
            "declared: remove it\nfrom fleet_slices to keep it away."
        )
    context.exit(ended.code)


def what_goes(names: Sequence[str]) -> str:
    """Return what a deletion is about, and what it saves."""
    view = read_fleet(read_inventory())
    there = [node for node in view.nodes if node["ours"] and node["name"] in names]
    rows = [
        f"{node['name']}: {node['accelerator_type']} in {node['zone']}, {node['state']}, "
        f"{amount(node['workers'], 'worker')}, {dollars(node['usd_per_hour'])} an hour"
        for node in there
    ]
    absent = [name for name in names if name not in {node["name"] for node in there}]
    return "\n".join([*rows, *(f"{name}: has no node" for name in absent)])


@slice_group.command()
@NAMES
@playbook_options()
@click.pass_context
def wake(context: click.Context, names: tuple[str, ...], how: How) -> None:
    """Bring back slices that rest because their runs have ended.

    Starts or creates them, sets their machines up, and starts their runs.

    \b
      tpu-fleet slice wake pair

    It runs the playbook tpu.fleet.site with fleet_wake.
    """
    check_slices(names)
    woken = {"fleet_only": list(names), "fleet_wake": list(names)}
    ended = run_playbook("site", how.limited_to(names), woken)
    if how.check:
        show_plan(ended.report)
    context.exit(ended.code)


@slice_group.command()
@click.argument("name", type=DECLARED, metavar="SLICE")
@option_folder("Put what the runs left there.")
@playbook_options()
@click.pass_context
def finish(context: click.Context, name: str, to: Path | None, how: How) -> None:
    """Fetch what the runs of a slice left, then stop or delete it.

    on_finish of the slice says which of both. Nothing is stopped or deleted unless each worker was
    reached, no program runs there, no person is logged in, and all files are here.

    \b
      tpu-fleet slice finish pair
      tpu-fleet slice finish pair -o ~/results

    It runs the playbook tpu.fleet.finish. `tpu-fleet slice wake` brings the
    slice back.
    """
    if check_slices([name])[name].get("on_finish", KEEP) == KEEP:
        raise click.ClickException(
            f"on_finish of {name} is {KEEP}. Set it to stop or delete in fleet_slices; or delete "
            f"it: tpu-fleet slice delete {name}"
        )
    variables = {"finish": name, **({"collect_to": str(to.expanduser().absolute())} if to else {})}
    ended = run_playbook("finish", how, variables)
    if ended.code == 0 and not how.check:
        click.echo(f"{name} rests. tpu-fleet slice wake {name} brings it back.")
    context.exit(ended.code)
