"""`tpu-fleet top`: the fleet, live."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import click

from ..commands.asking import asking
from ..commands.many import guarded
from ..commands.options import option_interval
from ..commands.status import look_at_fleet
from ..contract.exits import Exit
from ..show.console import wide_console
from ..show.waiting import waiting_for
from ..workers.inventory.read import require_fleet
from . import columns
from .lines import Now, by_run, head_of


@click.command()
@option_interval(5, click.IntRange(1, 3600), "Time between two looks.")
@click.pass_context
def top(context: click.Context, interval: int) -> None:
    """Show runs, slices, workers, grant, costs and queue live.

    Below the rows stands the selected run: its loss and speed as curves, from the history, and the
    last lines of its log.

    Keys open the log, the terminal or the doctor of the selected row; ? shows all keys. Where there
    is no terminal, or one that can only write lines (TERM=dumb), it prints one table and ends.

    It opens one connection to each worker, which reports changes on it.

    \b
      tpu-fleet top
      tpu-fleet top --interval 2
    """
    require_fleet()
    if is_terminal(os.environ):
        context.exit(live(interval))
    context.exit(guarded(table, "Interrupted."))


def is_terminal(environment: Mapping[str, str]) -> bool:
    """Return whether there is a terminal that a screen can be drawn on."""
    # Textual draws on standard error.
    ours = (sys.stdin, sys.stdout, sys.stderr)
    dumb = environment.get("TERM", "dumb") in ("", "dumb", "unknown")
    return not dumb and all(stream is not None and stream.isatty() for stream in ours)


def live(every: int) -> int:
    """Show the screen until the user quits; return the exit code."""
    # Imported here, because it takes a third of a second.
    from .app import Top
    from .source import Source

    app = Top(Source(every), every)
    code = app.run(mouse=False)  # or people could not mark and copy text
    return (app.return_code or 0) if code is None else code


def table() -> int:
    """Print one table."""
    from .source import once

    with waiting_for("Asking the API for nodes, grant and costs"):
        looked = look_at_fleet()
    with asking(looked.known.fleet.targets):
        now = once(looked)
    for line in text_of(now, wide_console().width):
        click.echo(line.rstrip())
    return Exit.DONE


def text_of(now: Now, width: int) -> list[str]:
    """Return the table of runs as lines of at most so many characters."""
    lines = by_run(now)
    chosen = columns.chosen("runs", lines, width)
    head = [columns.cut("".join(text for text, _style in one), width) for one in head_of(now)]
    rows = [columns.row(line, chosen) for line in lines]
    return [*head, "", columns.titles(chosen), *rows]
