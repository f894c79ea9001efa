"""`tpu-fleet ssh`: log in to a worker, or run a command on one as ssh does."""

from __future__ import annotations

import shlex
import sys

import click
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import group_name

from ..show.output import show_problems
from ..workers.inventory.hosts import Known, fold, in_order, place_of
from ..workers.inventory.lookup import chosen, known_fleet
from ..workers.inventory.names import NameOf, no_such
from ..workers.login import Login, log_in
from .attach import Meant, UnknownRun, find
from .many import guarded

# A login shell, or shell code: in the home folder, as ssh has it.
SHELL = 'cd; [ "$#" = 0 ] && exec "${SHELL:-/bin/sh}" -l; exec "${SHELL:-/bin/sh}" -c "$1"'
# As the run's user where this login may become it, and else as who it is.
AS_USER = (
    'user=$1; shell=$2; shift 2; if sudo -n -u "$user" -- true 2>/dev/null; then '
    'exec sudo -n -H -u "$user" -- /bin/sh -c "$shell" tpu-fleet "$@"; fi; '
    'echo "$(id -un) may not become $user here, and remains $(id -un)." >&2; '
    'exec /bin/sh -c "$shell" tpu-fleet "$@"'
)


class WithCommand(click.Command):
    """A click command whose last argument is all that follows `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows `--` apart: without a name, its first word would be taken for one."""
        at = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["command"] = tuple(args[at + 1 :])
        return rest


def worker_called(known: Known, name: str, worker: int | None) -> str | None:
    """Return the worker of this name, or of the slice of this name; None if neither exists."""
    members = known.fleet.groups.get(group_name("tpu_slice", name))
    if members is None:
        return name if name in known.names and worker is None else None
    found = {place_of(host, known.fleet.groups)[1]: host for host in members}
    if (worker or 0) not in found:
        there = ", ".join(map(str, sorted(found)))
        raise click.ClickException(f"{name} has no worker {worker or 0}, but {there}.")
    return found[worker or 0]


def only_worker(known: Known) -> str:
    """Return the worker of a fleet that has one."""
    if len(known.names) == 1:
        return known.names[0]
    there = fold(known.names) or "none at all"
    raise click.ClickException(f"Say which worker, slice or run. There is {there}.")


def remote_words(run_user: str, login: str, command: tuple[str, ...]) -> str:
    """Return the command for the login's shell; empty for a login shell."""
    told = [command[0] if len(command) == 1 else shlex.join(command)] if command else []
    if not run_user or run_user == login:
        return told[0] if told else ""
    return shlex.join(["/bin/sh", "-c", AS_USER, "tpu-fleet", run_user, SHELL, *told])


def place(name: str | None, meant: Meant, user: str | None) -> tuple[Known, str, str]:
    """Return the fleet, the worker that is meant, and the user of a run if that is meant."""
    known, (host, run_user) = chosen(lambda known: place_in(known, name, meant, user))
    # The worker's address may have been updated meanwhile.
    return known_fleet(False) if run_user else known, host, run_user


def place_in(known: Known, name: str | None, meant: Meant, user: str | None) -> tuple[str, str]:
    """Return the worker of a fleet that is meant, and the user of a run if that is meant."""
    if name is None:
        return only_worker(known), ""
    host = None if meant.slice else worker_called(known, name, meant.worker)
    if host:
        return host, ""
    try:
        run, answers = find(known, known.names, meant, user)
    except UnknownRun as unknown:
        groups = (group for group in known.fleet.groups if group.startswith("tpu_slice_"))
        slices = [group.removeprefix("tpu_slice_") for group in groups]
        there = in_order({*known.names, *slices, *unknown.there})
        raise click.ClickException(no_such("worker, slice or run", name, there)) from unknown
    show_problems([one for one in answers.results if one.name == run.host])
    if meant.worker is None and run.worker:
        click.echo(f"Worker 0 did not report {name}; logging in to {run.host}.", err=True)
    return run.host, run.status.user


@click.command(cls=WithCommand)
@click.option("--slice", "slice_name", type=NameOf("slices"), metavar="NAME", help="On this slice.")
@click.option("--worker", type=click.IntRange(0), metavar="N", help="On worker N.  [default: 0]")
@click.option("--user", metavar="LOGIN", help="Log in as this user instead of Ansible's.")
@click.argument("name", required=False, type=NameOf("workers slices runs"), metavar="[HOST|RUN]")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.pass_context
def ssh(
    context: click.Context,
    slice_name: str | None,
    worker: int | None,
    user: str | None,
    name: str | None,
    command: tuple[str, ...],
) -> None:
    """Log in to a worker, or run COMMAND there.

    HOST is a worker (pair-w1) or a slice (pair), of which worker 0 is meant. RUN is worker 0 of its
    slice, as the run's user if you may. A fleet of one worker needs no name.

    \b
      tpu-fleet ssh pair-w1
      tpu-fleet ssh digits
      tpu-fleet ssh pair --worker 1 -- 'df -h /; uptime'

    The fleet's own ssh configuration is used: a worker's host key is checked, and a worker that has
    moved is found at its new address. One word after -- is shell code; several are a command and
    its arguments.
    """

    def session() -> int:
        known, host, run_user = place(name, Meant(name or "", slice_name, worker), user)
        target = known.fleet.targets.get(host)
        words = remote_words(run_user, user or (target.user if target else ""), command)
        terminal = sys.stdin.isatty() and sys.stdout.isatty()
        return log_in(known, Login(host, user, words, terminal))

    context.exit(guarded(session, "Interrupted."))
