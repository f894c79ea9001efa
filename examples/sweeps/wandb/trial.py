"""One trial of a wandb sweep, as `wandb agent` or `tpu-fleet submit` starts it.

    python trial.py --hidden=32 --learning_rate=0.01 [--checkpoints=gs://my-bucket/wandb]

A submitted run goes on from its own checkpoints, on any slice. The trials of an agent have a
folder each below --checkpoints, where the agent that gets a trial again finds it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "jax"))

import train  # isort: skip  # first: it prepares what JAX reads when it is imported
import wandb
from etils import epath


class History:
    """What was logged, beside the checkpoints.

    wandb cannot resume a run offline: every attempt writes a run of its own with the same id, and
    the server keeps the one that it gets last. So that one has to tell everything. It is written
    before each checkpoint is: what comes after the last one is trained, and logged, again.
    """

    def __init__(self, run: Any, path: epath.Path, options: argparse.Namespace) -> None:
        self._run, self._path = run, path
        self._saves, self._reports = options.checkpoint_every, options.log_every
        self._logged: list[tuple[int, float]] = []
        if run.offline and path.exists():
            for step, loss in json.loads(path.read_text()):
                self._log(step, loss)

    def _log(self, step: int, loss: float) -> None:
        self._run.log({"loss": loss}, step=step)
        self._logged.append((step, loss))

    def report(self, step: int, loss: float) -> None:
        """Log a step, unless the attempt before came so far."""
        if self._logged and step <= self._logged[-1][0]:
            return
        self._log(step, loss)
        save = -(-step // self._saves) * self._saves
        if save < step + self._reports:
            self.keep()

    def keep(self) -> None:
        """Write what was logged; an object of a bucket appears as a whole."""
        self._path.write_text(json.dumps(self._logged))


def main(arguments: list[str]) -> int:
    """Train with these parameters."""
    if int(os.environ.get("TPU_FLEET_WORKERS", "1")) > 1:
        raise SystemExit("wandb's agent gives each host another trial: take slices of one host")
    stop = train.Stop()
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoints", help="of all trials of an agent")
    own, rest = parser.parse_known_args(arguments)
    # A submitted run keeps its name on another slice. An agent's trial has an id of wandb's.
    name = None if own.checkpoints else os.environ.get("TPU_FLEET_RUN")
    run = wandb.init(id=name)
    # With a server: a trial that is interrupted comes first in the queue of the sweep again.
    run.mark_preempting()
    if own.checkpoints:
        folder = epath.Path(own.checkpoints) / run.id
    else:
        folder = epath.Path(os.environ.get("TPU_FLEET_CHECKPOINT_DIR") or "checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    words = [word.replace("_", "-", 1) for word in rest]
    options = train.parse([*words, f"--checkpoint-dir={folder}"])
    run.config.update(vars(options), allow_val_change=True)
    history = History(run, folder / "history.json", options)

    def report(step: int, loss: float) -> None:
        history.report(step, loss)
        train.tell(step, loss, options.steps)

    final = train.train(options, stop, report)
    history.keep()
    code = train.STOPPED
    if final is not None:
        run.log({"final_loss": final["loss"]}, step=options.steps)
        code = 0
    run.finish(exit_code=code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
