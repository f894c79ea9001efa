"""What the parts of a watcher share: its memory, its clock, its settings, the slices it saw."""

from __future__ import annotations

import threading

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import READY

from . import trouble
from .clock import SteadyClock
from .decide import SliceSeen
from .ground import Ground, Settings
from .memory import Memory, load
from .options import Options

LONGEST = 600.0
"""Longest pause between polls of an API that does not answer, in seconds."""


class State:
    """The state of one watcher. Its parts read it, and each writes what it is about."""

    def __init__(self, ground: Ground, options: Options) -> None:
        self.ground = ground
        self.options = options
        self.memory: Memory = load(ground.memory)
        self.clock = SteadyClock(self.memory.clock)
        if self.clock.other_boot:
            self.memory = self.memory.after_a_boot()
        self.settings: Settings | None = None
        self.seen: list[SliceSeen] = []
        self.stop = threading.Event()
        self.failures = 0
        """Polls that failed in a row."""
        self.next_look = 0.0

    @property
    def ready(self) -> list[str]:
        """The slices whose nodes are ready."""
        return [one.name for one in self.seen if one.phase == READY]

    def together(self) -> dict[str, set[str]]:
        """Return for each slice the others that train with it."""
        return self.settings.together() if self.settings else {}

    def failed(self) -> None:
        """Count a poll that failed, and delay the next one."""
        self.failures += 1
        pause = trouble.pause(self.failures, self.options.interval, LONGEST)
        self.next_look = self.clock.now() + pause
