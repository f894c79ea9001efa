"""The dialogue with all workers: each has the version before any switches to it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.sync_words import sync_word
from ansible_collections.tpu.fleet.plugins.module_utils._sync import waiting
from ansible_collections.tpu.fleet.plugins.module_utils._sync.order import (
    PROTOCOL,
    chosen,
    contents_of,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.bundle import (
    SYNC_PACKAGE,
    sync_program,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh import program as worker_program
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import (
    Channel,
    Result,
    Settings,
    fan_out,
    make_room,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target

BEGIN_SECONDS = 20.0
"""How long a worker keeps what it would remove, until the programs of all have begun."""
SILENCE = 600.0
"""Seconds without a word after which a worker is given up."""
_START = f"""
from {SYNC_PACKAGE}._sync.program import main
code = main(line)
sys.stdout.flush()
if not code:
    from {SYNC_PACKAGE}._sync.waiting import begin
    begin(path)
os._exit(code)
"""


class SyncError(Exception):
    """A worker broke the protocol, or ended without a result."""


def command(become: bool) -> str:
    """Return the command for a worker."""
    return worker_program.command("sync", sync_program(), _START, become, waiting.FOLDER)


@dataclass
class Progress:
    """How far one worker is."""

    ready: bool = False
    same: bool = False
    switched: bool = False
    running: bool = False
    refused: str = ""
    sent: int = 0
    """Bytes of files that were sent, compressed."""
    files: int = 0
    runs: Sequence[Mapping[str, Any]] = ()


@dataclass
class Gate:
    """Opens when all workers are ready, or when one will not be."""

    names: Sequence[str]
    open: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: set[str] = field(default_factory=set)
    shut_by: str = ""

    def ready(self, name: str) -> None:
        """Note that a worker is ready."""
        self.waiting.add(name)
        if len(self.waiting) == len(self.names):
            self.open.set()

    def shut(self, name: str) -> None:
        """Note that a worker will not be ready: no other switches."""
        if not self.open.is_set():
            self.shut_by = name
            self.open.set()


class Sync:
    """One version for all workers of some slices."""

    def __init__(
        self,
        orders: Mapping[str, Mapping[str, Any]],
        packed: Callable[[Sequence[str]], bytes],
        origin: Callable[[], Awaitable[Mapping[str, Any]]],
        heard: Callable[[str, Progress], None],
    ) -> None:
        """`orders` has the request for each worker; `heard` is called whenever one is further."""
        self._orders = orders
        self._packed = packed
        self._origin = origin
        self._heard = heard
        self._sent: dict[tuple[str, ...], bytes] = {}
        self.progress = {name: Progress() for name in orders}

    async def run(
        self, targets: Sequence[Target], settings: Settings, check: bool = False
    ) -> list[Result]:
        """Talk to all workers; return how each connection ended. To check, none switches."""
        make_room(len(targets))
        self._check = check
        names = [target.name for target in targets]
        self._gate, self._begun = Gate(names), Gate(names)
        # Once for all, and while the first connections are made.
        self._about = asyncio.ensure_future(self._origin())
        packing = asyncio.ensure_future(asyncio.to_thread(sync_program))
        results = []

        # The hash of the program is in it, and the same for all workers.
        line = functools.cache(command)

        def line_of(target: Target) -> str:
            return line(target.user != "root")

        stream = fan_out(targets, line_of, talk=self._talk, settings=settings)
        async with aclosing(stream):
            async for result in stream:
                results.append(result)
                if not self.progress[result.name].ready:
                    self._gate.shut(result.name)
                self._begun.ready(result.name)
        await asyncio.gather(self._about, packing, return_exceptions=True)
        return results

    @property
    def refused(self) -> str:
        """Return the worker for which nothing was changed; empty if all switched."""
        return self._gate.shut_by

    async def _talk(self, channel: Channel) -> bool:
        name = channel.target.name
        mine = self.progress[name]
        request = {"protocol": PROTOCOL, **self._orders[name]}
        await channel.write(json.dumps(request).encode() + b"\n")
        told: set[str] = set()
        while True:
            said = await _said(channel)
            what = said["say"]
            # Each word once: otherwise a worker could keep this waiting for ever.
            if what in told:
                raise SyncError(f"{name} said {what} again")
            told.add(what)
            if what == "program":
                await channel.write(worker_program.sent(sync_program()))
            elif what == "need":
                wanted = chosen(said["files"], contents_of(request["entries"]))
                await self._send(channel, mine, wanted)
            elif what == "ready":
                origin = await self._about
                mine.ready, mine.same = True, said["same"]
                self._gate.ready(name)
                await self._gate.open.wait()
                if self._gate.shut_by or self._check:
                    return False
                await channel.write(json.dumps({"go": True, "origin": origin}).encode() + b"\n")
            elif what == "refused":
                mine.refused = said["why"]
                self._gate.shut(name)
                return False
            elif what == "switched":
                mine.switched = True
                self._heard(name, mine)
            elif what == "running":
                self._note_running(name, said["runs"])
                self._begun.ready(name)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._begun.open.wait(), BEGIN_SECONDS)
                await channel.write(b"{}\n")
            else:
                self._note_running(name, said["runs"])
                return True

    def _note_running(self, name: str, runs: Sequence[Mapping[str, Any]]) -> None:
        mine = self.progress[name]
        mine.runs, was_running, mine.running = runs, mine.running, True
        if not was_running:
            self._heard(name, mine)

    async def _send(self, channel: Channel, mine: Progress, wanted: list[str]) -> None:
        key = tuple(wanted)
        # Workers of a slice nearly always lack the same.
        if key not in self._sent:
            self._sent[key] = await asyncio.to_thread(self._packed, wanted)
        data = self._sent[key]
        mine.files, mine.sent = len(wanted), len(data)
        await channel.write(b"data %d\n" % len(data) + data)


async def _said(channel: Channel) -> dict[str, Any]:
    try:
        line = await channel.readline()
    except ValueError:
        raise SyncError("the worker sent a line that is too long") from None
    if not line:
        raise SyncError("the worker ended without a result")
    return sync_word(channel.target.name, line)
