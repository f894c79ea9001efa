"""Connections that answer as a test says: the stand-in for the workers of a fan-out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh import fan_out
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target
from hostile import CUT, ENDLESS, SLOW, Said

Answers = Callable[[str], Said]


class _Channel:
    """The channel as fan_out's session and dialogue use it."""

    def __init__(self) -> None:
        self.flows = asyncio.Event()
        self.flows.set()
        self.gone = False

    def write(self, data: bytes) -> None:
        pass

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        self.flows.clear()

    def resume_reading(self) -> None:
        self.flows.set()


class Connection:
    """A connection to one worker, whose command says what `answers` has for it."""

    def __init__(self, target: Target, answers: Answers) -> None:
        self.said = answers(target.name)
        self.task: asyncio.Task[None] | None = None

    async def create_session(self, factory: Callable[[], Any], line: str, encoding: None) -> None:
        session, channel = factory(), _Channel()
        session.connection_made(channel)
        self.task = asyncio.create_task(self._speak(session, channel))

    async def _speak(self, session: Any, channel: _Channel) -> None:
        data = self.said.data
        while True:
            for at in range(0, len(data), 1 << 16):
                await channel.flows.wait()
                session.data_received(data[at : at + (1 << 16)], None)
                await asyncio.sleep(0)
            if self.said.ends != ENDLESS:
                break
            data = data * 2 if len(data) < 1 << 16 else data
            await asyncio.sleep(0.01)
        if self.said.ends == SLOW:
            await asyncio.Event().wait()
        session.eof_received()
        if self.said.ends != CUT:
            session.exit_status_received(0)
        session.connection_lost(ConnectionResetError("cut") if self.said.ends == CUT else None)

    def get_extra_info(self, name: str) -> str:
        return "stand-in"

    def close(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def wait_closed(self) -> None:
        pass

    def abort(self) -> None:
        pass


def install(monkeypatch: Any, answers: Answers) -> None:
    """Let every connection of a fan-out lead to the stand-in."""

    async def connect(self: fan_out._Host, deadline: float | None) -> Connection:
        self.conn = Connection(self.target, answers)
        return self.conn

    monkeypatch.setattr(fan_out._Host, "_connect", connect)
