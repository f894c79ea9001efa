"""Shared code of commands for many workers: options, interruption, the exit code."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import click
from ansible_collections.tpu.fleet.plugins.module_utils._inventory.connections import (
    KEX_ENV,
    KEY_EXCHANGES,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import LocalTrouble
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Kex, Settings

from ..contract.exits import Exit
from ..show.output import exit_code, show_problems, summary
from ..workers.ask.on_all import Job, on_all
from ..workers.ask.view import View
from ..workers.inventory.hosts import Known, fold, place_of, select
from ..workers.inventory.lookup import chosen
from .options import gathered, option_limit, option_slice, option_timeout

T = TypeVar("T")


def guarded(work: Callable[[], int], interrupted: str) -> int:
    """Run the job; return its exit code, or print the failure and return its exit code."""
    try:
        return work()
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo(f"\n{interrupted}", err=True)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe. Python would report that again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.READER_GONE
    except LocalTrouble as trouble:
        raise click.ClickException(f"{trouble.says}: {trouble.remedy}") from trouble
    except OSError as error:
        raise click.ClickException(f"Writing failed: {error}") from error


def run_job(
    known: Known, names: Sequence[str], job: Job, view: View, retry: bool, quiet: bool
) -> int:
    """Run a job on workers; return the exit code."""

    def do() -> int:
        try:
            results = on_all(known, names, job, view, retry)
            view.finish(results)
        finally:
            view.close()
        if not quiet:
            show_problems(results)
            if exit_code(results) or sys.stderr.isatty():
                click.echo(summary(results), err=True)
        return exit_code(results)

    return guarded(do, "Interrupted: the commands that still ran were ended.")


@dataclasses.dataclass(frozen=True)
class Many:
    """The chosen workers and how to reach them, as `options_of_many` read them."""

    slices: Sequence[str]
    limit: str | None
    user: str | None = None
    sudo: bool = True
    """Some commands are always root on the workers."""
    refresh: bool | None = None
    """Whether to ask the API for addresses first; None: only if a worker is not reached."""
    worker: int | None = None
    """The index in its slice that a chosen worker has; None for all."""
    timeout: float | None = None
    connects: int = Settings.connects
    connect_timeout: float = Settings.connect_timeout
    kex: Kex | None = None

    @property
    def settings(self) -> Settings:
        """Return the limits of the calls."""
        return Settings(
            connects=self.connects,
            connect_timeout=self.connect_timeout,
            timeout=self.timeout,
            kex=self.kex,
        )

    @property
    def retry(self) -> bool:
        """Whether to ask the API for new addresses of workers that were not reached."""
        return self.refresh is None

    def workers(self, limit: str | None = None) -> tuple[Known, list[str]]:
        """Return the fleet, and the names of the chosen workers."""
        return self.chosen(lambda known: self.names_in(known, limit))

    def names_in(self, known: Known, limit: str | None = None) -> list[str]:
        """Return the names of the chosen workers in a fleet."""
        return of_worker(known, select(known, self.slices, limit or self.limit), self.worker)

    def chosen(self, choose: Callable[[Known], T]) -> tuple[Known, T]:
        """Return the fleet, and what is chosen in it; see `lookup.chosen`."""
        return chosen(choose, self.refresh)


def of_worker(known: Known, names: list[str], worker: int | None) -> list[str]:
    """Keep the workers that have this index in their slice."""
    if worker is None:
        return names
    kept = [name for name in names if place_of(name, known.fleet.groups)[1] == worker]
    if not kept:
        raise click.ClickException(f"None of {fold(names)} is worker {worker} of its slice.")
    return kept


def limit_of(slices: Sequence[str], limit: str | None) -> str | None:
    """Return the chosen workers as a pattern of Ansible's; of slices their names must exist."""
    if not slices:
        return limit
    return ",".join(chosen(lambda known: select(known, slices, limit))[1])


def options_of_many(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose workers, logins and rights; the command gets them as `many`."""
    return options_of_workers(click.option("--sudo", is_flag=True, help="Run as root.")(function))


def options_of_workers(
    function: Callable[..., None], time_limit: str = "for a worker."
) -> Callable[..., None]:
    """Add these options to a command that is always root on the workers."""
    return gathered(
        *("many", Many),
        option_slice(),
        option_limit(),
        click.option("--user", metavar="LOGIN", help="Log in as this user instead of Ansible's."),
        option_timeout(limit=time_limit),
        click.option(
            "--connects",
            type=click.IntRange(1, 1024),
            default=Settings.connects,
            show_default=True,
            metavar="N",
            help="Connections opened at the same time.",
        ),
        click.option(
            "--connect-timeout",
            type=click.FloatRange(min=0.1),
            default=Settings.connect_timeout,
            show_default=True,
            metavar="SECONDS",
            help="Time limit for a login.",
        ),
        click.option(
            "--kex",
            type=click.Choice(KEY_EXCHANGES),
            envvar=KEX_ENV,
            help="Key exchange: post-quantum if the worker supports it, or always curve25519.  "
            "[default: as the inventory says]",
        ),
        click.option(
            "--refresh/--no-refresh",
            default=None,
            help="Ask the API for addresses first, or never (default: if a worker is not reached).",
        ),
    )(function)
