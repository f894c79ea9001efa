"""The dialogue with all workers of a run: who is ready, when all begin, and the profiles."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import Words, parsed
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Channel

from ..ask.run_answers import begins, line_of

MOST_BYTES = 1 << 29
"""Bytes of the profiles of a worker: XProf itself takes no file of 2 GiB."""
MOST_PIECE = 1 << 20
MOST_LINE = 1 << 16
MOST_PID = 1 << 22
MOST_ITERATORS = 100
MOST_PROCESSES = 64
PATIENCE = 15.0
"""Seconds that a worker which is ready waits for the others."""
LEAD = 2.0
"""Seconds from the agreement to the moment: each worker must know it before."""
SILENCE = 60.0
"""Seconds without a word after which a worker is given up."""
_VERSION = re.compile(r"[a-z_]{1,20} [A-Za-z0-9.+_?-]{1,60}")


@dataclass(frozen=True)
class Profile:
    """What a process of a worker has recorded."""

    worker: str
    pid: int
    path: Path
    bytes: int
    framework: str = ""
    """Name and version."""
    late: float | None = None
    """Seconds from the agreed moment to its begin."""
    seconds: float | None = None
    first_step: int | None = None
    """The steps that the program had written down at begin and end; None if it writes none."""
    last_step: int | None = None
    iterators: tuple[str, ...] = ()
    """Generator functions that ran, as the profile names them."""


@dataclass(frozen=True)
class Answer:
    """What a worker has sent."""

    profiles: tuple[Profile, ...] = ()
    missing: tuple[str, ...] = ()
    """Why processes have none, or the whole worker."""


@dataclass
class Moment:
    """The time from which on all record. The clocks of the workers need not agree."""

    workers: int
    lead: float = LEAD
    patience: float = PATIENCE
    at: float = 0.0
    """By the clock of this computer; 0 until it is agreed."""
    _ready: int = 0
    _agreed: asyncio.Event = field(default_factory=asyncio.Event)

    async def by_clock_of(self, now: float) -> float:
        """Wait until all are ready; return the moment by the clock of one on which it is `now`."""
        ahead = now - time.time()
        self._ready += 1
        self._look()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.patience):
                await self._agreed.wait()
        self._agree()
        return self.at + ahead

    def without_one(self) -> None:
        """Wait for a worker less, which has nothing to record."""
        self.workers -= 1
        self._look()

    def _look(self) -> None:
        if 0 < self._ready >= self.workers:
            self._agree()

    def _agree(self) -> None:
        self.at = self.at or time.time() + self.lead
        self._agreed.set()


@dataclass
class Bringer:
    """Talks with each worker, and writes what it sends to a folder."""

    moment: Moment
    folder: Path

    async def talk(self, channel: Channel) -> Answer:
        """Record and bring; raises AnswerError for what no worker sends, OSError for this disk."""
        return await _Dialogue(self, channel).held()


class _Dialogue:
    """The dialogue with one worker."""

    def __init__(self, bringer: Bringer, channel: Channel) -> None:
        self._bringer = bringer
        self._channel = channel
        self._worker = channel.target.name
        self._begin = 0.0
        self._profiles: list[Profile] = []
        self._missing: list[str] = []

    async def held(self) -> Answer:
        """Hold it; return what came of it."""
        await begins(self._channel, SILENCE)
        first = await self._words()
        if "ready" in first.value:
            await self._agree(first)
        else:
            self._bringer.moment.without_one()
            self._missing.append(first.text("refused", "it has no profile and does not say why"))
        while "end" not in (words := await self._words()).value:
            await self._take(words)
        return Answer(tuple(self._profiles), tuple(self._missing))

    async def _agree(self, words: Words) -> None:
        words.objects("ready", MOST_PROCESSES)
        self._begin = await self._bringer.moment.by_clock_of(words.real("now"))
        await self._channel.write(f"{self._begin:.3f}\n".encode())

    async def _take(self, words: Words) -> None:
        if "refused" in words.value:
            self._missing.append(words.text("refused"))
            return
        pid = words.number("pid", 1, MOST_PID)
        if "says" in words.value:
            self._missing.append(f"process {pid}: {words.text('says')}")
            return
        name = f"{self._worker}-{pid}" if self._profiles else self._worker
        path = self._bringer.folder / f"{name}.xplane.pb"
        size = words.number("size", 1, MOST_BYTES - sum(one.bytes for one in self._profiles))
        await self._write(path, size)
        self._profiles.append(self._profile(words, pid, path, size))

    async def _write(self, path: Path, size: int) -> None:
        """Take in so many bytes, which come in pieces."""
        with path.open("xb") as stream:
            while size:
                piece = await self._words()
                count = piece.number("bytes", 1, min(MOST_PIECE, size))
                async with asyncio.timeout(SILENCE):
                    stream.write(await self._channel.readexactly(count))
                size -= count

    def _profile(self, words: Words, pid: int, path: Path, size: int) -> Profile:
        begun, ended = words.real("begun", None), words.real("ended", None)
        return Profile(
            self._worker,
            pid,
            path,
            size,
            words.word("framework", _VERSION, ""),
            None if begun is None else begun - self._begin,
            None if begun is None or ended is None else ended - begun,
            words.number("first_step", default=None),
            words.number("last_step", default=None),
            words.texts("iterators", MOST_ITERATORS),
        )

    async def _words(self) -> Words:
        """Return the next piece that is more than a sign of life."""
        while True:
            words = Words(self._worker, parsed(self._worker, await self._line(), MOST_LINE))
            if words.value:
                return words

    async def _line(self) -> bytes:
        line = await line_of(self._channel, SILENCE)
        if not line.endswith(b"\n"):
            raise ConnectionResetError("it ended before its answer was whole")
        return line
