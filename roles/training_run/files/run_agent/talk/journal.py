"""Writes a run's events down, each with its observer and time."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from ..act import terminal
from ..act.hand import Hand
from ..decide import last_error, story
from ..decide.config import Config
from ..decide.run_states import why_of
from ..decide.status import Memory, step_of_attempt
from .events import EventLog

_TAIL_LINES = 20
_TAIL_BYTES = 8192


def last_lines(data: bytes, count: int = _TAIL_LINES) -> list[str]:
    """Return the last lines of a terminal's output as plain text."""
    lines = [line.rstrip()[:500] for line in last_error.plain_lines(data)]
    return [line for line in lines if line][-count:]


class Journal:
    """One worker's event log."""

    def __init__(self, config: Config, boot_id: str, hand: Hand) -> None:
        self._config = config
        self._hand = hand
        self._boot_id = boot_id
        paths = config.paths
        self.log = EventLog(
            paths.events,
            paths.runtime / "events.jsonl",
            config.log_bytes,
            config.log_files,
            self._prepare,
            hand,
        )

    def _prepare(self) -> None:
        with contextlib.suppress(terminal.CannotStart):  # no such user yet: kept in memory
            terminal.prepare_log_folder(self._config)

    def tell(self, memory: Memory, event: str, **details: Any) -> None:
        """Write one event."""
        entry: dict[str, Any] = {
            "at": round(time.time(), 3),
            "worker": self._config.worker,
            "attempt": memory.attempt,
            "run_id": memory.run_id,
            "boot_id": self._boot_id,
            "event": event,
        }
        self.log.write({**entry, **details})

    def tell_all(self, memory: Memory, told: list[story.Event]) -> None:
        """Write several."""
        for event in told:
            self.tell(memory, **event)

    def ended(self, memory: Memory, tail: list[str]) -> None:
        """Record how an attempt ended on this worker; `tail` is what its program wrote last."""
        last = memory.history[-1] if memory.history else {}
        self.tell(
            memory,
            "attempt-ended",
            exit_code=memory.exit_code,
            signal=memory.signal,
            cause=last.get("cause", memory.cause),
            said="" if memory.cause else why_of(tail, memory.signal),
            first_step=memory.first_step,
            step=step_of_attempt(memory),
            inside=memory.inside,
        )
        if memory.fenced:
            self.tell(memory, "fenced", by=memory.fenced)

    def tail(self) -> list[str]:
        """Return the log's last lines."""
        return last_lines(self._hand.tail(self._config.paths.log, _TAIL_BYTES))
