"""What gets the output of workers, as it comes."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    on_terminal,
    unfinished,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils.fan_out import Result


class Terminal:
    """Makes what a worker says fit for a terminal: text, lines and colours, and nothing else."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes, final: bool = False) -> str:
        """Return what of it can be shown now."""
        text = self._rest + self._decoder.decode(data, final)
        kept = 0 if final else unfinished(text)
        self._rest = text[len(text) - kept :]
        return on_terminal(text[: len(text) - kept])


class View:
    """Gets what comes, when it comes. This one shows it unchanged, for one worker.

    On a terminal it leaves out what would steer the terminal.
    """

    def __init__(self) -> None:
        self._filtered: dict[str, Terminal] = {}

    def output(self, host: str, stream: str, data: bytes) -> None:
        """Take what a worker said."""
        target = sys.stdout if stream == "stdout" else sys.stderr
        if target.isatty():
            target.write(self._filtered.setdefault(stream, Terminal()).feed(data))
            target.flush()
        else:
            target.buffer.write(data)
            target.buffer.flush()

    slow = False
    """Whether done takes its time."""

    def done(self, result: Result) -> Result:
        """Take the end of a worker; return what became of it."""
        return result

    def finish(self, results: Sequence[Result]) -> None:
        """Everybody has ended; results are in natural order."""

    def close(self) -> None:
        """Let go of what is held, also when it came to no end."""
