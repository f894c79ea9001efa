"""What one process of the program notes of itself, from its first moment on."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

# What JAX reads when it is imported.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("NPROC", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")


RUN = os.environ.get("TPU_FLEET_RUN", "reference")
ATTEMPT = int(os.environ.get("TPU_FLEET_ATTEMPT", "1"))
WORKER = int(os.environ.get("TPU_FLEET_WORKER", "0"))
WORKERS = int(os.environ.get("TPU_FLEET_WORKERS", "1"))
SAVED = os.environ["TPU_FLEET_CHECKPOINT_DIR"]
# Where checkpoints are in a bucket, all else is in a folder beside it.
FOLDER = Path(os.environ.get("CHAOS_DIARY") or SAVED)


class Ledger:
    """What this process did, in lines that are only ever added."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"a{ATTEMPT:05d}-w{WORKER}-{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        # The clock of the machine may be set at any time; that of the file's server is everybody's.
        found = [self._asked(path) for _ in range(3)]
        self._ahead, self._error = min(found, key=lambda pair: pair[1])
        self._write({"attempt": ATTEMPT, "worker": WORKER, "error": round(self._error, 3)})
        threading.Thread(target=self._live, daemon=True).start()

    def _asked(self, path: Path) -> tuple[float, float]:
        before = time.monotonic()
        os.utime(path)
        stamp = path.stat().st_mtime
        after = time.monotonic()
        return stamp - (before + after) / 2, (after - before) / 2

    def _write(self, entry: dict[str, Any]) -> None:
        entry["t"] = round(time.monotonic() + self._ahead, 3)
        os.write(self._file, (json.dumps(entry) + "\n").encode())

    def _live(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                self._write({"alive": True})
                os.fsync(self._file)
            time.sleep(1)

    def step(self, step: int) -> None:
        """Note that a step begins; raises OSError on a full disk, as saving does."""
        self._write({"step": step})

    def saved(self, step: int) -> None:
        """Note that a step is whole where it was saved."""
        self._write({"saved": step})


LEDGER = Ledger(FOLDER / "ledger")
