"""`tpu-fleet exec`: run a command on many workers at once."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from functools import wraps
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._inventory.connections import (
    KEX_ENV,
    KEY_EXCHANGES,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils.fan_out import (
    Kex,
    Result,
    Settings,
    Talk,
    fan_out,
    make_room,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_failures import (
    ELSEWHERE,
    Kind,
    LocalTrouble,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_targets import Target

from .fleet_hosts import Known, ask_or_say_why, in_order, known_fleet, select
from .fleet_output import (
    Grouped,
    Json,
    Tagged,
    View,
    colours_here,
    exit_code,
    problems,
    summary,
)

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

# Ends the command when its connection ends: sshd does not, without a terminal. It looks whether the
# command is still there, for its number may be somebody else's by then.
WATCH = (
    "read -r line; read -r pid name state parent rest </proc/$$/stat; "
    '[ "$parent" = "$1" ] && kill -TERM "$1"'
)
# timeout without a limit: it hands the signal on to all that the command started.
RUN = (
    'exec 3<&0; /bin/sh -c "$2" watch "$$" <&3 3<&- >/dev/null 2>&1 & '
    'exec timeout -k 5 0 "${SHELL:-/bin/sh}" -c "$1" </dev/null 3<&-'
)


def remote_command(words: Sequence[str], sudo: bool = False) -> str:
    """Write what the worker's shell is given. One word is for a shell, several are a command."""
    told = words[0] if len(words) == 1 else shlex.join(words)
    before = ["sudo", "-n", "-H", "--"] if sudo else []
    return f"exec {shlex.join([*before, '/bin/sh', '-c', RUN, 'tpu-fleet', told, WATCH])}"


@dataclasses.dataclass(frozen=True)
class Job:
    """What is done on each worker."""

    command: str | Callable[[Target], str]
    talk: Talk | None = None
    user: str | None = None
    settings: Settings = dataclasses.field(default_factory=Settings)


async def work(targets: Sequence[Target], job: Job, view: View) -> list[Result]:
    """Do a job on workers; show what comes."""
    me = asyncio.current_task()
    assert me is not None  # noqa: S101
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, me.cancel)
    broken: list[BaseException] = []

    def on_output(host: str, stream: str, data: bytes) -> None:
        try:
            view.output(host, stream, data)
        except OSError as error:
            # Nobody reads on, or the disk is full: no use in going on.
            broken.append(error)
            me.cancel()

    if job.user:
        targets = [dataclasses.replace(target, user=job.user) for target in targets]
    results = []
    stream = fan_out(
        targets,
        job.command,
        talk=job.talk,
        on_output=on_output,
        settings=dataclasses.replace(job.settings, keep=1 << 12),
    )
    try:
        async with aclosing(stream):
            async for result in stream:
                if result.kind in ELSEWHERE:
                    results.append(result)
                elif view.slow:
                    results.append(await asyncio.to_thread(view.done, result))
                else:
                    results.append(view.done(result))
    except asyncio.CancelledError:
        if broken:
            raise broken[0] from None
        raise
    return results


def on_all(known: Known, names: Sequence[str], job: Job, view: View, retry: bool) -> list[Result]:
    """Do a job on all of these workers. Those that cannot be found are asked for once more."""
    make_room(len(names))
    results = {
        name: Result(
            name,
            Kind.UNAVAILABLE,
            says="it could not be used when the fleet was last asked",
            remedy="tpu-fleet status says why; --refresh asks again.",
        )
        for name in names
        if name not in known.fleet.targets
    }
    for result in results.values():
        view.done(result)
    here = [known.fleet.targets[name] for name in names if name in known.fleet.targets]
    results.update({result.name: result for result in asyncio.run(work(here, job, view))})
    elsewhere = [name for name in names if results[name].kind in ELSEWHERE]
    if elsewhere and retry:
        again = _where_now(elsewhere)
        results.update({result.name: result for result in asyncio.run(work(again, job, view))})
    for name in elsewhere:
        if results[name].kind in ELSEWHERE:
            view.done(results[name])
    return [results[name] for name in in_order(names)]


def _where_now(names: Sequence[str]) -> list[Target]:
    click.echo(f"{len(names)} not reached. Asking the fleet where they are.", err=True)
    try:
        fleet = ask_or_say_why().fleet
    except (click.ClickException, OSError, ValueError) as error:
        click.echo(getattr(error, "message", str(error)), err=True)
        return []
    return [fleet.targets[name] for name in names if name in fleet.targets]


def guarded(work: Callable[[], int], interrupted: str) -> int:
    """Do it; return its exit code, or that of what kept us from it, which is said."""
    try:
        return work()
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo(f"\n{interrupted}", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has enough. Python would complain once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except LocalTrouble as trouble:
        raise click.ClickException(f"{trouble.says}: {trouble.remedy}") from trouble
    except OSError as error:
        raise click.ClickException(f"This cannot be written: {error}") from error


def run_job(
    known: Known, names: Sequence[str], job: Job, view: View, retry: bool, quiet: bool
) -> int:
    """Do a job on workers; return our exit code."""

    def do() -> int:
        try:
            results = on_all(known, names, job, view, retry)
            view.finish(results)
        finally:
            view.close()
        if not quiet:
            for line in problems(results):
                click.echo(line, err=True)
            if exit_code(results) or sys.stderr.isatty():
                click.echo(summary(results), err=True)
        return exit_code(results)

    return guarded(do, "Interrupted: the commands that still ran were ended.")


@dataclasses.dataclass(frozen=True)
class Many:
    """Which workers are meant, and how they are reached: what `options_of_many` made of options."""

    slices: Sequence[str]
    pattern: str | None
    user: str | None
    sudo: bool
    settings: Settings
    refresh: bool | None
    """Whether the fleet is asked first; None for when a worker is not reached."""

    @property
    def retry(self) -> bool:
        """Whether workers that were not reached are looked for where they are by now."""
        return self.refresh is None

    def workers(self, pattern: str | None = None) -> tuple[Known, list[str]]:
        """Return the fleet, and the names of the workers, of which a pattern may be given here."""
        known = known_fleet(bool(self.refresh))
        return known, select(known, self.slices, pattern or self.pattern)


def options_of_many(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which workers, and how; the command gets them as one, `many`."""

    @wraps(function)
    def gathered(
        *args: Any,
        slices: tuple[str, ...],
        pattern: str | None,
        user: str | None,
        sudo: bool,
        timeout: float | None,
        connects: int,
        connect_timeout: float,
        kex: Kex | None,
        refresh: bool | None,
        **more: Any,
    ) -> None:
        settings = Settings(
            connects=connects, connect_timeout=connect_timeout, timeout=timeout, kex=kex
        )
        many = Many(slices, pattern, user, sudo, settings, refresh)
        function(*args, many=many, **more)

    options: Iterable[Callable[[Callable[..., None]], Callable[..., None]]] = (
        click.option("--slice", "slices", multiple=True, metavar="NAME", help="Only this slice."),
        click.option(
            "--limit",
            "--host",
            "pattern",
            metavar="PATTERN",
            help="Only these workers or groups, as for ansible-playbook.",
        ),
        click.option("--user", metavar="LOGIN", help="Log in as somebody else than Ansible does."),
        click.option("--sudo", is_flag=True, help="As root."),
        click.option(
            "--timeout", type=click.FloatRange(min=0.1), metavar="SECONDS", help="For a worker."
        ),
        click.option(
            "--connects",
            type=click.IntRange(1, 1024),
            default=64,
            show_default=True,
            metavar="N",
            help="So many at once connect.",
        ),
        click.option(
            "--connect-timeout",
            type=click.FloatRange(min=0.1),
            default=15.0,
            show_default=True,
            metavar="SECONDS",
            help="Until the login is done.",
        ),
        click.option(
            "--kex",
            type=click.Choice(KEY_EXCHANGES),
            envvar=KEX_ENV,
            help="Key exchange: post-quantum where the worker can, or always curve25519.  "
            "[default: as the inventory says]",
        ),
        click.option(
            "--refresh/--no-refresh",
            default=None,
            help="Ask the fleet for addresses first, or never (when a worker is not reached).",
        ),
    )
    for option in reversed(list(options)):
        gathered = option(gathered)
    return gathered


class OfWorkers(click.Command):
    """A command whose arguments are a command of the workers, with options of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say where those options belong, as ours do not exist."""
        marked = "--" in args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if marked:
                raise
            hint = "What is meant for the workers follows --: tpu-fleet exec -- nproc --all"
            raise click.UsageError(f"No such option: {error.option_name}. {hint}", ctx) from error


@click.command("exec", cls=OfWorkers)
@options_of_many
@click.option("--group", "form", flag_value="group", help="Show what is equal once, at the end.")
@click.option("--tag", "form", flag_value="tag", help="Show each line at once, with its worker.")
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_context
def exec_command(
    context: click.Context,
    many: Many,
    form: str | None,
    command: tuple[str, ...],
) -> None:
    """Run a command on all workers of the fleet in this folder, or of some slices, at once.

    One word is for a shell: tpu-fleet exec -- 'ls *.log | wc -l'. Several words are a command and
    its arguments. It has no input, and ends when its connection does.

    Ends with 0 when it went well everywhere, with 1 when it failed on a worker, with 2 when a
    worker could not be worked with.
    """
    known, names = many.workers()
    job = Job(remote_command(command, many.sudo), user=many.user, settings=many.settings)
    view = view_of(form, names)
    context.exit(run_job(known, names, job, view, many.retry, quiet=form == "json"))


def view_of(form: str | None, names: Sequence[str]) -> View:
    """Choose how to show it: for a person what is equal once; for a pipe every line by itself."""
    if form == "json":
        return Json()
    terminal = sys.stdout.isatty()
    if form is None and len(names) == 1:
        return View()
    if form == "group" or (form is None and terminal):
        progress = sys.stderr.isatty() and len(names) > 1
        return Grouped(len(names), colours_here(sys.stdout), progress)
    return Tagged(names, colours_here(sys.stdout))
