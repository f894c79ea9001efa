"""Ask all workers of a run at once for their evidence of it: `tpu-fleet why`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.tpu.fleet.plugins.module_utils._core import answer as read
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import AnswerError, Words
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._evidence import bounds
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import (
    Evidence,
    evidence_of,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result, Settings

from ..inventory.hosts import Known
from .on_all import Job, on_all
from .run_answers import Quiet, last_said, whole_answer

PROGRAM = "/usr/local/bin/tpu-fleet-run"
SECONDS = 20.0
"""The time limit of a worker; nearly always it takes one or two."""
NO_RUN = "it does not have the run"
OLD_AGENT = "its run agent is missing, or of an earlier version"
NOT_NOTED_HERE = "no hang of the run is noted there"
NOT_DECLARED, NOT_NOTED = 3, 4
OLDER = b"invalid choice"
NOT_THERE = 127


@dataclass(frozen=True)
class Shown:
    """What one worker shows, or why it shows nothing."""

    host: str
    evidence: Evidence | None = None
    text: str = ""
    """The same for people, as the worker wrote it: safe to show and to write to a file."""
    absent: str = ""
    """Why there is no evidence, as the end of a sentence about the worker."""
    remedy: str = ""
    refused: bool = False
    """Whether it answered with evidence that is not accepted."""


def command(run: str, noted: bool = False) -> str:
    """Return the command for a worker; `noted` asks for what was noted at the last hang."""
    words = ["sudo", "-n", PROGRAM, "why", run, *(["--hang"] if noted else [])]
    return f"exec {shlex.join(words)}"


def ask_for_evidence(
    known: Known,
    names: Sequence[str],
    run: str,
    user: str | None = None,
    settings: Settings | None = None,
    retry: bool = True,
    noted: bool = False,
) -> list[Shown]:
    """Ask these workers, over one connection each; the answers are in the order of the names.

    With `noted`, for what their agents noted when the run hung last.
    """
    settings = settings or Settings()
    settings = replace(settings, timeout=settings.timeout or SECONDS)
    job = Job(command(run, noted), whole_answer, user, settings)
    return [understood(result) for result in on_all(known, names, job, Quiet(), retry)]


def understood(result: Result) -> Shown:
    """Read the answer of a worker."""
    if not result.ok:
        return _absent(result)
    try:
        return parsed(result.name, result.value)
    except AnswerError as error:
        return Shown(result.name, absent=error.says, remedy=error.remedy, refused=True)


def parsed(worker: str, answer: bytes) -> Shown:
    """Parse what the agent's `why` sends; raise AnswerError."""
    words = Words(worker, read.parsed(worker, answer, bounds.ANSWER))
    text = words.raw("text", "")
    if not isinstance(text, str) or len(text) > bounds.RAW:
        words.refuse("text", text, f"a text of at most {bounds.RAW} characters")
    return Shown(worker, evidence_of(worker, words.raw("evidence")), visible(text))


def _absent(result: Result) -> Shown:
    """Say why a worker shows nothing."""
    if result.exit_status == NOT_DECLARED:
        return Shown(result.name, absent=NO_RUN, remedy="tpu-fleet apply")
    if result.exit_status == NOT_NOTED:
        return Shown(result.name, absent=NOT_NOTED_HERE)
    if result.exit_status == NOT_THERE or OLDER in result.stderr:
        return Shown(result.name, absent=OLD_AGENT, remedy="tpu-fleet apply")
    says = result.says or last_said(result) or "no answer"
    return Shown(result.name, absent=says, remedy=result.remedy)
