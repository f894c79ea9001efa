"""Ask workers about their runs in parallel, with a program that is sent over the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import ANSWER, AnswerError
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    Disk,
    Piece,
    listing,
    piece,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import (
    Channel,
    Result,
    Settings,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target

from ...on_worker.run_reader import BEGINNING
from ..inventory.hosts import Known, place_of
from ..inventory.lookup import note_names
from .on_all import Job, on_all
from .run_view import Run, state_of_run
from .view import View
from .worker_program import past_commands, reader_command

MOST = 1 << 20
"""Maximum bytes of a piece of an answer."""
PREAMBLE = 1000
"""Maximum lines that a login may print before the answer."""
SECONDS = 60.0
"""Default time limit for a worker's answer."""


async def pieces(
    channel: Channel, silence: float | None = None
) -> AsyncIterator[tuple[Piece, bytes]]:
    """Yield the reader's answer piece by piece; an incomplete piece at the end is dropped.

    Raises AnswerError for an invalid piece, TimeoutError after `silence` seconds without one.
    """
    if not await begins(channel, silence):
        return
    try:
        while line := await line_of(channel, silence):
            if not line.endswith(b"\n"):
                return
            one = piece(channel.target.name, line, MOST)
            async with asyncio.timeout(silence):
                data = await channel.readexactly(one.bytes) if one.bytes else b""
            yield one, data
    except asyncio.IncompleteReadError:
        return


async def begins(channel: Channel, silence: float | None) -> bool:
    """Pass over what a login prints; return whether the answer begins before the output ends."""
    for _line in range(PREAMBLE):
        line = await line_of(channel, silence)
        if line.strip() == BEGINNING.encode() or not line:
            return bool(line)
    raise AnswerError(channel.target.name, "", f"{PREAMBLE} lines", f"begun by {BEGINNING}")


async def line_of(channel: Channel, silence: float | None) -> bytes:
    """Return the next line of an answer; raises AnswerError for one that is too long."""
    try:
        async with asyncio.timeout(silence):
            return await channel.readline()
    except ValueError:
        raise AnswerError(channel.target.name, "", "a very long line", "a line") from None


@dataclass
class Answers:
    """The answers of the workers."""

    runs: list[Run] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    disks: dict[str, Disk] = field(default_factory=dict)
    """The fullest disk of each worker that answered."""

    @property
    def names(self) -> list[str]:
        """The names of all runs."""
        return sorted({run.run for run in self.runs})


def told(known: Known, worker: str, answer: bytes) -> tuple[list[Run], Disk | None]:
    """Parse an answer; raises AnswerError for an invalid one."""
    said = listing(worker, answer)
    place = place_of(worker, known.fleet.groups)
    runs = [
        Run(worker, *place, state_of_run(one, said.boot_id), one, said.now) for one in said.runs
    ]
    return runs, said.disk


def last_said(result: Result) -> str:
    """Return the last line of the messages that came with a result."""
    lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""


def with_words(result: Result) -> Result:
    """Add what the worker printed to a result that has no reason."""
    is_bare = not (result.ok or result.says)
    return replace(result, says=last_said(result)) if is_bare else result


def understood(known: Known, result: Result) -> tuple[Result, list[Run], Disk | None]:
    """Parse the runs of an answer; report an invalid one."""
    if not result.ok:
        return with_words(result), [], None
    try:
        return result, *told(known, result.name, result.value)
    except AnswerError as error:
        return replace(result, kind=Kind.DONE, says=error.says, remedy=error.remedy), [], None


class Quiet(View):
    """Shows nothing, because the output is parsed."""

    def output(self, host: str, stream: str, data: bytes) -> None:
        pass


async def whole_answer(channel: Channel) -> bytes:
    """Return all pieces of an answer, which may not be larger than ANSWER."""
    data = bytearray()
    async for _piece, part in pieces(channel):
        data += part
        if len(data) > ANSWER:
            wanted = f"at most {ANSWER} bytes"
            raise AnswerError(channel.target.name, "", f"{len(data)} bytes", wanted)
    return bytes(data)


def ask_for_runs(
    known: Known,
    names: Sequence[str],
    user: str | None = None,
    sudo: bool = False,
    settings: Settings | None = None,
    retry: bool = True,
    places: Mapping[str, Mapping[str, Any]] | None = None,
) -> Answers:
    """Ask these workers for their runs, over one connection each.

    With `places`, how far each worker's past is known, they also return what their runs have been
    through since.
    """
    command: str | Callable[[Target], str] = reader_command({"do": "list"}, sudo)
    if places is not None:
        command = past_commands(places, sudo)
    settings = settings or Settings()
    # A worker that never finishes must not delay the others.
    settings = replace(settings, timeout=settings.timeout or SECONDS)
    job = Job(command, whole_answer, user, settings)
    answers = Answers()
    for result in on_all(known, names, job, Quiet(), retry):
        result, runs, disk = understood(known, result)
        answers.results.append(result)
        answers.runs += runs
        if disk is not None:
            answers.disks[result.name] = disk
    whole = set(names) >= set(known.fleet.targets) and all(one.ok for one in answers.results)
    note_names(known, answers.names, whole)
    return answers
