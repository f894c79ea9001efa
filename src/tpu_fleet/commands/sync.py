"""`tpu-fleet sync`: take this computer's code to a run's workers, and start its next attempt."""

from __future__ import annotations

import asyncio
import getpass
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from ansible_collections.tpu.fleet.plugins.module_utils._host.snapshot import SnapshotError
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result, Settings

from ..contract.exits import Exit
from ..contract.printing import option_json, print_json
from ..on_worker.run_states import RUNNING
from ..show.figures import amount, size
from ..show.output import exit_code, problems
from ..workers.ask.on_all import ASK_AGAIN
from ..workers.inventory.hosts import Known
from ..workers.inventory.lookup import ask_or_say_why, chosen
from ..workers.inventory.names import NameOf
from ..workers.sync.declared import Declared, declared, workers_of
from ..workers.sync.folder import Version, keep, looked_at, origin_of, version_of
from ..workers.sync.talk import SILENCE, Progress, Sync
from .many import guarded

UNCHANGED = "Nothing was changed."
LOOK, REST = 0.3, 0.1
"""Seconds between two looks at the folder, and for which it must not change after a save."""


@dataclass
class Board:
    """One line for each slice, as soon as all its workers are as far."""

    declared: Declared
    version: Version
    begun: float
    quiet: bool
    hosts: Mapping[str, Sequence[str]]
    progress: Mapping[str, Progress] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def heard(self, name: str, _progress: Progress) -> None:
        """Show the slice of a worker when its last worker is done."""
        for one, hosts in self.hosts.items():
            whole = name in hosts and all(self.progress[host].running for host in hosts)
            if whole and one not in self._told:
                self._told.add(one)
                if not self.quiet:
                    click.echo(self.line(one))

    def of_slice(self, name: str) -> dict[str, Any]:
        """Return what became of a slice, for programs."""
        mine = [self.progress[host] for host in self.hosts[name]]
        runs: dict[str, Mapping[str, Any]] = {}
        for one in mine:
            # The worker that is least far says how far the slice is.
            for run in one.runs:
                there = runs.get(run["run"])
                if there is None or (there["next"] and run["state"] != RUNNING):
                    runs[run["run"]] = run
        return {
            "slice": name,
            "workers": len(mine),
            "version": self.version.digest,
            "same": all(one.same for one in mine),
            "files": max(one.files for one in mine),
            "bytes": sum(one.sent for one in mine),
            "runs": list(runs.values()),
            "seconds": round(time.monotonic() - self.begun, 2),
        }

    def line(self, name: str) -> str:
        """Return what became of a slice, in one line."""
        said = self.of_slice(name)
        parts = [amount(said["workers"], "worker"), said["version"][:8]]
        if said["same"]:
            parts.append("already there")
        else:
            parts.append(f"{amount(said['files'], 'file')}, {size(said['bytes'])} sent")
        parts += [state_of(run, len(said["runs"]) > 1, said["same"]) for run in said["runs"]]
        return f"{name}: {', '.join(parts)}, {said['seconds']:.1f} s"


def half_done(switched: int, workers: int) -> str:
    """Return how far a sync came that failed, and what to do."""
    if switched == workers:
        return "The new version is on all workers. Correct what is named above."
    return (
        f"{switched} of {workers} workers switched. The run waits until all have the same version: "
        "sync again."
    )


def state_of(run: Mapping[str, Any], named: bool, same: bool) -> str:
    """Say what a run does with the version."""
    attempt = f"attempt {run['attempt']}"
    whose = f"{run['run']} " if named else ""
    if run["next"] or same:
        verb = "runs" if run["state"] == RUNNING else shown(run["state"]) or "begins"
        return f"{whose}{attempt} {verb}"
    reason = f" ({shown(run['reason'])})" if run["reason"] else ""
    return f"{whose}next attempt is still waited for{reason}"


@click.command()
@click.option("-w", "--watch", is_flag=True, help="Sync again at every save, until Ctrl-C.")
@click.option("--check", is_flag=True, help="Change nothing; say what would change.")
@option_json("An object for each sync.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Time limit for a worker.",
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=NameOf("runs"))
@click.pass_context
def sync(
    context: click.Context,
    watch: bool,
    check: bool,
    machine_readable: bool,
    timeout: float | None,
    runs: tuple[str, ...],
) -> None:
    """Take the code as it is here to RUN's workers; restart RUN.

    Only changed files travel, and no worker switches before all have the version. Other runs, other
    roles and the rest of the fleet file are left alone: when RUN itself differs from what is
    applied, this names the difference, and tpu-fleet apply applies it. Several runs that share a
    tree are named together.

    \b
      tpu-fleet sync digits
      tpu-fleet sync digits --watch
    """
    asked = Asked(list(dict.fromkeys(runs)), check, machine_readable, timeout)
    if watch and check:
        raise click.UsageError("--watch changes workers, and --check changes nothing: give one")
    work = asked.watch if watch else asked.once
    context.exit(guarded(work, "Interrupted. A worker that had switched completes its part."))


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    runs: Sequence[str]
    check: bool = False
    as_json: bool = False
    timeout: float | None = None

    def once(self) -> int:
        """Sync once; return the exit code."""
        begun = time.monotonic()
        board, worker, results = self._sync(*self._declared(), begun)
        away = [result for result in results if result.kind in ASK_AGAIN]
        if away and worker.refused:
            click.echo(f"{len(away)} not reached. Reading their addresses from the API.", err=True)
            known = ask_or_say_why()
            board, worker, results = self._sync(known, declared(known, self.runs), begun)
        return self._verdict(board, worker, results)

    def _declared(self) -> tuple[Known, Declared]:
        return chosen(lambda known: declared(known, self.runs))

    def _sync(self, known: Known, what: Declared, begun: float) -> tuple[Board, Sync, list[Result]]:
        version = folder_of(what)
        hosts = {one.slice: workers_of(known, one.slice) for one in what.slices}
        board = Board(what, version, begun, self.as_json or self.check, hosts)
        orders = {
            one.slice: order_of(what, version, number) for number, one in enumerate(what.slices)
        }
        worker = Sync(
            {host: orders[name] for name, those in hosts.items() for host in those},
            version.packed,
            lambda: around(what, version, self.check),
            board.heard,
        )
        board.progress = worker.progress
        targets = [known.fleet.targets[host] for one in hosts.values() for host in one]
        settings = Settings(timeout=self.timeout, silence=SILENCE)
        return board, worker, asyncio.run(worker.run(targets, settings, self.check))

    def _verdict(self, board: Board, worker: Sync, results: Sequence[Result]) -> int:
        slices = [board.of_slice(name) for name in board.hosts]
        refusals = {name: one.refused for name, one in worker.progress.items() if one.refused}
        if self.as_json:
            print_json("sync", {"slices": slices, "refused": refusals}, indent=None)
        for line in [*grouped(refusals), *problems(results), *broken(results, refusals)]:
            click.echo(line, err=True)
        if self.check and not refusals and all(one.ready for one in worker.progress.values()):
            for one in slices if not self.as_json else ():
                click.echo(would(one))
            return Exit.DONE
        switched = [name for name, one in worker.progress.items() if one.switched]
        if worker.refused:
            click.echo(UNCHANGED, err=True)
        elif refusals or exit_code(results):
            click.echo(half_done(len(switched), len(worker.progress)), err=True)
        elif board.declared.elsewhere and switched:
            click.echo(
                f"Tree {board.declared.tree} is also on {', '.join(board.declared.elsewhere)}, "
                "which tpu-fleet apply brings to this version.",
                err=True,
            )
        failed = any(run["next"] and run["state"] == "failed" for s in slices for run in s["runs"])
        wrong = refusals or failed or worker.refused
        return max(exit_code(results), Exit.FAILED if wrong else Exit.DONE)

    def watch(self) -> int:
        """Sync now and after every save, until Ctrl-C."""
        folder = Path(self._declared()[1].folder)
        while True:
            before = looked_at(folder)
            try:
                self.once()
            except (click.ClickException, OSError) as error:
                # The next save may be the remedy.
                click.echo(f"Error: {getattr(error, 'message', error)}", err=True)
            wait_for_save(folder, before)


def folder_of(what: Declared) -> Version:
    """Read the folder of the tree."""
    try:
        version = version_of(Path(what.folder))
    except (OSError, SnapshotError) as error:
        raise click.ClickException(
            f"Tree {what.tree}: {what.folder} cannot be packed: {error}. {UNCHANGED}"
        ) from error
    for warning in version.warnings:
        click.echo(warning, err=True)
    return version


def wait_for_save(folder: Path, before: object) -> None:
    """Wait until a folder differs, and then until it rests: an editor writes several files."""
    while (now := looked_at(folder)) == before:
        time.sleep(LOOK)
    while True:
        time.sleep(REST)
        now, last = looked_at(folder), now
        if now == last:
            return


async def around(what: Declared, version: Version, check: bool) -> Mapping[str, Any]:
    """Keep the version as a playbook would have packed it; return what git says of it."""
    if check:
        return {}
    origin = asyncio.to_thread(origin_of, version.folder)
    archive = asyncio.to_thread(keep, version, Path(what.snapshots), what.tree)
    said: dict[str, Any] = (await asyncio.gather(origin, archive))[0]
    return said


def order_of(what: Declared, version: Version, number: int) -> dict[str, Any]:
    """Return what the workers of a slice are asked for."""
    one = what.slices[number]
    return {
        "runs": list(one.expected),
        "entry": one.entry,
        "trees": one.trees,
        "slice": one.slice,
        "keep": one.keep,
        "digest": version.digest,
        "entries": version.lines(),
        "expected": one.expected,
        "requirements": one.requirements,
        "who": f"{getpass.getuser()}@{socket.gethostname()}",
    }


def grouped(refusals: Mapping[str, str]) -> list[str]:
    """Return each reason once, with the first worker that gave it, and how many others did."""
    same: dict[str, list[str]] = {}
    for name, why in refusals.items():
        same.setdefault(why, []).append(name)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {shown(why, 2000)}"
        for why, names in same.items()
    ]


def broken(results: Sequence[Result], refusals: Mapping[str, str]) -> list[str]:
    """Return what workers wrote on which the program itself failed, for example sudo."""
    return grouped(
        {
            result.name: result.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            or f"the program ended with {result.exit_status}"
            for result in results
            if result.exit_status and not result.says and result.name not in refusals
        }
    )


def would(said: Mapping[str, Any]) -> str:
    """Return what would be sent to a slice, in one line."""
    sent = f"{amount(said['files'], 'file')}, {size(said['bytes'])} would be sent"
    what = "already there" if said["same"] else sent
    return f"{said['slice']}: {amount(said['workers'], 'worker')}, {said['version'][:8]}, {what}"
