"""Views, which receive the output of workers as it arrives."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import (
    on_terminal,
    unfinished,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result


class Terminal:
    """Filters a worker's output for a terminal: text, lines and colours only."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes, final: bool = False) -> str:
        """Return the part that can be shown now."""
        text = self._rest + self._decoder.decode(data, final)
        kept = 0 if final else unfinished(text)
        self._rest = text[len(text) - kept :]
        return on_terminal(text[: len(text) - kept])


class View:
    """Receives output as it arrives. This one shows it unchanged, for one worker.

    On a terminal it removes control characters.
    """

    def __init__(self) -> None:
        self._filtered: dict[str, Terminal] = {}

    def output(self, host: str, stream: str, data: bytes) -> None:
        """Receive output of a worker."""
        target = sys.stdout if stream == "stdout" else sys.stderr
        if target.isatty():
            target.write(self._filtered.setdefault(stream, Terminal()).feed(data))
            target.flush()
        else:
            target.buffer.write(data)
            target.buffer.flush()

    slow = False
    """Whether done may take long."""

    def done(self, result: Result) -> Result:
        """Receive the end of a worker; return its outcome."""
        return result

    def finish(self, results: Sequence[Result]) -> None:
        """All workers have ended; results are in natural order."""

    def close(self) -> None:
        """Release resources, also after an interruption."""
