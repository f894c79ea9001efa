"""Checkpoints that do not care whether the workers share a disk.

Every worker has the whole state, so worker 0 alone saves it, and hands it to the others when they
resume. That costs no safety on a TPU: the workers of a slice are made and lost together.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from gang import Gang

KEPT = 3


class Checkpoints:
    """One worker's view of the checkpoints in a folder."""

    def __init__(self, folder: str, gang: Gang) -> None:
        self._folder = Path(folder).absolute()
        self._steps = self._folder / "steps"
        self._gang = gang
        self._steps.mkdir(parents=True, exist_ok=True)

    def restore_newest(self) -> tuple[int, Any]:
        """Return the newest step and its state, on all workers; 0 and nothing without one."""
        step, state = 0, None
        if self._gang.worker == 0 and self._saved():
            step = self._saved()[-1]
            state = torch.load(self._path(step), weights_only=True)
        found: tuple[int, Any] = self._gang.from_first((step, state))
        return found

    def save(self, step: int, state: Any) -> None:
        """Save a step, unless it was saved before."""
        if self._gang.worker == 0 and step not in self._saved():
            # Under its own name only when it is whole and on the disk.
            new = self._steps / f".{step}.{os.getpid()}"
            with new.open("wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path(step))
            for old in self._saved()[:-KEPT]:
                self._path(old).unlink()
            for left in self._steps.glob(".*"):
                left.unlink()

    def write_final(self, final: dict[str, Any]) -> None:
        """Write the result on every worker; those that share a disk write the same."""
        new = self._folder / f".final.{self._gang.worker}.{os.getpid()}"
        new.write_text(json.dumps(final, indent=2) + "\n")
        new.replace(self._folder / "final.json")

    def _path(self, step: int) -> Path:
        return self._steps / f"{step}.pt"

    def _saved(self) -> list[int]:
        return sorted(int(path.stem) for path in self._steps.glob("[0-9]*.pt"))
