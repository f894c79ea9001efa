"""Read a run's log from many workers, and reconnect to each lost one until it is back."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import AnswerError
from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import Life
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    Archived,
    Piece,
    RunStatus,
)
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import NOT_STARTED
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import (
    Channel,
    Result,
    Settings,
    fan_out,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target

from ..archive.logs import ArchivedLog
from ..ask.on_all import unusable
from ..ask.run_answers import last_said, pieces
from ..ask.view import View
from ..ask.worker_program import reader_command
from ..inventory.hosts import Known, fold, place_of
from ..inventory.lookup import ask_or_say_why
from ..inventory.read import PlayError
from .plan import FRUITLESS, Step, Watched, Worker, next_step

SIGN_OF_LIFE = 15.0
SILENCE = 60.0
"""Seconds of silence after which a worker is given up, without --follow."""
LOOK_AGAIN_AFTER = 15.0
"""Seconds between two look-ups of the workers' addresses."""


@dataclass(frozen=True)
class WantedLogs:
    """The request."""

    asked: Mapping[str, Any]
    """The request to the reader: run, follow, tail, since."""
    user: str | None = None
    sudo: bool = False
    settings: Settings = field(default_factory=Settings)
    refresh: bool = True
    """Whether addresses may be looked up again."""

    @property
    def run(self) -> str:
        """The name of the run."""
        return str(self.asked["run"])

    @property
    def follow(self) -> bool:
        """Whether to continue until the run has ended."""
        return bool(self.asked.get("follow"))


class Notes:
    """Prints events of workers, equal ones once."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._waiting: dict[str, list[str]] = {}

    def add(self, name: str, text: str) -> None:
        """Queue an event for printing."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(0.3, self.flush)
        self._waiting.setdefault(text, []).append(name)

    def flush(self) -> None:
        """Print the queued events."""
        waiting, self._waiting = self._waiting, {}
        for text, names in waiting.items():
            self._show(f"{fold(names)}: {text}")


class Follower:
    """One connection for each worker; a lost one is resumed where it was lost."""

    def __init__(
        self,
        known: Known,
        names: Sequence[str],
        wanted: WantedLogs,
        view: View,
        archive: ArchivedLog | None = None,
    ) -> None:
        self.fleet = known.fleet
        self.wanted = wanted
        self.view = view
        self.archive = archive
        self.watched = Watched(
            {name: Worker(name, place_of(name, known.fleet.groups)[0]) for name in names}
        )
        self.notes = Notes(lambda line: click.echo(line, err=True))
        self._results: asyncio.Queue[Result | BaseException] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._due: dict[str, float] = {}
        self._is_archived = False
        self._look = False
        self._looked = float("-inf")

    async def run(self) -> list[Worker]:
        """Read until the end; return the outcome of each worker."""
        me = asyncio.current_task()
        assert me is not None  # noqa: S101
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, me.cancel)
        try:
            if not self.watched.workers:
                await self._show_gone()
            self._connect(list(self.watched.workers))
            while not self.watched.over():
                due = min(self._due.values(), default=None)
                result = None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(due):
                        result = await self._results.get()
                if isinstance(result, BaseException):
                    raise result
                if result is not None:
                    await self._take(result)
                else:
                    await self._again()
            met = any(worker.met for worker in self.watched.workers.values())
            if self._is_archived or not met:
                await self._show_gone()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.notes.flush()
        return list(self.watched.workers.values())

    # Connections

    def _connect(self, names: Sequence[str]) -> None:
        here = []
        for name in names:
            target = self.fleet.targets.get(name)
            if target is None:
                self._results.put_nowait(unusable(name))
                continue
            here.append(replace(target, user=self.wanted.user) if self.wanted.user else target)
        if here:
            task = asyncio.create_task(self._fan_out(here))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _fan_out(self, targets: Sequence[Target]) -> None:
        try:
            stream = fan_out(targets, self._command, talk=self._talk, settings=self.wanted.settings)
            async with aclosing(stream):
                async for result in stream:
                    self._results.put_nowait(result)
        except Exception as error:
            self._results.put_nowait(error)

    def _command(self, target: Target) -> str:
        worker = self.watched.workers[target.name]
        return reader_command(worker.order(self.wanted.asked), self.wanted.sudo)

    async def _talk(self, channel: Channel) -> None:
        worker = self.watched.workers[channel.target.name]
        worker.none = worker.end = worker.error = None
        alive = asyncio.create_task(_signs_of_life(channel))
        try:
            async for piece, data in pieces(channel, None if self.wanted.follow else SILENCE):
                if piece.run is not None:
                    await self._before(worker, piece.run)
                if new := worker.unseen(piece, data):
                    self._show(worker.name, new)
                # Only after it was shown, because a repeated piece is shown again.
                self._heard(worker, piece)
        except AnswerError as error:
            worker.error = error.says, error.remedy
            raise
        finally:
            alive.cancel()

    def _show(self, name: str, data: bytes) -> None:
        try:
            self.view.output(name, "stdout", data)
        except OSError as error:
            # The reader of the output is gone, or the disk is full.
            self._results.put_nowait(error)
            raise

    def _heard(self, worker: Worker, piece: Piece) -> None:
        failures = worker.failures
        lost = worker.heard(piece, self.wanted.follow)
        if lost:
            # A partial line will never be completed.
            self.view.done(Result(worker.name, Kind.DONE, 0))
            self.notes.add(worker.name, lost)
        if piece.run is None:
            return
        state = piece.run.state
        if failures:
            self.notes.add(worker.name, "is back.")
        elif self.wanted.follow and state != "running":
            self.notes.add(worker.name, f"{self.wanted.run} is not running: {state or 'unknown'}.")
        if self.wanted.follow:
            for other in self.watched.expect(worker.slice):
                self._plan(other, Step("again"))

    # The archive

    async def _before(self, worker: Worker, run: RunStatus) -> None:
        """Show the log of the machines that a worker had before the one that answers."""
        own = run.archive
        self._is_archived = self._is_archived or own is not None
        if self.wanted.asked.get("tail") is None and (own or run.state == NOT_STARTED):
            await self._show_archived(worker, own)

    async def _show_archived(self, worker: Worker, own: Archived | None = None) -> None:
        """Show what the archive has of a worker, but for the machine of its own that answers.

        If that of its own was shown, as it did not answer before, it goes on from there.
        """
        if self.archive is None:
            return
        try:
            for life in await asyncio.to_thread(self.archive.lives, worker.name):
                is_own = own is not None and life.name == own.life
                if not is_own or life.name in worker.archived:
                    await self._show_life(worker, life, own.log_at if own and is_own else None)
                    if own and is_own and own.log_file:
                        worker.skip = own.log_file[:2]
        except (TpuError, PlayError) as error:
            self._not_shown(error)

    async def _show_gone(self) -> None:
        """Show what the archive has of workers that the fleet has no more."""
        if self.archive is None:
            return
        try:
            lives = await asyncio.to_thread(self.archive.lives)
        except (TpuError, PlayError) as error:
            self._not_shown(error)
            return
        for life in lives:
            if life.host not in self.watched.workers:
                worker = Worker(life.host, life.slice, end="", finished=True)
                worker.result = Result(worker.name, Kind.DONE, 0)
                self.watched.workers[worker.name] = worker
                await self._show_archived(worker)
                self._say_gone(worker)

    def _say_gone(self, worker: Worker) -> None:
        kept = self.archive.kept() if self.archive else None
        if kept is not None:
            says = f"its machine is gone; this log is from {kept.address}"
            self.notes.add(worker.name, says)

    def _not_shown(self, error: Exception) -> None:
        self.archive = None
        text = f"The archive of {self.wanted.run} is not shown: {error}"
        click.echo(visible(text), err=True)

    async def _show_life(self, worker: Worker, life: Life, end: int | None) -> None:
        assert self.archive is not None  # noqa: S101
        begin = worker.archived.get(life.name, 0)
        shown = self.archive.read(life, begin, end)
        while (piece := await asyncio.to_thread(next, shown, None)) is not None:
            if piece.lost:
                self.notes.add(worker.name, piece.lost)
            self._show(worker.name, piece.data)
            begin = piece.end
        worker.archived[life.name] = begin

    # Outcomes

    async def _take(self, result: Result) -> None:
        worker = self.watched.workers[result.name]
        worker.result = result
        worker.failures += 1
        step = next_step(worker, result, self.wanted.follow)
        if not worker.met and (step.what != "again" or self.wanted.follow):
            # Nothing of it, or its machine, is there.
            await self._show_archived(worker)
        if worker.archived and result.kind is Kind.UNAVAILABLE and not self.wanted.follow:
            self._say_gone(worker)
            worker.end, result = "", Result(worker.name, Kind.DONE, 0)
            worker.result, step = result, Step("done")
        if step.what != "again":
            worker.finished = True
            if worker.error:
                says, remedy = worker.error
                worker.result = replace(result, kind=Kind.DONE, says=says, remedy=remedy)
            elif step.what == "give up" and result.kind is Kind.DONE and not result.says:
                says = last_said(result) or f"exit status {result.exit_status}"
                worker.result = replace(result, says=says)
            self.view.done(result)
            return
        if self.wanted.follow and worker.failures == 1 and worker.none is None:
            why = "the connection was lost" if worker.met else result.says
            self.notes.add(worker.name, f"{why}. Trying again.")
        self._plan(worker, step)

    def _plan(self, worker: Worker, step: Step) -> None:
        self._due[worker.name] = asyncio.get_running_loop().time() + step.pause
        self._look = self._look or step.look

    async def _again(self) -> None:
        """Reconnect to workers that are due; look up their addresses first if that may help."""
        loop = asyncio.get_running_loop()
        if self._look and self.wanted.refresh and loop.time() > self._looked + LOOK_AGAIN_AFTER:
            try:
                self.fleet = (await asyncio.to_thread(ask_or_say_why)).fleet
            except (click.ClickException, OSError, ValueError) as error:
                click.echo(getattr(error, "message", str(error)), err=True)
            self._looked, self._look = loop.time(), False
        names = [name for name, when in self._due.items() if when <= loop.time()]
        for name in names:
            del self._due[name]
        self._connect(names)


async def _signs_of_life(channel: Channel) -> None:
    """Send keepalives to the worker, whose reader ends without them."""
    with contextlib.suppress(BrokenPipeError):
        while True:
            await asyncio.sleep(SIGN_OF_LIFE)
            await channel.write(b"\n")


def results_of(workers: Sequence[Worker]) -> list[Result]:
    """Return the outcomes of the workers that have the run."""
    return [
        worker.result
        for worker in workers
        if worker.result and (worker.none is None or worker.met)
        if worker.finished or worker.failures >= FRUITLESS
    ]
