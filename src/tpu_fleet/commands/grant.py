"""`tpu-fleet grant`: show the grant, import its mail, delete slices after its end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import click
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import parse_allocations

from ..begin.days import DATE, date_of
from ..contract.exits import Exit
from ..contract.printing import option_json, print_json
from ..show.console import say, wide_console
from ..show.figures import amount
from ..show.fleet import grant_table
from ..show.table import print_tables
from ..show.waiting import waiting_for
from ..workers.inventory.fleet_facts import read_fleet
from ..workers.inventory.read import read_inventory
from .options import NewFile
from .playbook import How, playbook_options, run_playbook
from .trc_mail import EXAMPLE, GrantEntry, Mail, as_yaml, read_mail, with_ends

# Not a date, so that the checks refuse a fleet file that contains it.
FILL_IN = "FILL-IN"


@click.group()
def grant() -> None:
    """Show the grant, import its mail, delete slices after its end.

    The grant is what may be created, in which zone and tier, and until when.
    """


def _day(_ctx: click.Context, _param: click.Parameter, value: str | None) -> date | None:
    """Read a date."""
    day = None if value is None else date_of(value, datetime.now(UTC).date())
    if value is not None and day is None:
        raise click.BadParameter(f"{value} is not a date. Write it as {DATE}.")
    return day


@grant.command("import")
@click.option("--ends", callback=_day, metavar="DATE", help="Last day of all entries.")
@click.option("--days", type=click.IntRange(1), metavar="N", help="Number of days of the grant.")
@click.option("--first-day", "start", callback=_day, metavar="DATE", help="First of those days.")
@click.option(
    "-o",
    "--output",
    type=NewFile(),
    metavar="FILE",
    help="Write into this file instead of printing.",
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def import_(
    ends: date | None, days: int | None, start: date | None, output: Path | None, force: bool
) -> None:
    """Turn the text of a grant mail into fleet_allocations.

    Reads the mail from standard input and prints YAML for the fleet file. Unclear lines are
    reported on standard error and left out: nothing is guessed.

    \b
      tpu-fleet grant import --first-day 2026-12-01 < mail.txt
    """
    if ends and (days or start):
        raise click.UsageError("--ends is already the last day: leave --days and --first-day out.")
    if days and not start:
        raise click.UsageError("--days needs --first-day.")
    if output and output.exists() and not force:
        raise click.ClickException(f"{output} exists. Choose another name, or add --force.")
    mail = read_mail(sys.stdin.read())
    if days:
        mail.days = days
    entries = with_ends(mail, ends, start)
    for line in _doubts(mail, entries, start):
        click.echo(line, err=True)
    if not entries:
        raise click.ClickException(f"No line of a grant was found. Lines look like: {EXAMPLE}")
    missing = _lasts_unclear(mail, entries, start)
    text = as_yaml(entries, FILL_IN if missing else None)
    text = text.replace(FILL_IN, f"{FILL_IN}  # {mail.days} days, but from when?")
    if not missing:
        parse_allocations(yaml.safe_load(text)["fleet_allocations"])  # what is printed can be used
    if output:
        output.write_text(f"---\n{text}")
        click.echo(f"Wrote {amount(len(entries), 'allocation')} to {output}.", err=True)
    else:
        click.echo(text, nl=False)
    if mail.unclear or missing:
        raise click.exceptions.Exit(Exit.FAILED)


def _lasts_unclear(mail: Mail, entries: Sequence[GrantEntry], start: date | None) -> bool:
    """Return whether the mail gives days, but no first day is known."""
    return mail.days is not None and start is None and any(not entry.ends for entry in entries)


def _doubts(mail: Mail, entries: Sequence[GrantEntry], start: date | None) -> list[str]:
    lines = [f"line {item.line}: {item.text}\n  {item.why}" for item in mail.unclear]
    if _lasts_unclear(mail, entries, start):
        lines.append(
            f"The mail says {mail.days} days, but not from when. Give --first-day, or --ends "
            f"with the last day, or write it where {FILL_IN} stands."
        )
    elif any(not entry.ends for entry in entries):
        lines.append(
            "No end was found: entries without one never end. If there is one, give --ends, or "
            "--days with --first-day."
        )
    return lines


@grant.command()
@option_json()
def show(machine_readable: bool) -> None:
    """Show how much of the grant is in use, and when it ends.

    \b
      tpu-fleet grant show
      tpu-fleet grant show --json | jq .grant.allocations
    """
    with waiting_for("Asking the API for nodes, grant and costs"):
        view = read_fleet(read_inventory())
    if view.problem:
        raise click.ClickException(view.problem)
    if machine_readable:
        print_json("grant show", {"grant": view.grant, "warnings": view.warnings})
        return
    console = wide_console()
    print_tables(console, grant_table(view))
    for line in view.warnings:
        say(console, f"Warning: {line}", "yellow")


@grant.command()
@playbook_options()
@click.pass_context
def expire(context: click.Context, how: How) -> None:
    """Delete slices whose grant has ended, if they say so.

    Those with on_grant_end: delete, and nothing else; data disks stay. `tpu-fleet watch` does
    this by itself.

    \b
      tpu-fleet grant expire --check
      tpu-fleet grant expire

    It runs the playbook tpu.fleet.expiry.
    """
    ended = run_playbook("expiry", how)
    if ended.code == 0:
        gone = [name for name, (phase, _text) in ended.report.slices.items() if phase == "clearing"]
        says = f"To be deleted: {', '.join(gone)}." if gone and how.check else ""
        done = ended.report.actions
        click.echo(says or "\n".join(done) or "No slice is deleted: no grant of one has ended.")
    context.exit(ended.code)
