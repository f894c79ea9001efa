"""The event log: what happened to a run, one JSON object a line, beside its log.

It lies on a disk that may be full. What it does not take goes to memory (`spare`) and follows when
there is room again; an event is dropped, and counted, only when that is full as well.
"""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..act import user_files
from ..act.hand import Hand

_SPARE_BYTES = 256 * 1024


class EventLog:
    """Appends whole lines; never raises."""

    def __init__(
        self,
        path: Path,
        spare: Path,
        limit: int,
        keep: int,
        prepare: Callable[[], None],
        hand: Hand,
    ) -> None:
        self.path = path
        self.spare = spare
        self.limit = limit
        self.keep = keep
        self.error = ""
        self.dropped = 0
        self._prepare = prepare
        self._hand = hand

    def write(self, entry: dict[str, Any]) -> None:
        """Add one event."""
        line = (json.dumps(entry, separators=(",", ":")) + "\n").encode()
        try:
            self._prepare()
            self._empty_the_spare()
            self._hand.append(self.path, line, self.limit, self.keep)
            self.error = ""
        except OSError as error:
            self.error = f"{self.path.name} cannot be written: {error.strerror}"
            self._keep_in_memory(line)

    def catch_up(self) -> None:
        """Bring what memory holds to the disk, if it takes it by now."""
        if self.error:
            with contextlib.suppress(OSError):
                self._empty_the_spare()
                self.error = ""

    def _empty_the_spare(self) -> None:
        held = user_files.read(self.spare, _SPARE_BYTES)
        if held:
            self._hand.append(self.path, held, self.limit, self.keep)
        with contextlib.suppress(FileNotFoundError):
            self.spare.unlink()

    def _keep_in_memory(self, line: bytes) -> None:
        try:
            self.spare.parent.mkdir(parents=True, exist_ok=True)
            size = self.spare.stat().st_size if self.spare.exists() else 0
            if size + len(line) > _SPARE_BYTES:
                raise OSError(errno.ENOSPC, "the memory's part is full")
            # Others pass through this folder, and read in the log's folder no more than here.
            self.spare.touch(mode=0o600)
            user_files.append(self.spare, line, _SPARE_BYTES * 2, 1)
        except OSError:
            self.dropped += 1
