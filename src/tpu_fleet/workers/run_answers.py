"""Ask workers about their runs in parallel, with a program that is sent over the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    ANSWER,
    AnswerError,
    Disk,
    Listing,
    Piece,
    RunStatus,
    listing,
    piece,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils.fan_out import Channel, Result, Settings
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_targets import Target

from ..on_worker.run_reader import BEGINNING
from .ask import note_names
from .hosts import Known, place_of
from .on_all import Job, on_all
from .view import View
from .worker_program import past_commands, reader_command

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
    speed: float | None = None
    """Steps a second, over this attempt."""
    loss: float | str | None = None
    saved_age: float | None = None
    """Seconds since the newest checkpoint was written, by the worker's clock."""
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
    disks: dict[str, Disk] = field(default_factory=dict)
    """The fullest disk of each worker that answered."""

    @property
    def names(self) -> list[str]:
        """The names of all runs."""
        return sorted({run.run for run in self.runs})


def state_of_run(status: RunStatus, boot_id: str) -> str:
    """Return the state of a run on a worker in its present boot."""
    # After a reboot, the file has the old state until the agent is up again.
    return NOT_BACK if status.state == "running" and status.boot_id != boot_id else status.state


def speed_of(status: RunStatus) -> float | None:
    """Return the steps a second since the first step of this attempt."""
    first, begun, step, at = status.first_step, status.first_step_at, status.step, status.step_at
    if first is None or begun is None or step is None or at is None or at <= begun or step <= first:
        return None
    return (step - first) / (at - begun)


def run_of(status: RunStatus, answer: Listing, host: str, place: tuple[str, int]) -> Run:
    """Return the state of a run from its worker's answer."""
    state = state_of_run(status, answer.boot_id)
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
        speed=speed_of(status),
        loss=status.loss,
        saved_age=max(0.0, answer.now - status.saved_at) if status.saved_at else None,
        since=since,
        age=None if since is None else max(0.0, answer.now - since),
        waits_for=f"{status.behind} of {user}" if status.behind and user else status.behind,
        reason=status.reason,
        problems=status.problems,
        log=status.log_path,
        status=status,
    )


def told(known: Known, worker: str, answer: bytes) -> tuple[list[Run], Disk | None]:
    """Parse an answer; raises AnswerError for an invalid one."""
    said = listing(worker, answer)
    place = place_of(worker, known.fleet.groups)
    return [run_of(one, said, worker, place) for one in said.runs], said.disk


def understood(known: Known, result: Result) -> tuple[Result, list[Run], Disk | None]:
    """Parse the runs of an answer; report an invalid one."""
    if not result.ok:
        said = result.stderr.decode("utf-8", "replace").strip().splitlines()
        return (replace(result, says=said[-1]) if said and not result.says else result), [], None
    try:
        return result, *told(known, result.name, result.value)
    except AnswerError as error:
        return replace(result, kind=Kind.DONE, says=error.says, remedy=error.remedy), [], None


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
    places: Mapping[str, Mapping[str, Any]] | None = None,
) -> Answers:
    """Ask these workers for their runs, over one connection each.

    With `places`, how far each worker's past is known, they also tell what their runs have been
    through since.
    """
    command: str | Callable[[Target], str] = reader_command({"do": "list"}, sudo)
    if places is not None:
        command = past_commands(places, sudo)
    settings = settings or Settings()
    # A worker that never finishes must not delay the others.
    settings = replace(settings, timeout=settings.timeout or SECONDS)
    job = Job(command, _whole_answer, user, settings)
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
