"""A run's events in its archive, as a worker that is there would report them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import MANY
from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import EVENTS, Life
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    RunEvent,
    run_event,
)

from ...on_worker.past import events_in
from .declared import Kept

LONGEST = 1 << 20
"""Bytes of a line."""


@dataclass(frozen=True)
class Reported:
    """An event, and the number in the gang of the worker that reported it."""

    worker: int
    event: RunEvent


def events_of(kept: Kept, life: Life) -> Iterator[Reported]:
    """Yield the events of a life; what is none is left out. Raises TpuError."""
    rest = b""
    for frame, new, _lost in kept.archive.frames(life):
        if frame.stream == EVENTS:
            *lines, rest = (rest + new).split(b"\n")
            rest = rest[-LONGEST:]
            for line in lines:
                yield from _reported(line)


def _reported(line: bytes) -> Iterator[Reported]:
    for told in events_in(line):
        event = run_event(told)
        if event is not None:
            yield Reported(_worker(line), event)


def _worker(line: bytes) -> int:
    number = json.loads(line).get("worker")
    good = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < MANY
    return number if good else 0
