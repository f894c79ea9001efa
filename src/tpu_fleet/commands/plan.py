"""`tpu-fleet plan`: what an apply would do."""

from __future__ import annotations

import time
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import BY_RUNS

from ..contract.exits import Exit
from ..contract.printing import option_json, print_json
from ..queue.fleet import queue_of
from ..show.plan import as_data, plan_text, something, unknown_of
from ..workers.inventory.read import read_inventory
from ..workers.report import Report
from .options import option_slice, option_verbose
from .playbook import Ended, How, run_playbook, show_failures
from .slices import check_slices
from .submit import explained

NOTHING, ERROR, SOMETHING = Exit.DONE, Exit.FAILED, Exit.UNKNOWN


def code_of(ended: Ended) -> int:
    """Return 2 if an apply would do something, 0 if not, 1 if that could not be found out."""
    report = ended.report
    unreached = {host for host, _why in unknown_of(report)}
    errors = [one for one in report.failures if one.host not in unreached]
    if errors or (ended.code and not unreached):
        return ERROR
    if something(report):
        return SOMETHING
    return ERROR if unreached else NOTHING


def on_queue(report: Report) -> list[dict[str, Any]]:
    """Return the resting slices that come for submitted runs, and whether some need them now."""
    resting = [name for name, (_phase, text) in report.slices.items() if text.endswith(BY_RUNS)]
    if not resting:
        return []
    phases = {name: phase for name, (phase, _text) in report.slices.items()}
    why = dict.fromkeys(resting, "nothing waits in the queue for it")
    needed: dict[str, str] = {}
    try:
        fleet = explained(lambda: queue_of(read_inventory()))
        runs = explained(lambda: fleet.opened().all().states)
        found = fleet.coming(phases, resting, runs, time.time())
        needed = {name: one.why for name, one in found.items()}
    except click.ClickException as error:
        why = dict.fromkeys(resting, error.message)
    return [
        {"slice": name, "comes": name in needed, "why": needed.get(name, why[name])}
        for name in resting
    ]


@click.command()
@option_slice("declared slices")
@option_json()
@option_verbose()
@click.pass_context
def plan(
    context: click.Context, slices: tuple[str, ...], machine_readable: bool, verbose: int
) -> None:
    """Show what `tpu-fleet apply` would do; change nothing.

    Slices to create, change and delete, with their list price per hour, what of it the grant pays
    and until when; what new disks, buckets and addresses cost; machines to set up, with the roles
    that would change something; runs to start, restart and stop, and why. What cannot be known,
    because a worker is not reached, stands under "unknown".

    \b
      tpu-fleet plan
      tpu-fleet plan --slice pair
      tpu-fleet plan --json | jq .runs

    It is the playbook tpu.fleet.site in check mode.
    """
    check_slices(slices)
    how = How(check=True, verbose=verbose).limited_to(slices)
    variables = {"fleet_only": list(slices)} if slices else None
    ended = run_playbook("site", how, variables, go_on="tpu-fleet plan", quiet=True)
    code = code_of(ended)
    if ended.report.plan:
        ended.report.plan["on_queue"] = on_queue(ended.report)
    if machine_readable:
        print_json("plan", as_data(ended.report, code))
    else:
        show(ended, code)
    context.exit(code)


def show(ended: Ended, code: int) -> None:
    """Print the plan for a person."""
    if code == ERROR:
        show_failures(ended)
    if ended.report.plan:
        for line in plan_text(ended.report):
            click.echo(line)
