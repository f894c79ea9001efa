"""`tpu-fleet runs`: the runs of the fleet, as their workers report them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import visible
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.workers import natural_key

from ..history.record import remember
from ..show.console import wide_console
from ..show.figures import loss_text
from ..show.output import exit_code, problems
from ..show.table import Column, Table, print_tables
from ..show.times import long
from ..show.waiting import waiting_for
from ..workers.hosts import fold
from ..workers.names import NameOf
from ..workers.run_answers import NOT_BACK, Answers, Run, ask_for_runs
from .many import Many, guarded, options_of_many

COLUMNS = (
    Column("RUN"),
    Column("SLICE", 1),
    Column("USER", 5),
    Column("STATE"),
    Column("ATTEMPT", 7, right=True),
    Column("STEP", 2, right=True),
    Column("LOSS", 3, right=True),
    Column("SAVED", 4, right=True),
    Column("FOR", 6, right=True),
    Column("WHERE", 8),
)
AGES = ("seconds_since_checkpoint", "seconds")
TROUBLE = frozenset({"failed", "restarting", NOT_BACK})
"""States that need a person, or soon may."""


def rows_of(runs: Iterable[Run]) -> list[list[Run]]:
    """Group the workers of a slice whose run is in the same state."""
    same: dict[tuple[Any, ...], list[Run]] = {}
    for run in sorted(runs, key=lambda one: (one.run, natural_key(one.slice), one.worker)):
        key = (run.run, run.slice, run.user, run.state, run.attempt, run.waits_for)
        same.setdefault(key, []).append(run)
    return list(same.values())


def described(row: Sequence[Run]) -> dict[str, Any]:
    """Return what a row says; workers may report different steps and times.

    The loss is that of the first that reports one, the checkpoint the newest, as in `top`.
    """
    first = row[0]
    steps = sorted({run.step for run in row if run.step is not None})
    since = min((run.since for run in row if run.since is not None), default=None)
    ages = [run.age for run in row if run.age is not None]
    return {
        "run": first.run,
        "slice": first.slice,
        "user": first.user,
        "state": first.state,
        "attempt": first.attempt,
        "step": steps[-1] if steps else None,
        "slowest_step": steps[0] if steps else None,
        "loss": next((run.loss for run in row if run.loss is not None), None),
        "seconds_since_checkpoint": min(
            (run.saved_age for run in row if run.saved_age is not None), default=None
        ),
        "since": None if since is None else iso(since),
        "seconds": max(ages, default=None),
        "workers": [run.host for run in row],
        "waits_for": first.waits_for,
        "reasons": unique(run.reason for run in row),
        "problems": unique(problem for run in row for problem in run.problems),
        "log": first.log,
    }


def unique(texts: Iterable[str]) -> list[str]:
    """Return each text once, in order."""
    return list(dict.fromkeys(text for text in texts if text))


def iso(at: float) -> str:
    """Format a time as in the log."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def cells_of(row: dict[str, Any]) -> list[str]:
    """Format the figures of a row for people."""
    steps = [row["slowest_step"], row["step"]]
    step = "-" if row["step"] is None else "-".join(map(str, dict.fromkeys(steps)))
    return [
        row["run"],
        row["slice"],
        row["user"],
        row["state"],
        str(row["attempt"]),
        step,
        loss_text(row["loss"]),
        *("-" if row[key] is None else long(row[key]) for key in AGES),
        fold(row["workers"]),
    ]


def why_of(row: dict[str, Any]) -> str:
    """Return what a run waits for, or why it is in its state."""
    waits = [f"waits for {row['waits_for']}"] if row["waits_for"] else []
    return "; ".join([*waits, *row["reasons"], *row["problems"]])


def is_trouble(row: dict[str, Any]) -> bool:
    """Return whether a run is in trouble; a loss that is a word is no number."""
    return row["state"] in TROUBLE or isinstance(row["loss"], str)


def table_of(rows: Sequence[dict[str, Any]], title: str = "") -> Table:
    """Draw the runs, those in trouble first and red."""
    table = Table(COLUMNS, title, note="WHY")
    for row in sorted(rows, key=lambda one: not is_trouble(one)):
        style = "red" if is_trouble(row) else "yellow" if row["state"] == "pending" else ""
        table.add(*cells_of(row), notes=[why_of(row)], style=style)
    return table


def as_json(rows: Sequence[dict[str, Any]], answers: Answers, code: int) -> str:
    """Format everything as JSON."""
    lost = [
        {
            "worker": result.name,
            "kind": result.kind.value,
            "says": result.says,
            "remedy": result.remedy,
        }
        for result in answers.results
        if not result.ok
    ]
    told = {"runs": rows, "no_result": lost, "exit_code": code}
    return json.dumps(told, indent=2)


@click.command()
@options_of_many
@click.option("--json", "machine_readable", is_flag=True, help="Print JSON.")
@click.argument("wanted", type=NameOf("runs"), nargs=-1, metavar="[RUN]...")
@click.pass_context
def runs(
    context: click.Context,
    many: Many,
    machine_readable: bool,
    wanted: tuple[str, ...],
) -> None:
    """Show the runs: state, attempt, step, loss, checkpoint, where.

    Runs in trouble stand first. SAVED is the time since the newest checkpoint was written, FOR the
    time in this state.

    All workers are asked at once. Those of a slice share a row unless they differ. Behind or below
    a row stands why it is so, or what the run waits for: another run that uses the TPU, a process
    that holds a chip, a worker that does not answer.

    The exit code is 0 when every worker answered, 1 when there is no such run or an answer is
    invalid, 2 when a worker did not answer.
    """

    def show() -> int:
        known, names = many.workers()
        with waiting_for(f"Asking {len(names)} workers for their runs"):
            answers = ask_for_runs(known, names, many.user, many.sudo, many.settings, many.retry)
        remember(answers, known)
        meant = [run for run in answers.runs if not wanted or run.run in wanted]
        rows = [described(row) for row in rows_of(meant)]
        missing = [name for name in wanted if name not in answers.names]
        code = max(exit_code(answers.results), 1 if missing else 0)
        if missing:
            click.echo(visible(no_such_run(missing[0], answers.names)), err=True)
        if machine_readable:
            click.echo(as_json(rows, answers, code))
            return code
        if rows:
            print_tables(wide_console(), table_of(rows))
        elif not missing:
            click.echo("There are no runs.")
        for line in problems(answers.results):
            click.echo(line, err=True)
        return code

    context.exit(guarded(show, "Interrupted."))


def no_such_run(name: str, names: Sequence[str]) -> str:
    """Return the message for an unknown run, with the existing ones."""
    return f"There is no run {name}. There is {', '.join(names) or 'none at all'}."
