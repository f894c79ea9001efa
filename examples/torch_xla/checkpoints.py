"""Checkpoints that do not care whether the workers share a disk.

Every worker has the whole state, so worker 0 alone saves it, and hands it to the others when they
resume. That costs no safety on a TPU: the workers of a slice are made and lost together.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fsspec
import torch
from gang import Gang

KEPT = 3


class Checkpoints:
    """One worker's view of the checkpoints in a folder or bucket."""

    def __init__(self, folder: str, gang: Gang) -> None:
        self._in_bucket = "://" in folder
        place = folder if self._in_bucket else str(Path(folder).absolute())
        # A listing that was kept would not show what others wrote meanwhile.
        options = {"use_listings_cache": False} if self._in_bucket else {}
        self._files, self._folder = fsspec.core.url_to_fs(place, **options)
        self._steps = f"{self._folder}/steps"
        self._gang = gang
        if not self._in_bucket:
            self._files.makedirs(self._steps, exist_ok=True)

    def restore_newest(self) -> tuple[int, Any]:
        """Return the newest step and its state, on all workers; 0 and nothing without one."""
        step, state = 0, None
        if self._gang.worker == 0 and self._saved():
            step = self._saved()[-1]
            with self._files.open(self._path(step), "rb") as file:
                state = torch.load(file, weights_only=True)
        found: tuple[int, Any] = self._gang.from_first((step, state))
        return found

    def save(self, step: int, state: Any) -> None:
        """Save a step, unless it was saved before."""
        if self._gang.worker == 0 and step not in self._saved():
            if self._in_bucket:
                self._upload(step, state)
            else:
                self._write(step, state)
            for old in self._saved()[:-KEPT]:
                self._files.rm_file(self._path(old))

    def write_final(self, final: dict[str, Any]) -> None:
        """Write the result: once in a bucket, else on every worker, all of which write the same."""
        text = json.dumps(final, indent=2) + "\n"
        if not self._in_bucket:
            folder = Path(self._folder)
            new = folder / f".final.{self._gang.worker}.{os.getpid()}"
            new.write_text(text)
            new.replace(folder / "final.json")
        elif self._gang.worker == 0:
            self._files.pipe_file(f"{self._folder}/final.json", text.encode())

    def _upload(self, step: int, state: Any) -> None:
        """Write an object, which appears as a whole when the file is closed."""
        with self._files.open(self._path(step), "wb") as file:
            torch.save(state, file)

    def _write(self, step: int, state: Any) -> None:
        """Write a file under its own name only when it is whole and on the disk."""
        steps = Path(self._steps)
        new = steps / f".{step}.{os.getpid()}"
        with new.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path(step))
        for left in steps.glob(".*"):
            left.unlink()

    def _path(self, step: int) -> str:
        return f"{self._steps}/{step}.pt"

    def _saved(self) -> list[int]:
        names = (path.rpartition("/")[2] for path in self._names())
        return sorted(int(name[:-3]) for name in names if name[:-3].isdigit())

    def _names(self) -> list[str]:
        """Return the files of steps; a folder of a bucket is there once it has one."""
        try:
            found: list[str] = self._files.ls(self._steps, detail=False)
        except FileNotFoundError:
            return []
        return [name for name in found if name.endswith(".pt")]
