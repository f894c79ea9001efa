"""`tpu-fleet exec`: run a command on many workers in parallel."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ..show.output import Grouped, Json, Tagged, colours_here
from ..workers.ask.on_all import Job, remote_command
from ..workers.ask.view import View
from .many import Many, options_of_many, run_job
from .options import option_worker

FORMS_BEFORE = ("--group", "--tag")
"""Earlier options of its own, whose new names an error has."""


class OfWorkers(click.Command):
    """A click command whose arguments are a command for the workers, with its own options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """On unknown options, explain that the workers' options belong after `--`."""
        marked = "--" in args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if marked or error.option_name in FORMS_BEFORE:
                raise
            hint = "The workers' command follows --: tpu-fleet exec -- nproc --all"
            raise click.UsageError(f"No such option: {error.option_name}. {hint}", ctx) from error


@click.command("exec", cls=OfWorkers)
@options_of_many
@option_worker()
@click.option("--merge", "form", flag_value="merge", help="Show equal output once, at the end.")
@click.option("--prefix", "form", flag_value="prefix", help="Show each line after its worker.")
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_context
def exec_command(
    context: click.Context, many: Many, form: str | None, command: tuple[str, ...]
) -> None:
    """Run a command on all workers, or on some, in parallel.

    One word is shell code, several are a command and its arguments. It has no input, and ends with
    its connection.

    \b
      tpu-fleet exec -- 'ls *.log | wc -l'
      tpu-fleet exec --slice pair --merge -- uname -r
      tpu-fleet exec --worker 0 -- free -h
    """
    known, names = many.workers()
    job = Job(remote_command(command, many.sudo), user=many.user, settings=many.settings)
    view = view_of(form, names)
    context.exit(run_job(known, names, job, view, many.retry, quiet=form == "json"))


def view_of(form: str | None, names: Sequence[str]) -> View:
    """Choose the form: on a terminal equal output once; for a pipe every line by itself."""
    if form == "json":
        return Json()
    terminal = sys.stdout.isatty()
    if form is None and len(names) == 1:
        return View()
    if form == "merge" or (form is None and terminal):
        progress = sys.stderr.isatty() and len(names) > 1
        return Grouped(len(names), colours_here(sys.stdout), progress)
    return Tagged(names, colours_here(sys.stdout))
