"""The checkpoint folder, as the program's parent sees it where it has no mark to write.

Nearly always the folder has the mark of the same gang, or none. Then the attempt begins, and what
the guard imports, which takes longer than all else of a start, comes when the program runs.
"""

from __future__ import annotations

import _thread
import time

from ..decide.values import is_whole
from . import processes, user_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .guard import Guard


class QuickGuard:
    """Stands in for the guard until that has something to do."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._guard: Guard | None = None

    @property
    def shut_out(self) -> str:
        """Say by whom the attempt is shut out; empty if it is not."""
        return self._guard.shut_out if self._guard else ""

    def claim(self) -> str:
        """Say by whom the attempt is shut out, once the folder was looked at."""
        return "" if self._is_evidently_ours() else self._whole().claim()

    def watch(self, child: int) -> None:
        """Begin to look every few seconds."""
        _thread.start_new_thread(self._run, (child,))

    def _is_evidently_ours(self) -> bool:
        """Return whether the folder has no mark, or that of an earlier attempt of this gang."""
        told = self._order["fence"]
        found, own = user_files.load(told["path"]), told["mark"]
        if found is None:
            return True
        attempt = found.get("attempt")
        is_earlier = is_whole(attempt) and 0 <= attempt < own["attempt"]
        return is_earlier and found.get("owner") == own["owner"]

    def _run(self, child: int) -> None:
        begun = processes.start_time(child)
        # Now, as the program runs: later the files may be those of another version.
        guard = self._whole()
        time.sleep(self._order["look_every"])
        guard.follow(child, begun)

    def _whole(self) -> Guard:
        if self._guard is None:
            from .guard import Guard

            self._guard = Guard(self._order)
        return self._guard
