"""Ask workers about their runs, all at once: the program that answers goes over the line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.plugin_utils.fan_out import Channel, Result, Settings

from .exec_command import Job, on_all
from .fleet_hosts import Known, place_of
from .fleet_output import View
from .on_worker.run_reader import BEGINNING
from .worker_program import reader_command

MOST = 1 << 24
"""Bytes that a worker may say at once: it may be in other hands."""
NOT_BACK = "not back since the reboot"


async def pieces(channel: Channel) -> AsyncIterator[tuple[dict[str, Any], bytes]]:
    """Return what the reader sends, piece by piece; half a piece at the end counts for nothing."""
    # A login may print something first.
    while (line := await channel.readline()).strip() != BEGINNING.encode():
        if not line:
            return
    try:
        while line := await channel.readline():
            if not line.endswith(b"\n"):
                return
            piece = json.loads(line)
            count = piece.get("bytes", 0)
            if not 0 <= count <= MOST:
                raise ValueError(f"a piece of {count} bytes")
            yield piece, await channel.readexactly(count) if count else b""
    except asyncio.IncompleteReadError:
        return


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
    """Seconds that it has been so, by the worker's own clock."""
    waits_for: str = ""
    reason: str = ""
    problems: tuple[str, ...] = ()
    log: str = ""


@dataclass
class Answers:
    """What the workers said."""

    runs: list[Run] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of all runs."""
        return sorted({run.run for run in self.runs})


def run_of(status: Mapping[str, Any], answer: Mapping[str, Any], host: str, place: Any) -> Run:
    """Understand a status file; agents of other versions write more or less."""
    state = str(status.get("state", ""))
    if state == "running" and status.get("boot_id") != answer.get("boot_id"):
        state = NOT_BACK
    since = status.get("since") or status.get("end" if state != "running" else "start")
    queue = status.get("queue") or {}
    behind = str(queue.get("behind") or "")
    return Run(
        host=host,
        slice=place[0],
        worker=place[1],
        run=str(status.get("run", "")),
        user=str(status.get("user", "")),
        state=state,
        attempt=int(status.get("attempt") or 0),
        step=status.get("step"),
        since=since,
        age=None if since is None else max(0.0, float(answer["now"]) - float(since)),
        waits_for=f"{behind} of {queue['user']}" if behind and queue.get("user") else behind,
        reason=str(status.get("reason") or ""),
        problems=tuple(map(str, status.get("problems") or ())),
        log=str(status.get("log_path") or ""),
    )


def understood(known: Known, result: Result) -> tuple[Result, list[Run]]:
    """Take the runs out of an answer; what is no answer is said."""
    if not result.ok:
        said = result.stderr.decode("utf-8", "replace").strip().splitlines()
        return (replace(result, says=said[-1]) if said and not result.says else result), []
    try:
        answer = json.loads(result.value)
        place = place_of(result.name, known.fleet.groups)
        return result, [run_of(one, answer, result.name, place) for one in answer["runs"]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        says = f"its answer is not understood: {type(error).__name__}: {error}"
        return replace(result, says=says), []


class Quiet(View):
    """Shows nothing: what is said is for us."""

    def output(self, host: str, stream: str, data: bytes) -> None:
        pass


async def _whole_answer(channel: Channel) -> bytes:
    data = b""
    async for _piece, part in pieces(channel):
        data += part
    return data


def ask_for_runs(
    known: Known,
    names: Sequence[str],
    user: str | None = None,
    sudo: bool = False,
    settings: Settings | None = None,
    retry: bool = True,
) -> Answers:
    """Ask all these workers for their runs, over one connection each."""
    command = reader_command({"do": "list"}, sudo)
    job = Job(command, _whole_answer, user, settings or Settings())
    answers = Answers()
    for result in on_all(known, names, job, Quiet(), retry):
        result, runs = understood(known, result)
        answers.results.append(result)
        answers.runs += runs
    return answers
