"""`tpu-fleet repair`: find the workers again, apply everything, see that the runs are back."""

from __future__ import annotations

import click

from .apply import show_end
from .options import option_slice
from .playbook import How, playbook_options, run_playbook
from .slices import check_slices


@click.command()
@option_slice("declared slices")
@playbook_options()
@click.pass_context
def repair(context: click.Context, slices: tuple[str, ...], how: How) -> None:
    """Bring lost slices and workers back, with their runs.

    After a preemption, a reboot or a change of address: creates preempted slices again, if their
    on_preempt is recreate; finds the workers; applies everything that is declared; writes the new
    addresses for each person; waits until the runs are back. Slices whose grant has ended are
    deleted, if their on_grant_end is delete. `tpu-fleet watch run` does this by itself.

    \b
      tpu-fleet repair
      tpu-fleet repair --slice cheap

    It runs the playbook tpu.fleet.reprovision.
    """
    check_slices(slices)
    only = {"fleet_only": list(slices)} if slices else None
    ended = run_playbook("reprovision", how.limited_to(slices), only, go_on="tpu-fleet repair")
    if not how.check:
        show_end(ended.report)
    context.exit(ended.code)
