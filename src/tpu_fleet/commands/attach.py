"""`tpu-fleet attach`: attach to the terminal in which a run's program runs."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import click

from ..contract.exits import Exit
from ..on_worker.run_states import ENDED, RUNNING
from ..show.output import exit_code, show_problems
from ..workers.ask.run_answers import Answers, ask_for_runs
from ..workers.ask.run_view import Run
from ..workers.inventory.hosts import Known, select
from ..workers.inventory.lookup import ask_or_say_why, chosen, known_fleet
from ..workers.inventory.names import NameOf, no_such
from ..workers.login import LOST, Login, keep_open, ssh_command
from ..workers.logs.plan import pause_after
from .asking import NotReached, asking
from .logs import checked_name
from .many import guarded
from .submitted import said_of

GONE = 75
LOOK_AGAIN_AFTER = 3
"""After this many failures in a row, addresses are read from the API again."""
# tmux exits in the same way when a person detaches and when the session ends.
REMOTE = (
    'tmux attach-session $2 -t "=$1"; code=$?; '
    f'tmux has-session -t "=$1" 2>/dev/null || exit {GONE}; exit "$code"'
)


class UnknownRun(click.ClickException):
    """No worker that answered has the run; `there` are those that they have."""

    def __init__(self, run: str, there: Sequence[str], where: str = "") -> None:
        super().__init__(no_such("run", run, there, where))
        self.there = there


@dataclass(frozen=True)
class Meant:
    """The requested run, and its slice, worker and user."""

    run: str
    slice: str | None = None
    worker: int | None = None

    def names_in(self, known: Known) -> list[str]:
        """Return the names of the workers that may have it."""
        return select(known, [self.slice] if self.slice else [], None)


def choose(runs: Sequence[Run], meant: Meant) -> Run:
    """Return the requested worker, or fail with a list of the possible ones."""
    named = [run for run in runs if run.run == meant.run]
    if not named:
        where = f" on slice {meant.slice}" if meant.slice else ""
        raise UnknownRun(meant.run, sorted({run.run for run in runs}), where)
    slices = sorted({run.slice for run in named})
    if meant.slice is not None:
        named = [run for run in named if run.slice == meant.slice]
    elif len(slices) > 1:
        raise click.ClickException(
            f"{meant.run} runs on several slices: choose with --slice, one of {', '.join(slices)}."
        )
    if not named:
        raise click.ClickException(
            f"{meant.run} is not on slice {meant.slice}, but on {', '.join(slices)}."
        )
    found = sorted(named, key=lambda run: run.worker)
    if meant.worker is not None:
        there = ", ".join(str(run.worker) for run in found)
        found = [run for run in found if run.worker == meant.worker]
        if not found:
            raise click.ClickException(
                f"{meant.run} is not on worker {meant.worker}, but on {there}."
            )
    return found[0]


def why_not(run: Run, runs: Sequence[Run]) -> str:
    """Return why attaching to a run is impossible; empty if it is possible."""
    if run.state == RUNNING:
        return ""
    reason = run.status.reason or (f"waits for {run.waits_for}" if run.waits_for else "")
    says = f"{run.run} is {run.state or 'in no known state'} on {run.host}"
    others = sorted({other.run for other in runs if other.state == RUNNING})
    running = f"Running: {', '.join(others)}." if others else "No run is running."
    return f"{says}{': ' + reason if reason else ''}. {running}"


def login_of(known: Known, run: Run, user: str | None, read_only: bool) -> Login:
    """Return the login that attaches as the run's user, who may be another than the login's."""
    login = user or known.fleet.targets[run.host].user
    become = [] if login == run.status.user else ["sudo", "-n", "-H", "-u", run.status.user, "--"]
    words = [*become, "/bin/sh", "-c", REMOTE, "tpu-fleet", run.run, *(["-r"] if read_only else [])]
    return Login(run.host, login, shlex.join(words))


def find(known: Known, names: Sequence[str], meant: Meant, user: str | None) -> tuple[Run, Answers]:
    """Ask the workers for the run; if it is not found, name the unreached workers."""
    with asking(names):
        answers = ask_for_runs(known, names, user)
    try:
        return choose(answers.runs, meant), answers
    except click.ClickException as error:
        show_problems(answers.results)
        if exit_code(answers.results) == Exit.UNKNOWN:
            raise NotReached(error.message) from error
        raise


def wait_for(run: Run, user: str | None) -> tuple[Known, Run]:
    """Wait until a run runs again, or has ended; the worker's address may change meanwhile."""
    known, failures = known_fleet(False), 0
    while True:
        time.sleep(pause_after(failures + 2))
        if failures and failures % LOOK_AGAIN_AFTER == 0:
            try:
                known = ask_or_say_why()
            except click.ClickException as error:
                click.echo(error.message, err=True)
        answers = ask_for_runs(known, [run.host], user, retry=False)
        found = [one for one in answers.runs if one.run == run.run]
        if found and (found[0].state == RUNNING or found[0].state in ENDED):
            return known, found[0]
        failures += 1


@click.command()
@click.option("--slice", "slice_name", type=NameOf("slices"), metavar="NAME", help="On this slice.")
@click.option("--worker", type=click.IntRange(0), metavar="N", help="On worker N.  [default: 0]")
@click.option("--user", metavar="LOGIN", help="Log in as this user instead of Ansible's.")
@click.option("-r", "--read-only", is_flag=True, help="Read only, without input.")
@click.option("--retry", is_flag=True, help="Attach again after a reboot or another attempt.")
@click.argument("run", type=NameOf("runs submitted"), callback=checked_name)
@click.pass_context
def attach(
    context: click.Context,
    slice_name: str | None,
    worker: int | None,
    user: str | None,
    read_only: bool,
    retry: bool,
    run: str,
) -> None:
    """Attach to the terminal of RUN's program, as the run's user.

    What you type goes to the program: Ctrl-C ends it. Ctrl-B D detaches and leaves it running.

    \b
      tpu-fleet attach digits
      tpu-fleet attach digits --worker 1 --read-only
    """
    if not sys.stdin.isatty():
        raise click.ClickException(f"This is not a terminal. Use: tpu-fleet logs -f {run}")

    def show() -> int:
        meant = Meant(run, slice_name, worker)
        try:
            found, answers = chosen(lambda one: find(one, meant.names_in(one), meant, user))[1]
        except UnknownRun:
            says = said_of(run)
            if says:
                raise click.ClickException(says) from None
            raise
        refusal = why_not(found, answers.runs)
        if refusal:
            raise click.ClickException(refusal)
        if worker is None and found.worker:
            click.echo(f"Worker 0 did not report {run}; attaching on {found.host}.", err=True)
        # The worker's address may have been updated meanwhile.
        return hold(known_fleet(False), found, user, read_only, retry)

    context.exit(guarded(show, "Interrupted."))


def hold(known: Known, run: Run, user: str | None, read_only: bool, retry: bool) -> int:
    """Attach until the person detaches or the session ends."""
    while True:
        code = keep_open(ssh_command(known, login_of(known, run, user, read_only)), True)
        if code not in (LOST, GONE):
            return Exit.FAILED if code else Exit.DONE
        what = "The connection was lost." if code == LOST else f"{run.run} ended on {run.host}."
        if not retry:
            click.echo(
                f"{what} tpu-fleet runs {run.run} shows its state; --retry reconnects.", err=True
            )
            return Exit.UNKNOWN if code == LOST else Exit.FAILED
        click.echo(f"{what} Waiting until it runs again; Ctrl-C ends this.", err=True)
        known, run = wait_for(run, user)
        if run.state in ENDED:
            click.echo(f"{run.run} {run.state}.", err=True)
            return Exit.FAILED
