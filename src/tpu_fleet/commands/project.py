"""`tpu-fleet project`: what the fleet needs of its project, around the slices."""

from __future__ import annotations

import click

from ..contract.exits import Exit
from .playbook import How, playbook_options, run_playbook

PARTS = {
    "apis": "enable_api",
    "service-account": "service_account",
    "keys": "project_key",
    "firewall": "firewall",
    "disks": "disks",
    "buckets": "buckets",
}
"""The playbook of each part."""


@click.group()
def project() -> None:
    """Set up what the fleet needs of its Google Cloud project."""


@project.command()
@click.option(
    "--only",
    type=click.Choice(list(PARTS)),
    multiple=True,
    metavar="PART",
    help=f"Only this part: {', '.join(PARTS)}.",
)
@playbook_options()
@click.pass_context
def setup(context: click.Context, only: tuple[str, ...], how: How) -> None:
    """Enable the APIs; create account, keys, firewall, disks, buckets.

    What the fleet file declares of them, and nothing else; what is as declared stays as it is.
    `tpu-fleet apply` needs the APIs and creates disks and buckets itself.

    \b
      tpu-fleet project setup --check
      tpu-fleet project setup
      tpu-fleet project setup --only apis

    It runs the playbook tpu.fleet.project, or those of the parts.
    """
    code: int = Exit.DONE
    for book in [PARTS[part] for part in PARTS if part in only] or ["project"]:
        ended = run_playbook(book, how)
        code = ended.code
        would = "would change: " if how.check else "changed: "
        for task in ended.report.around:
            click.echo(f"{would}{task}")
        for line in ended.report.messages:
            click.echo(line)
        if code:
            break
        if not ended.report.around:
            click.echo("All is as declared.")
    context.exit(code)
