"""One trial of a wandb sweep, as `wandb agent` or offline.py starts it.

    python trial.py --hidden=32 --learning_rate=0.01

It keeps its checkpoints in a folder with the name of its wandb run, and goes on from there when the
same run is started again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "jax"))

import train  # first: it prepares what JAX reads when it is imported
import wandb


class History:
    """What was logged, beside the checkpoints.

    wandb cannot resume a run offline: every attempt writes a run of its own with the same id, and
    the server keeps the one that it gets last. So that one has to tell everything.
    """

    def __init__(self, run: Any, path: Path) -> None:
        self._run, self._path, self._last = run, path, 0
        if run.offline and path.exists():
            # A line that the end of the machine cut short is no line.
            for line in path.read_text().splitlines():
                with contextlib.suppress(ValueError):
                    self._log(*json.loads(line))

    def _log(self, step: int, loss: float) -> None:
        self._run.log({"loss": loss}, step=step)
        self._last = step

    def report(self, step: int, loss: float) -> None:
        """Log a step, unless the attempt before came so far."""
        if step > self._last:
            self._log(step, loss)
            with self._path.open("a") as file:
                file.write(json.dumps([step, loss]) + "\n")


def main(arguments: list[str]) -> int:
    """Train with these parameters."""
    if int(os.environ.get("TPU_FLEET_WORKERS", "1")) > 1:
        raise SystemExit("wandb's agent gives each host another trial: take slices of one host")
    stop = train.Stop()
    run = wandb.init()
    # With a server: who is interrupted comes first in the queue of the sweep again.
    run.mark_preempting()
    folder = Path(os.environ.get("TPU_FLEET_CHECKPOINT_DIR") or "sweep") / run.id
    folder.mkdir(parents=True, exist_ok=True)
    words = [word.replace("_", "-", 1) for word in arguments]
    options = train.parse([*words, f"--checkpoint-dir={folder}"])
    run.config.update(vars(options), allow_val_change=True)
    final = train.train(options, stop, History(run, folder / "history.jsonl").report)
    code = train.STOPPED
    if final is not None:
        run.log({"final_loss": final["loss"]}, step=options.steps)
        code = 0
    run.finish(exit_code=code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
