"""Work at the grid of a wandb sweep without wandb's server: what `wandb agent` does with it.

    python offline.py sweep.yaml --steps=500

Every slice of the run starts this. They share a folder, TPU_FLEET_CHECKPOINT_DIR, with a folder for
each point of the grid: `claim` there is the slice that the point belongs to, `end` the exit code of
its program. A slice that was interrupted first goes on with what it has claimed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ME = os.environ.get("TPU_FLEET_SLICE") or socket.gethostname()
SWEEP = os.environ.get("TPU_FLEET_RUN", "sweep")
STOPPED = 143  # what a shell says of a program that SIGTERM ended


def points(path: Path) -> dict[str, dict[str, Any]]:
    """Return the points of the grid by names that stay when values are added."""
    sweep = yaml.safe_load(path.read_text())
    if sweep["method"] != "grid":
        raise SystemExit(f"{path}: method {sweep['method']} needs wandb's server; grid does not")
    names = sorted(sweep["parameters"])
    values = [sweep["parameters"][name]["values"] for name in names]
    grid = [dict(zip(names, point, strict=True)) for point in itertools.product(*values)]
    return {"-".join(f"{name}-{point[name]}" for name in names): point for point in grid}


def mine(folder: Path) -> bool:
    """Claim a point, unless another slice has; return whether it is this slice's."""
    # On a share, what another slice made just now may be there and not yet be shown.
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True)
    text = folder / f".claim.{ME}"
    text.write_text(ME)
    with contextlib.suppress(FileExistsError):
        # A name for what is whole already: of several at once one succeeds, also on NFS.
        os.link(text, folder / "claim")
    text.unlink()
    return (folder / "claim").read_text() == ME


class Child:
    """The program of a trial. A signal to stop is handed on to it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, number: int, _frame: object) -> None:
        self.stopped = True
        if self.process is not None:
            self.process.send_signal(number)

    def run(self, words: list[str], environment: dict[str, str]) -> int:
        """Run a program to its end, and return its exit code."""
        self.process = subprocess.Popen(words, env={**os.environ, **environment})
        if self.stopped:
            self.process.terminate()
        code = self.process.wait()
        self.process = None
        return code


def main(path: str, *more: str) -> int:
    """Do one point after the other, those first that this slice left unfinished."""
    root = Path(os.environ.get("TPU_FLEET_CHECKPOINT_DIR") or "sweep")
    child = Child()
    grid = points(Path(path))

    def begun(name: str) -> bool:
        claim = root / f"{SWEEP}-{name}" / "claim"
        return claim.exists() and claim.read_text() == ME

    for name in sorted(grid, key=lambda name: not begun(name)):
        run = f"{SWEEP}-{name}"
        folder = root / run
        if (folder / "end").exists() or not mine(folder):
            continue
        print(f"{ME}: {name}", flush=True)
        environment = {
            "WANDB_MODE": "offline",
            "WANDB_RUN_ID": run,
            "WANDB_RUN_GROUP": SWEEP,
            "WANDB_DIR": str(folder),
        }
        words = [f"--{key}={value}" for key, value in grid[name].items()]
        code = child.run([sys.executable, str(HERE / "trial.py"), *words, *more], environment)
        # A stopped program is interrupted, and not ended, whatever came of it: at a shutdown
        # wandb's own process may be gone before the trial is, which makes an error of it.
        if code < 0 or code == STOPPED or (child.stopped and code):
            return STOPPED
        new = folder / ".end"
        new.write_text(f"{code}\n")
        new.replace(folder / "end")
        print(json.dumps({"slice": ME, "point": grid[name], "exit_code": code}), flush=True)
        if child.stopped:
            return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
