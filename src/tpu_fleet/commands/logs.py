"""`tpu-fleet logs`: show the log of a run from all its workers."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import sys
from dataclasses import replace

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import Life
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._schema.values import ENTRY_NAME
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import make_room
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet

from ..contract.exits import Exit
from ..on_worker.run_states import ENDED
from ..show.output import Tagged, colours_here, exit_code, show_problems
from ..workers.archive.declared import Archives
from ..workers.archive.logs import ArchivedLog
from ..workers.ask.view import View
from ..workers.inventory.hosts import NO_CONFIG, Known, fold, part_of, place_of
from ..workers.inventory.names import NameOf, no_such
from ..workers.inventory.read import PlayError
from ..workers.logs.follow import Follower, WantedLogs, results_of
from ..workers.logs.plan import endings
from .many import Many, guarded, options_of_many
from .options import option_worker
from .since import moment
from .submitted import archive_of, said_of, slice_of

KEEPALIVE = 5.0
"""Seconds between keepalives; an unreachable machine is noticed within three of them."""


def checked_name(context: click.Context, option: click.Parameter, name: str) -> str:
    """Refuse an invalid name of a run."""
    if not ENTRY_NAME.fullmatch(name):
        raise click.BadParameter("The name of a run has letters, digits, - and _.", context, option)
    return name


def of_slice(known: Known, names: list[str], slice_: str) -> list[str]:
    """Keep the workers of the slice that has a submitted run; of another run all."""
    if not slice_:
        return names
    return [name for name in names if place_of(name, known.fleet.groups)[0] == slice_] or names


def has_ended(follower: Follower) -> bool:
    """Return whether a run has ended by itself, and not only on this slice."""
    return any(state in ENDED for state in endings(follower.watched.workers.values()))


def is_meant(life: Life, many: Many) -> bool:
    """Say whether a machine that the fleet has no more is chosen."""
    slices = [part for words in many.slices for part in words.split(",") if part]
    index = life.host.removeprefix(life.slice).removeprefix("-w") or "0"
    return (
        (not slices or life.slice in slices)
        and (not many.limit or fnmatch.fnmatch(life.host, many.limit))
        and (many.worker is None or int(index) == many.worker)
    )


def workers_here(many: Many, archive: ArchivedLog) -> tuple[Known, list[str]]:
    """Return the fleet, and the chosen workers: none where only the archive has the run."""
    try:
        return many.workers()
    except click.ClickException:
        with contextlib.suppress(PlayError, TpuError):
            if archive.lives():
                return Known(NO_CONFIG, Fleet({})), []
        says = said_of(archive.run)
        if says:
            raise click.ClickException(says) from None
        raise


def read(follower: Follower) -> int:
    """Read the log from all workers; return the exit code."""
    make_room(len(follower.watched.workers))
    try:
        workers = asyncio.run(follower.run())
    finally:
        follower.view.close()
    results = results_of(workers)
    show_problems(results)
    name = follower.wanted.run
    if not any(worker.met or worker.archived for worker in workers):
        # A worker that was not reached may have it.
        if any(worker.none is not None for worker in workers):
            where = part_of(follower.fleet, follower.watched.workers)
            says = said_of(name) or no_such("run", name, follower.watched.others(), where)
            click.echo(visible(says), err=True)
        return max(Exit.FAILED, exit_code(results))
    if follower.wanted.follow:
        for state, names in endings(workers).items():
            click.echo(f"{name} {state} on {fold(names)}.", err=True)
    return exit_code(results)


@click.command()
@options_of_many
@click.option("-f", "--follow", is_flag=True, help="Continue until the run has ended, or Ctrl-C.")
@option_worker()
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines of each.")
@click.option(
    "--since",
    callback=moment,
    metavar="TIME",
    help="From the last place known to be older: 30m, 22:00, 2026-11-20T08:00.",
)
@click.argument("run", type=NameOf("runs submitted"), callback=checked_name)
@click.pass_context
def logs(
    context: click.Context,
    many: Many,
    follow: bool,
    tail: int | None,
    since: float | None,
    run: str,
) -> None:
    """Show the log of RUN from all its workers.

    Rotated files are included, and of a run with an archive what machines that are gone have
    printed: it comes first, as one log with that of the machine that is there.

    Each line follows the name of its worker, unless there is only one worker. With -f it continues
    until the run has succeeded or failed everywhere: it reconnects to workers after reboots, lost
    connections and changes of address, and shows every line once. For a submitted run that waits it
    waits too, and follows the run from slice to slice.

    Lines have no times: --since begins at the last line before TIME whose time is known, which is
    the start or end of an attempt. A log larger than its run may write is shown from near its end.

    \b
      tpu-fleet logs digits
      tpu-fleet logs -f digits --worker 0 --tail 20
      tpu-fleet logs digits --since 30m
    """
    if tail is not None and since is not None:
        raise click.UsageError("--tail and --since both set the start: give one of them")

    def show() -> int:
        archives = Archives(elsewhere=archive_of)
        archive = ArchivedLog(run, tail, since, lambda life: is_meant(life, many), archives)
        slice_ = slice_of(run) if follow else ""
        follower = follower_of(slice_, archive)
        code = read(follower)
        while slice_ and not has_ended(follower):
            slice_ = slice_of(run, slice_)
            if slice_:
                follower = follower_of(slice_, None)
                code = read(follower)
        return code

    def follower_of(slice_: str, archive: ArchivedLog | None) -> Follower:
        known, names = workers_here(many, archive or ArchivedLog(run))
        names = of_slice(known, names, slice_)
        view = View() if len(names) == 1 else Tagged(names, colours_here(sys.stdout))
        wanted = WantedLogs(
            {"run": run, "follow": follow, "tail": tail, "since": since},
            many.user,
            many.sudo,
            replace(many.settings, keepalive=KEEPALIVE),
            refresh=many.refresh is not False,
        )
        follower = Follower(known, names, wanted, view, archive)
        if slice_:
            follower.watched.expect(slice_)
        return follower

    context.exit(guarded(show, "Interrupted."))
