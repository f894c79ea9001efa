"""The log writer: takes a pane's output from tmux to a file that rotates, and never stops reading.

A writer that died of a full disk would close the pipe and end the log for good, in silence; so
what cannot be written is dropped, counted, and reported through a file in memory.

A log begins with each attempt, and nearly always needs what is imported at the top alone.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO


class LogFile:
    """A file that is put aside when it is full, the oldest of them dropped."""

    def __init__(self, path: str, limit: int, keep: int) -> None:
        self.path = path
        self.limit = limit
        self.keep = keep
        self._stream: BinaryIO | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        """Append; raises OSError when the disk does not take it."""
        while data:
            stream = self._open()
            piece = data[: max(self.limit - self._size, 0)]
            if len(piece) < len(data):
                whole_lines = piece.rfind(b"\n") + 1
                # A line is cut only when it alone is longer than a file.
                piece = piece[:whole_lines] if whole_lines or self._size else piece
            if not piece:
                self._rotate()
                continue
            count = stream.write(piece)
            self._size += count
            data = data[count:]

    def _open(self) -> BinaryIO:
        if self._stream is None:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)  # noqa: PTH103, PTH120
            self._stream = open(self.path, "ab", buffering=0)  # noqa: SIM115
            self._size = self._stream.tell()
        return self._stream

    def _rotate(self) -> None:
        from pathlib import Path

        from . import user_files

        self.close()
        user_files.rotate(Path(self.path), self.keep)
        self._size = 0

    def close(self) -> None:
        """Let go of the file; the next write opens it again."""
        stream, self._stream = self._stream, None
        try:
            if stream is not None:
                stream.close()
        except OSError:
            return


class Health:
    """What was lost, reported through a file that does not lie on the same disk."""

    def __init__(self, path: str, log: str) -> None:
        self.path = path
        self.log = log
        self.dropped = 0
        self.error = ""
        self._written = 0.0
        # Nearly always it is not there, and pathlib takes as long to import as all else of a log.
        if os.path.exists(path):  # noqa: PTH110
            self._go_on()

    def _go_on(self) -> None:
        """Take over what earlier attempts have lost: the first good write ends their error."""
        from pathlib import Path

        from ..decide.values import is_whole
        from . import store

        told = store.read(Path(self.path)) or {}
        count = told.get("dropped_bytes")
        self.dropped = count if is_whole(count) else 0
        self.error = str(told.get("error") or "")

    def lost(self, count: int, error: OSError, now: float) -> None:
        """Count what was dropped."""
        self.dropped += count
        first = not self.error
        self.error = f"{self.log}: {error.strerror}"
        if first or now - self._written > 5:
            self._tell(now)

    def well(self, now: float) -> None:
        """Note that writing works (again)."""
        if self.error:
            self.error = ""
            self._tell(now)

    def _tell(self, now: float) -> None:
        from pathlib import Path

        from . import store

        self._written = now
        try:
            store.write(Path(self.path), {"error": self.error, "dropped_bytes": self.dropped})
        except OSError:
            return


def main(words: list[str]) -> int:
    """Write standard input to a log."""
    given = dict(zip(words[::2], words[1::2], strict=True))
    path = given["--file"]
    target = LogFile(path, int(given["--bytes"]), int(given["--keep"]))
    pump(sys.stdin.fileno(), target, Health(given["--health"], path))
    return 0


def pump(source: int, log: LogFile, health: Health) -> None:
    """Copy until the pane closes."""
    while True:
        data = os.read(source, 65536)
        if not data:
            log.close()
            return
        now = time.monotonic()
        try:
            log.write(data)
        except OSError as error:
            log.close()
            health.lost(len(data), error, now)
        else:
            health.well(now)
