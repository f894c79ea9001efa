"""Follow the runs of all workers: one kept connection each, on which a worker reports changes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import Disk
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind, LocalTrouble
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import (
    Channel,
    Result,
    Settings,
    fan_out,
    make_room,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target

from ..inventory.hosts import Known
from .run_answers import last_said, pieces, told
from .run_view import Run
from .worker_program import reader_command

FAR = 60
"""Seconds between the figures of a worker that is not looked at."""
SIGN = 25.0
"""Seconds between our signs of life, which also say how often a worker sends figures."""
SILENCE = 100.0
"""A worker sends a sign of life every half a minute."""
AT_MOST_EVERY = 1.0
"""A worker that talks without end is read so often."""
PAUSES = (5.0, 10.0, 20.0, 40.0, 80.0, 120.0)
"""Seconds until a lost worker is called again."""
SETTINGS = Settings(keepalive=0, silence=SILENCE, keep=1 << 12)


@dataclass(frozen=True)
class Heard:
    """The last answer of a worker, or why there is none."""

    at: float
    """When it came, by the monotonic clock of this computer."""
    runs: tuple[Run, ...] = ()
    disk: Disk | None = None
    says: str = ""
    """Why it does not answer now; empty if it does."""


class RunFollower:
    """Follows the runs of all workers in a thread of its own; `heard` has what is known."""

    def __init__(self, known: Known, every: int) -> None:
        self.known = known
        self.every = every
        self.heard: dict[str, Heard] = {}
        self.trouble = ""
        """Why no worker can be asked from this computer."""
        self._near: frozenset[str] = frozenset()
        self._channels: dict[str, Channel] = {}
        self._signs: dict[str, tuple[float, int]] = {}
        self._called: set[str] = set()
        self._again: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._writes: set[asyncio.Task[None]] = set()
        self._batches: set[asyncio.Task[None]] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="workers", daemon=True)

    def start(self) -> None:
        """Begin to call the workers."""
        self._thread.start()

    def aim(self, known: Known) -> None:
        """Take the workers and addresses from another look at the fleet."""
        self.known = known

    def look_at(self, names: Collection[str]) -> None:
        """Have these workers send their figures as often as the screen is drawn."""
        self._near = frozenset(names)

    def stop(self) -> None:
        """End all connections."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(3.0)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except LocalTrouble as trouble:
            self.trouble = f"{trouble.says}: {trouble.remedy}"
        except Exception as error:
            self.trouble = f"The workers are not followed any more: {type(error).__name__}: {error}"

    async def _main(self) -> None:
        command = reader_command({"do": "changes"})
        while not self._over.is_set():
            due = self._due(time.monotonic())
            if due:
                make_room(len(self.known.fleet.targets))
                self._called.update(target.name for target in due)
                batch = asyncio.create_task(self._batch(due, command))
                self._batches.add(batch)
                batch.add_done_callback(self._batches.discard)
            self._send_signs(time.monotonic())
            await asyncio.sleep(0.5)
        for batch in self._batches:
            batch.cancel()
        await asyncio.gather(*self._batches, return_exceptions=True)

    def _due(self, now: float) -> list[Target]:
        """Return the workers to call now; forget those that are gone."""
        targets = self.known.fleet.targets
        for name in [name for name in self.heard if name not in targets]:
            del self.heard[name]
        return [
            target
            for name, target in targets.items()
            if name not in self._called and now >= self._again.get(name, 0.0)
        ]

    async def _batch(self, due: Sequence[Target], command: str) -> None:
        """Call workers, and note each one that is lost."""
        stream = fan_out(due, command, talk=self._talk, settings=SETTINGS)
        try:
            async with aclosing(stream):
                async for result in stream:
                    self._lost(result)
        except LocalTrouble as trouble:
            self.trouble = f"{trouble.says}: {trouble.remedy}"

    def _lost(self, result: Result) -> None:
        name = result.name
        self._called.discard(name)
        failures = self._failures.get(name, 0)
        self._failures[name] = failures + 1
        self._again[name] = time.monotonic() + PAUSES[min(failures, len(PAUSES) - 1)]
        what = "" if result.kind is Kind.DONE else f"{result.kind.value.replace('_', ' ')}: "
        says = what + (result.says or last_said(result) or "its answer ended")
        if name in self.known.fleet.targets:
            before = self.heard.get(name, Heard(time.monotonic()))
            self.heard[name] = Heard(before.at, before.runs, before.disk, shown(says))

    async def _talk(self, channel: Channel) -> None:
        name = channel.target.name
        self._channels[name] = channel
        try:
            async for _piece, data in pieces(channel):
                # The machine is at another address by now.
                if self._has_moved(channel.target):
                    return
                if data:
                    runs, disk = told(self.known, name, data)
                    self.heard[name] = Heard(time.monotonic(), tuple(runs), disk)
                    self._failures.pop(name, None)
                    await asyncio.sleep(AT_MOST_EVERY)
        finally:
            self._channels.pop(name, None)
            self._signs.pop(name, None)

    def _has_moved(self, target: Target) -> bool:
        there = self.known.fleet.targets.get(target.name)
        return there is None or (there.address, there.port) != (target.address, target.port)

    def _send_signs(self, now: float) -> None:
        """Send each worker a sign of life, and how often it has to send its figures."""
        near = self._near
        for name, channel in self._channels.items():
            pace = self.every if name in near else FAR
            at, told_pace = self._signs.get(name, (0.0, 0))
            if pace != told_pace or now - at >= SIGN:
                self._signs[name] = (now, pace)
                write = asyncio.create_task(self._write(channel, f"{pace}\n".encode()))
                self._writes.add(write)
                write.add_done_callback(self._writes.discard)

    @staticmethod
    async def _write(channel: Channel, data: bytes) -> None:
        with contextlib.suppress(OSError):
            await channel.write(data)
