"""Ask workers about their runs in parallel, with a program that is sent over the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    ANSWER,
    AnswerError,
    Listing,
    Piece,
    RunStatus,
    listing,
    piece,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils.fan_out import Channel, Result, Settings
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_failures import Kind

from ..on_worker.run_reader import BEGINNING
from .ask import note_names
from .hosts import Known, place_of
from .on_all import Job, on_all
from .view import View
from .worker_program import reader_command

MOST = 1 << 20
"""Maximum bytes of a piece of an answer."""
PREAMBLE = 1000
"""Maximum lines that a login may print before the answer."""
SECONDS = 60.0
"""Default time limit for a worker's answer."""
NOT_BACK = "not back since the reboot"


async def pieces(
    channel: Channel, silence: float | None = None
) -> AsyncIterator[tuple[Piece, bytes]]:
    """Yield the reader's answer piece by piece; an incomplete piece at the end is dropped.

    Raises AnswerError for an invalid piece, TimeoutError after `silence` seconds without one.
    """
    worker = channel.target.name
    for _line in range(PREAMBLE):
        line = await _line_of(channel, silence)
        if line.strip() == BEGINNING.encode():
            break
        if not line:
            return
    else:
        raise AnswerError(worker, "", f"{PREAMBLE} lines", f"begun by {BEGINNING}")
    try:
        while line := await _line_of(channel, silence):
            if not line.endswith(b"\n"):
                return
            one = piece(worker, line, MOST)
            async with asyncio.timeout(silence):
                data = await channel.readexactly(one.bytes) if one.bytes else b""
            yield one, data
    except asyncio.IncompleteReadError:
        return


async def _line_of(channel: Channel, silence: float | None) -> bytes:
    try:
        async with asyncio.timeout(silence):
            return await channel.readline()
    except ValueError:
        raise AnswerError(channel.target.name, "", "a very long line", "a line") from None


@dataclass(frozen=True)
class Run:
    """A run on one worker, as its agent describes it."""

    host: str
    slice: str
    worker: int
    run: str
    user: str = ""
    state: str = ""
    attempt: int = 0
    step: int | None = None
    since: float | None = None
    age: float | None = None
    """Seconds in this state, by the worker's clock."""
    waits_for: str = ""
    reason: str = ""
    problems: tuple[str, ...] = ()
    log: str = ""
    status: RunStatus | None = None
    """Everything that the agent wrote."""


@dataclass
class Answers:
    """The answers of the workers."""

    runs: list[Run] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of all runs."""
        return sorted({run.run for run in self.runs})


def run_of(status: RunStatus, answer: Listing, host: str, place: tuple[str, int]) -> Run:
    """Return the state of a run from its worker's answer."""
    state = status.state
    if state == "running" and status.boot_id != answer.boot_id:
        state = NOT_BACK
    since = status.since or (status.end if state != "running" else status.start)
    user = status.behind_user
    return Run(
        host=host,
        slice=place[0],
        worker=place[1],
        run=status.run,
        user=status.user,
        state=state,
        attempt=status.attempt,
        step=status.step,
        since=since,
        age=None if since is None else max(0.0, answer.now - since),
        waits_for=f"{status.behind} of {user}" if status.behind and user else status.behind,
        reason=status.reason,
        problems=status.problems,
        log=status.log_path,
        status=status,
    )


def understood(known: Known, result: Result) -> tuple[Result, list[Run]]:
    """Parse the runs of an answer; report an invalid one."""
    if not result.ok:
        said = result.stderr.decode("utf-8", "replace").strip().splitlines()
        return (replace(result, says=said[-1]) if said and not result.says else result), []
    try:
        answer = listing(result.name, result.value)
    except AnswerError as error:
        return replace(result, kind=Kind.DONE, says=error.says, remedy=error.remedy), []
    place = place_of(result.name, known.fleet.groups)
    return result, [run_of(one, answer, result.name, place) for one in answer.runs]


class Quiet(View):
    """Shows nothing, because the output is parsed."""

    def output(self, host: str, stream: str, data: bytes) -> None:
        pass


async def _whole_answer(channel: Channel) -> bytes:
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
) -> Answers:
    """Ask these workers for their runs, over one connection each."""
    command = reader_command({"do": "list"}, sudo)
    settings = settings or Settings()
    # A worker that never finishes must not delay the others.
    settings = replace(settings, timeout=settings.timeout or SECONDS)
    job = Job(command, _whole_answer, user, settings)
    answers = Answers()
    for result in on_all(known, names, job, Quiet(), retry):
        result, runs = understood(known, result)
        answers.results.append(result)
        answers.runs += runs
    whole = set(names) >= set(known.fleet.targets) and all(one.ok for one in answers.results)
    note_names(known, answers.names, whole)
    return answers
