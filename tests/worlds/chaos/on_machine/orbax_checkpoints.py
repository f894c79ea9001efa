"""Checkpoints by Orbax, in a bucket or a folder: each worker saves its part of the state."""

from __future__ import annotations

from typing import Any

import orbax.checkpoint as ocp

KEPT = 3


class OrbaxCheckpoints:
    """The state is whole when all workers have saved their parts, and one has written a mark."""

    def __init__(self, folder: str) -> None:
        options = ocp.CheckpointManagerOptions(max_to_keep=KEPT)
        self._manager = ocp.CheckpointManager(folder, options=options)

    def newest(self, blank: Any) -> tuple[int, Any]:
        """Return the newest step and its state, spread over the workers as the blank is."""
        step = self._manager.latest_step()
        if step is None:
            return 0, blank
        return step, self._manager.restore(step, args=ocp.args.StandardRestore(blank))

    def save(self, step: int, state: Any) -> None:
        """Save a step; return when it is whole."""
        self._manager.save(step, args=ocp.args.StandardSave(state))
        self._manager.wait_until_finished()
