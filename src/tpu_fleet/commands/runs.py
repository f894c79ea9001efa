"""`tpu-fleet runs`: the runs of the fleet, as their workers report them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import PENDING

from ..contract.exits import Exit
from ..contract.printing import option_json, print_json
from ..history.record import remember
from ..show.console import wide_console
from ..show.figures import loss_text, percent_text, rate_text, share_text, speed_text
from ..show.output import exit_code, no_results, show_problems
from ..show.spent import shares_text, start_text
from ..show.table import Column, Table, print_tables
from ..show.times import iso, long
from ..workers.ask.run_answers import Answers, ask_for_runs
from ..workers.ask.run_view import RunView, views_of
from ..workers.inventory.hosts import fold, part_of
from ..workers.inventory.names import NameOf, no_such
from .asking import asking
from .many import Many, guarded, options_of_many
from .options import option_worker
from .submitted import show_queue

USE = (
    Column("DUTY", 7, right=True, if_known=True),
    Column("HBM", 7, right=True, if_known=True),
    Column("TOKENS/S", 7, right=True, if_known=True),
    Column("MFU", 7, right=True, if_known=True),
)
"""The use of chips, and what a program says of its speed; left out where no run has any."""
COLUMNS = (
    Column("RUN"),
    Column("SLICE", 1),
    Column("USER", 5),
    Column("STATE"),
    Column("ATTEMPT", 8, right=True),
    Column("STEP", 2, right=True),
    Column("SPEED", 6, right=True),
    Column("LOSS", 3, right=True),
    *USE,
    Column("SAVED", 4, right=True),
    Column("FOR", 7, right=True),
    Column("WHERE", 9),
    Column("FROM", 8, if_mixed=True),
)


def described(view: RunView) -> dict[str, Any]:
    """Return what a row says, for programs."""
    return {
        "run": view.run,
        "slice": view.slice,
        "user": view.user,
        "submitted": view.submitted,
        "state": view.state,
        "attempt": view.attempt,
        "step": view.step,
        "furthest_step": view.furthest,
        "steps_per_second": view.speed,
        "seconds_without_step": view.quiet,
        "loss": view.loss,
        "loss_trouble": view.loss_trouble,
        **use_described(view),
        "seconds_since_checkpoint": view.saved_age,
        "since": None if view.since is None else iso(view.since),
        "seconds": view.age,
        "workers": list(view.hosts),
        "workers_in_this_state": view.alike,
        "start_parts": dict(view.start_parts),
        "start_counts": dict(view.start_counts),
        "seconds_by_kind": dict(view.inside),
        "waits_for": view.waits_for,
        "failed_with": view.failed_with,
        "exit_code": view.exit_code,
        "signal": view.signal,
        "reasons": list(view.reasons),
        "problems": list(view.problems),
        "troubled": view.is_troubled,
        "log": view.log,
    }


def cells_of(view: RunView) -> list[str]:
    """Format the figures of a row for people."""
    steps = [step for step in (view.step, view.furthest) if step is not None]
    return [
        view.run,
        view.slice,
        view.user,
        view.word,
        str(view.attempt),
        "-".join(map(str, dict.fromkeys(steps))) or "-",
        speed_text(view.speed),
        loss_text(view.loss),
        *use_cells(view),
        *("-" if age is None else long(age) for age in (view.saved_age, view.age)),
        fold(view.hosts),
        "queue" if view.submitted else "fleet file",
    ]


def use_cells(view: RunView) -> list[str]:
    """Format the figures of USE."""
    return [
        percent_text(view.duty_cycle),
        share_text(view.memory_share),
        rate_text(view.tokens_per_second),
        share_text(view.mfu),
    ]


def use_described(view: RunView) -> dict[str, Any]:
    """Return the figures of USE, for programs."""
    return {
        "duty_cycle_percent": view.duty_cycle,
        "hbm_used_bytes": view.memory_used,
        "hbm_bytes": view.memory,
        "tokens_per_second": view.tokens_per_second,
        "mfu": view.mfu,
    }


def table_of(views: Sequence[RunView], title: str = "") -> Table:
    """Draw the runs, those in trouble first and red."""
    table = Table(COLUMNS, title, note="WHY")
    for view in sorted(views, key=lambda one: one.order):
        style = "red" if view.is_troubled else "yellow" if view.state == PENDING else ""
        table.add(*cells_of(view), notes=[view.why], style=style)
    return table


def times_of(view: RunView) -> list[str]:
    """Say where the time of a run's attempt goes, in a line for its start and one for the rest."""
    about = f"{view.run} on {view.slice}, attempt {view.attempt}: "
    said = (start_text(view.start_parts, view.start_counts), shares_text(view.inside))
    return [about + text for text in said if text]


def as_data(views: Sequence[RunView], answers: Answers, code: int) -> dict[str, Any]:
    """Return everything for programs."""
    lost = no_results(result for result in answers.results if not result.ok)
    return {"runs": [*map(described, views)], "no_result": lost, "exit_code": code}


@click.command()
@options_of_many
@option_worker()
@click.option(
    "--queue", "of_queue", is_flag=True, help="Show submitted runs: what waits and why, what ended."
)
@option_json()
@click.argument("wanted", type=NameOf("runs submitted"), nargs=-1, metavar="[RUN]...")
@click.pass_context
def runs(
    context: click.Context,
    many: Many,
    of_queue: bool,
    machine_readable: bool,
    wanted: tuple[str, ...],
) -> None:
    """Show the runs: state, attempt, step, loss, checkpoint, where.

    Runs in trouble stand first. STATE is the worst of the run's workers, with their number if they
    are in different states; STEP and SPEED are those of the slowest one. SAVED is the time since
    the newest checkpoint was written, FOR the time in this state.

    DUTY is the share of the time in which the chips work, HBM that of their memory in use, both as
    the runtime reports them; TOKENS/S and MFU are what the program writes beside its step. They are
    left out where no run has any.

    FROM is where a run stands, if there are submitted ones: in the queue, or in the fleet file.

    All workers are asked at once. Behind or below a row stands why it is so: the last error that
    the program printed, or what the run waits for: another run that uses the TPU, a process that
    holds a chip, a worker that does not answer.

    With RUN, lines below the table say how long its last attempt took to the first step, and where
    its time goes.

    --queue shows the submitted runs instead, without a worker: what runs where, what waits in which
    order and why, and what ended last. A run whose slice the API has no more waits again.

    \b
      tpu-fleet runs
      tpu-fleet runs digits --slice pair
      tpu-fleet runs --queue
    """

    def show() -> int:
        known, names = many.workers()
        with asking(names):
            answers = ask_for_runs(known, names, many.user, many.sudo, many.settings, many.retry)
        remember(answers, known)
        views = views_of(run for run in answers.runs if not wanted or run.run in wanted)
        missing = [name for name in wanted if name not in answers.names]
        code = max(exit_code(answers.results), Exit.FAILED if missing else Exit.DONE)
        if missing:
            where = part_of(known.fleet, names)
            click.echo(visible(no_such("run", missing[0], answers.names, where)), err=True)
        if machine_readable:
            print_json("runs", as_data(views, answers, code))
            return code
        if views:
            print_tables(wide_console(), table_of(views))
            for view in views if wanted else ():
                for line in times_of(view):
                    click.echo(visible(line))
        elif not missing:
            click.echo("There are no runs.")
        show_problems(answers.results)
        return code

    work = (lambda: show_queue(wanted, machine_readable)) if of_queue else show
    context.exit(guarded(work, "Interrupted."))
