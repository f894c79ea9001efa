"""The checkpoints in a folder of a worker: listed, and cleaned up, by a program that is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core import checkpoints
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import (
    AnswerError,
    Words,
    parsed,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.checkpoints import Checkpoint, Thing
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Settings

from ..inventory.hosts import Known
from .on_all import Job, on_all
from .run_answers import SECONDS, Quiet, last_said, whole_answer
from .worker_program import folder_command

MOST = 20_000
"""Files of an answer."""


@dataclass(frozen=True)
class FolderContents:
    """What a folder holds, as its worker says."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    is_cut: bool = False
    problem: str = ""

    @property
    def leftovers(self) -> list[Checkpoint]:
        """Unfinished checkpoints that a later one replaces; none if not everything was seen."""
        return [] if self.is_cut else checkpoints.leftovers(self.checkpoints)


def ask_for_folder(
    known: Known, worker: str, user: str, folder: str, delete: Mapping[str, float] | None = None
) -> FolderContents:
    """Return what a folder of a worker holds, after some unfinished checkpoints are deleted."""
    command = folder_command({"folder": folder, "delete": dict(delete or {})}, user)
    job = Job(command, whole_answer, settings=Settings(timeout=SECONDS))
    (result,) = on_all(known, [worker], job, Quiet(), retry=False)
    if not result.ok:
        says = result.says or last_said(result) or "no answer"
        return FolderContents(problem=shown(f"{worker}: {says}"))
    return contents_of(worker, result.value)


def contents_of(worker: str, answer: bytes) -> FolderContents:
    """Read an answer, of which nothing is trusted."""
    try:
        words = Words(worker, parsed(worker, answer))
        found, problems = words.items("files", MOST, needed=True), words.texts("problems")
        is_cut = words.flag("more")
    except AnswerError as error:
        return FolderContents(problem=error.says)
    things = [thing for one in found if (thing := _thing(one)) is not None]
    judged = checkpoints.judged(checkpoints.units_of(things), renames=True)
    return FolderContents(judged, is_cut, "; ".join(problems))


def _thing(one: Any) -> Thing | None:
    if not isinstance(one, list) or len(one) != 3:
        return None
    name, size, at = one
    rest = checkpoints.name_below(name, "")
    if rest is None or isinstance(size, bool) or isinstance(at, bool):
        return None
    if not isinstance(size, int) or not isinstance(at, (int, float)):
        return None
    return Thing(rest, size, float(at)) if 0 <= size < 1 << 50 and 0 <= at < 1e11 else None
