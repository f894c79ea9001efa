"""`tpu-fleet invite`: write for each person what they need on their own computer."""

from __future__ import annotations

import click

from ..workers.inventory.names import NameOf, no_such, remember
from ..workers.inventory.read import read_inventory
from .playbook import How, playbook_options, run_playbook


def declared_people() -> list[str]:
    """Return the users that the fleet file declares."""
    inventory = read_inventory()
    names = [str(one["name"]) for one in inventory.said("fleet_users", [])]
    remember(list(inventory.sources), users=names)
    return names


@click.command()
@click.argument("people", type=NameOf("users"), nargs=-1, metavar="[PERSON]...")
@playbook_options()
@click.pass_context
def invite(context: click.Context, people: tuple[str, ...], how: How) -> None:
    """Write for each person the folder with which they log in.

    A text that says how to use the fleet, and a folder for ~/.ssh with the names, host keys and
    addresses of the machines. Nothing is sent: hand the folder over, it has no secret. Call it
    again when a slice was created again. With PERSON only these folders are listed.

    \b
      tpu-fleet invite
      tpu-fleet invite alice

    It runs the playbook tpu.fleet.onboarding.
    """
    known = declared_people()
    for name in people:
        if name not in known:
            raise click.ClickException(no_such("declared user", name, known))
    ended = run_playbook("onboarding", how)
    for name, folder in ended.report.folders.items():
        if not people or name in people:
            click.echo(f"{name}: {folder}")
    context.exit(ended.code)
