"""The checkpoint folder, as the program's parent sees it: its owner, and whether it grows.

Here alone it is decided when the last checkpoint was written; every display has it from the
status. The parent has the rights of the run's user, and only it touches a share that may hang.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from ..decide import fence
from . import fence_file, processes, store

_ENTRIES = 5000
STEPS = 16


class Changes(NamedTuple):
    """What a look at a checkpoint folder found."""

    latest: int = 0
    """When anything changed, in nanoseconds: a sign of life."""
    saved: int = 0
    """When the newest file of a whole checkpoint was written; 0 if there is none."""
    seen: int = 0
    """How much was looked at."""
    steps: tuple[tuple[int, int], ...] = ()
    """The last checkpoints whose names have a step: step and time."""


def changes(folder: Path, limit: int = _ENTRIES) -> Changes:
    """Return when something in a folder changed, and when the newest checkpoint was written.

    The upper levels come first, and of each level the newest folders: a new checkpoint shows there,
    however many files are below. A folder's own time is no checkpoint, as old ones are removed.
    """
    # Not at the top, as no start has to wait for its patterns.
    from ..decide.checkpoints import is_fence, is_finished, step_of

    latest, saved, seen = 0, 0, 0
    steps: dict[int, int] = {}
    todo: list[tuple[int, Path, bool, int | None]] = [(0, folder, True, None)]
    while todo and seen < limit:
        deeper = []
        for _time, place, whole, step in todo:
            with contextlib.suppress(OSError), os.scandir(str(place)) as entries:
                for entry in entries:
                    seen += 1
                    if seen > limit or is_fence(entry.name):
                        continue
                    with contextlib.suppress(OSError):
                        at = entry.stat(follow_symlinks=False).st_mtime_ns
                        latest = max(latest, at)
                        counts = whole and is_finished(entry.name)
                        of_step = step_of(entry.name) if step is None else step
                        if entry.is_dir(follow_symlinks=False):
                            deeper.append((at, Path(entry.path), counts, of_step))
                        elif counts and entry.is_file(follow_symlinks=False):
                            saved = max(saved, at)
                            if of_step is not None:
                                steps[of_step] = max(steps.get(of_step, 0), at)
        todo = sorted(deeper, key=lambda one: -one[0])
    return Changes(latest, saved, seen, tuple(sorted(steps.items())[-STEPS:]))


class Guard:
    """Runs beside the program, as its user; the agent never touches a share that may hang."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.shut_out = ""
        told = order.get("fence") or {}
        self._path = Path(told["path"]) if told else None
        self._mark = fence.Mark.from_json(told.get("mark") or {})
        self._write = bool(told.get("write"))
        self._every = float(order.get("look_every", 5.0))
        self._folder_every = float(order.get("checkpoints_every", 30.0))
        self._folder = Path(order["folder"])
        self._told: dict[str, Any] = {}

    def claim(self) -> str:
        """Put the attempt's mark on the folder; say by whom it is shut out."""
        if self._path is None or self._mark is None:
            return ""
        out = self._look()
        if not out and self._write:
            with contextlib.suppress(OSError):  # the program's own error is better
                fence_file.write(self._path, self._mark)
        return out

    def _look(self) -> str:
        if self._path is None or self._mark is None:
            return ""
        return fence.shuts_out(fence_file.read(self._path), self._mark.owner, self._mark.attempt)

    def watch(self, child: int) -> None:
        """Begin to look every few seconds."""
        if self._path is not None:
            threading.Thread(target=self._run, args=(child,), daemon=True).start()

    def _run(self, child: int) -> None:
        begun = processes.start_time(child)
        time.sleep(self._every)
        self.follow(child, begun)

    def follow(self, child: int, begun: int | None) -> None:
        """Look every few seconds, first at once, and end the program when it is shut out.

        `begun` is the clock tick at which it began.
        """
        told = 0.0
        while True:
            self.shut_out = self._look()
            if self.shut_out:
                break
            now = time.monotonic()
            if now - told >= self._folder_every:
                self._tell()
                told = now
            time.sleep(self._every)
        # No grace: what it would save now is what it must not.
        while begun is not None and processes.start_time(child) == begun:
            processes.send(
                {child, *processes.descendants(os.getpid())}, signal.SIGKILL, os.getuid()
            )
            time.sleep(0.05)

    def _tell(self) -> None:
        if self._path is None:
            return
        found = changes(self._path.parent)
        told = {
            "newest": [found.latest, found.seen],
            "saved": found.saved,
            "steps": list(map(list, found.steps)),
        }
        if told != self._told:
            self._told = told
            with contextlib.suppress(OSError):
                store.write(self._folder / "checkpoints.json", told)
