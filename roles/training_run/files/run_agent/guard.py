"""The program parent's eye on the checkpoint folder: whose it is, and whether it grows."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, Dict, Tuple

from . import fence, processes, store

_ENTRIES = 5000


def newest(folder: Path, limit: int = _ENTRIES) -> Tuple[int, int]:
    """Return the latest time at which something in a folder changed, and how much was looked at.

    The upper levels come first: a new checkpoint shows there, however many files are below.
    """
    latest, seen, todo = 0, 0, [folder]
    while todo and seen < limit:
        deeper = []
        for place in todo:
            with contextlib.suppress(OSError), os.scandir(str(place)) as entries:
                for entry in entries:
                    seen += 1
                    if seen > limit or entry.name.startswith(".tpu-fleet-attempt"):
                        continue
                    with contextlib.suppress(OSError):
                        latest = max(latest, entry.stat(follow_symlinks=False).st_mtime_ns)
                        if entry.is_dir(follow_symlinks=False):
                            deeper.append(Path(entry.path))
        todo = deeper
    return latest, seen


class Guard:
    """Runs beside the program, as its user; the agent never touches a share that may hang."""

    def __init__(self, order: Dict[str, Any]) -> None:
        self.shut_out = ""
        told = order.get("fence") or {}
        self._path = Path(told["path"]) if told else None
        self._mark = fence.Mark.from_json(told.get("mark") or {})
        self._write = bool(told.get("write"))
        self._every = float(order.get("look_every", 5.0))
        self._folder_every = float(order.get("checkpoints_every", 30.0))
        self._folder = Path(order["folder"])
        self._told: Dict[str, Any] = {}

    def claim(self) -> str:
        """Put the attempt's mark on the folder; say by whom it is shut out."""
        if self._path is None or self._mark is None:
            return ""
        out = self._look()
        if not out and self._write:
            with contextlib.suppress(OSError):  # the program tells better what is wrong with it
                fence.write(self._path, self._mark)
        return out

    def _look(self) -> str:
        if self._path is None or self._mark is None:
            return ""
        return fence.shuts_out(fence.read(self._path), self._mark.owner, self._mark.attempt)

    def watch(self, child: int) -> None:
        """Begin to look every few seconds."""
        if self._path is not None:
            threading.Thread(target=self._run, args=(child,), daemon=True).start()

    def _run(self, child: int) -> None:
        begun = processes.start_time(child)
        told = 0.0
        while not self.shut_out:
            time.sleep(self._every)
            self.shut_out = self._look()
            now = time.monotonic()
            if not self.shut_out and now - told >= self._folder_every:
                self._tell()
                told = now
        # No grace: what it would save now is what it must not.
        while begun is not None and processes.start_time(child) == begun:
            processes.send(
                {child, *processes.descendants(os.getpid())}, signal.SIGKILL, os.getuid()
            )
            time.sleep(0.05)

    def _tell(self) -> None:
        if self._path is None:
            return
        told = {"newest": newest(self._path.parent)}
        if told != self._told:
            self._told = told
            with contextlib.suppress(OSError):
                store.write(self._folder / "checkpoints.json", told)
