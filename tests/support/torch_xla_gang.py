"""The example with torch_xla as processes of this computer, with a folder for each worker."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).resolve().parents[2] / "examples/torch_xla/train.py"
# As it is where the role installs PyTorch alone: for TorchTPU, on machines without chips.
WITHOUT_XLA = (
    "import runpy, sys; sys.modules['torch_xla'] = None; "
    f"sys.path.insert(0, {str(PROGRAM.parent)!r}); "
    f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
)
STEPS, EVERY = 500, 25
FLAGS = f"--steps {STEPS} --checkpoint-every {EVERY}"


class Gang:
    """The programs of all workers, on loopback."""

    def __init__(self, python: str, folder: Path, workers: int, xla: bool = True) -> None:
        self.folders = [folder / f"w{worker}" for worker in range(workers)]
        self.programs: list[subprocess.Popen[bytes]] = []
        self._argv = [python, *([str(PROGRAM)] if xla else ["-c", WITHOUT_XLA]), *FLAGS.split()]
        self._attempt = 0

    def start(self, more: str = "") -> None:
        """Begin an attempt on all workers, as the run agent does."""
        self._attempt += 1
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.programs = []
        for worker, folder in enumerate(self.folders):
            folder.mkdir(parents=True, exist_ok=True)
            told = {
                "TPU_FLEET_ATTEMPT": str(self._attempt),
                "TPU_FLEET_CHECKPOINT_DIR": str(folder),
                "TPU_FLEET_COORDINATOR": f"127.0.0.1:{port}",
                "TPU_FLEET_WORKER": str(worker),
                "TPU_FLEET_WORKERS": str(len(self.folders)),
            }
            with (folder / "log").open("ab") as log:
                self.programs.append(
                    subprocess.Popen(
                        [*self._argv, *more.split()],
                        env={**os.environ, **told},
                        stdout=log,
                        stderr=log,
                    )
                )

    def wait(self, seconds: float = 600) -> list[int]:
        """Wait until all programs have ended; return how."""
        return [program.wait(seconds) for program in self.programs]

    def log(self, worker: int) -> str:
        """Return what a worker's programs have said."""
        return (self.folders[worker] / "log").read_text()

    def finals(self) -> list[dict[str, Any]]:
        """Return what each worker wrote at the end."""
        return [json.loads((folder / "final.json").read_text()) for folder in self.folders]
