"""Checkpoints that do not care whether the workers share a disk.

Every worker has the whole state, so worker 0 alone saves it, and hands it to the others when they
resume. That costs no safety on a TPU: the workers of a slice are made and lost together.
"""

from __future__ import annotations

import json
import os
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from jax.experimental import multihost_utils


class Checkpoints:
    """One worker's view of the checkpoints in a folder or bucket."""

    def __init__(self, folder: str) -> None:
        self._in_bucket = "://" in folder
        path = epath.Path(folder)
        self._folder = path if self._in_bucket else path.absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._manager: Any = None
        if jax.process_index() == 0:
            self._manager = ocp.CheckpointManager(
                self._folder / "steps",
                options=ocp.CheckpointManagerOptions(
                    max_to_keep=3,
                    # Only this process saves; by default it would wait for all of them.
                    create=False,
                    enable_async_checkpointing=False,
                    multiprocessing_options=ocp.options.MultiprocessingOptions(
                        primary_host=0, active_processes={0}, barrier_sync_key_prefix="worker-0"
                    ),
                ),
            )

    def restore_newest(self, blank: Any) -> tuple[int, Any]:
        """Return the newest step and its state, on all workers; 0 and the blank without one."""
        step, state = 0, blank
        if self._manager is not None and self._manager.latest_step() is not None:
            step = self._manager.latest_step()
            state = self._manager.restore(step, args=ocp.args.StandardRestore(blank))
        if jax.process_count() > 1:
            step, state = multihost_utils.broadcast_one_to_all((np.int32(step), state))
        return int(step), jax.tree.map(np.asarray, state)

    def save(self, step: int, state: Any) -> None:
        """Save a step, unless it was saved before."""
        if self._manager is not None and step not in self._manager.all_steps():
            self._manager.save(step, args=ocp.args.StandardSave(jax.device_get(state)))

    def close(self) -> None:
        """Let go of what a manager holds; a program may train more than once."""
        if self._manager is not None:
            self._manager.close()

    def write_final(self, final: dict[str, Any]) -> None:
        """Write the result: once in a bucket, else on every worker, all of which write the same."""
        text = json.dumps(final, indent=2) + "\n"
        if not self._in_bucket:
            new = self._folder / f".final.{jax.process_index()}.{os.getpid()}"
            new.write_text(text)
            new.replace(self._folder / "final.json")
        elif jax.process_index() == 0:
            # An object appears as a whole.
            (self._folder / "final.json").write_text(text)
