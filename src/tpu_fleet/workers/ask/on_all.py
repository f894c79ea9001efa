"""Run a job on many workers in parallel; retry unreached ones at new addresses."""

from __future__ import annotations

import asyncio
import dataclasses
import shlex
import signal
from collections.abc import Callable, Sequence
from contextlib import aclosing

import click
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import ELSEWHERE, Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import (
    Result,
    Settings,
    Talk,
    fan_out,
    make_room,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target

from ..inventory.hosts import Known, in_order
from ..inventory.lookup import ask_or_say_why
from .view import View

# Ends the command with its connection, because sshd does not without a terminal. It checks that the
# command still runs, because its pid may be reused.
WATCH = (
    "read -r line; read -r pid name state parent rest </proc/$$/stat; "
    '[ "$parent" = "$1" ] && kill -TERM "$1"'
)
# timeout without a limit: it passes the signal on to all children of the command.
RUN = (
    'exec 3<&0; /bin/sh -c "$2" watch "$$" <&3 3<&- >/dev/null 2>&1 & '
    'exec timeout -k 5 0 "${SHELL:-/bin/sh}" -c "$1" </dev/null 3<&-'
)
# The workers that the API may know at another address, or as usable, by now.
ASK_AGAIN = ELSEWHERE | {Kind.UNAVAILABLE}


def remote_command(words: Sequence[str], sudo: bool = False) -> str:
    """Return the text for the worker's shell: one word is shell code, several are a command."""
    told = words[0] if len(words) == 1 else shlex.join(words)
    before = ["sudo", "-n", "-H", "--"] if sudo else []
    return f"exec {shlex.join([*before, '/bin/sh', '-c', RUN, 'tpu-fleet', told, WATCH])}"


def unusable(name: str) -> Result:
    """Return the result of a worker that the last reading of the fleet calls unusable."""
    says = "it was unusable when the fleet was last read"
    return Result(name, Kind.UNAVAILABLE, says=says, remedy="tpu-fleet status shows the reason.")


@dataclasses.dataclass(frozen=True)
class Job:
    """The job for each worker."""

    command: str | Callable[[Target], str]
    talk: Talk | None = None
    user: str | None = None
    settings: Settings = dataclasses.field(default_factory=Settings)


async def work(targets: Sequence[Target], job: Job, view: View) -> list[Result]:
    """Run a job on workers; show its output."""
    me = asyncio.current_task()
    assert me is not None  # noqa: S101
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, me.cancel)
    broken: list[BaseException] = []

    def on_output(host: str, stream: str, data: bytes) -> None:
        try:
            view.output(host, stream, data)
        except OSError as error:
            # The reader of the output is gone, or the disk is full: continuing is useless.
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
    """Run a job on all of these workers; read again where the unreached and unusable ones are."""
    make_room(len(names))
    results = {name: unusable(name) for name in names if name not in known.fleet.targets}
    here = [known.fleet.targets[name] for name in names if name in known.fleet.targets]
    results.update({result.name: result for result in asyncio.run(work(here, job, view))})
    elsewhere = [name for name in names if results[name].kind in ASK_AGAIN]
    if elsewhere and retry:
        again = _where_now(elsewhere)
        results.update({result.name: result for result in asyncio.run(work(again, job, view))})
    for name in elsewhere:
        if results[name].kind in ASK_AGAIN:
            view.done(results[name])
    return [results[name] for name in in_order(names)]


def _where_now(names: Sequence[str]) -> list[Target]:
    click.echo(f"{len(names)} not reached. Reading their addresses from the API.", err=True)
    try:
        fleet = ask_or_say_why().fleet
    except (click.ClickException, OSError, ValueError) as error:
        click.echo(getattr(error, "message", str(error)), err=True)
        return []
    return [fleet.targets[name] for name in names if name in fleet.targets]
