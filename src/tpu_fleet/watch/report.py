"""Report what happens: troubles that begin and end, messages for people, and their delivery."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown_text

from ..notify.message import Message
from ..notify.outbox import Way
from ..notify.send import NotSentError, RefusedError, send, ways_of
from ..show.times import long
from . import tell, trouble
from .note import Notes
from .state import State

LOG = logging.getLogger("tpu-fleet-watch")
PATIENCE = {
    "api": 300.0,
    "away": 900.0,
    # People are not notified; the log and the status show it.
    "lease": math.inf,
    "notify": 300.0,
    "page": 300.0,
    "provision": 600.0,
    # If a person has just logged in, the slice is in use, which is no trouble.
    "rest": 60.0,
    "setup": 300.0,
}
"""Seconds that a trouble lasts before people are notified; others are notified immediately."""


class Report:
    """The reports of one watcher."""

    def __init__(self, state: State, notes: Notes) -> None:
        self._state = state
        self._notes = notes

    def worse(self, key: str, text: str, log: Sequence[str] = ()) -> None:
        """Record a trouble that begins or lasts."""
        state = self._state
        kind = key.partition(":")[0]
        now, text = state.clock.now(), shown_text(text)
        patience = PATIENCE.get(kind, 0.0)
        troubles, said = trouble.worse(state.memory.troubles, key, text, now, patience)
        state.memory = replace(state.memory, troubles=troubles)
        for one in said:
            LOG.warning("%s: %s", one.key, one.text)
            if one.tell:
                self.tell([tell.trouble(one, log, now, state.clock.time_of_day(one.since))])

    def better(self, *keys: str) -> None:
        """Record that something works."""
        state = self._state
        for key in keys:
            troubles, said = trouble.better(state.memory.troubles, key)
            state.memory = replace(state.memory, troubles=troubles)
            for one in said:
                lasted = long(state.clock.now() - one.since)
                LOG.info("%s: over after %s", one.key, lasted)
                if one.tell:
                    begun = state.clock.time_of_day(one.since)
                    self.tell([tell.trouble(one, (), state.clock.now(), begun)])

    def tell(self, messages: Sequence[Message]) -> None:
        """Keep messages for people until they are sent; skip known ones."""
        state = self._state
        fresh = [m for m in messages if not (m.key and state.memory.outbox.knows(m.key))]
        if not fresh:
            return
        for message in fresh:
            LOG.info("%s: %s", message.event, message.title)
        self._notes.told([replace(m, at=state.clock.time_of_day(m.at)) for m in fresh])
        if state.settings is None:
            return  # The receivers are not known yet.
        named = [replace(message, fleet=state.settings.name) for message in fresh]
        outbox = state.memory.outbox.put(named, self._ways(), state.clock.now())
        state.memory = replace(state.memory, outbox=outbox)

    def next_at(self, now: float) -> float | None:
        """Return when the next message is due, if any waits."""
        return self._state.memory.outbox.next_at(self._ways(), now)

    def deliver(self, save: Callable[[], None]) -> None:
        """Send the messages that are due; `save` stores that one was sent."""
        state = self._state
        if state.settings is None:
            return
        for way, entry in ways_of(list(state.settings.notify)):
            now = state.clock.now()
            outbox = state.memory.outbox.settle(way, now)
            message = outbox.due(way, now, state.clock.time_of_day)
            if message is not None:
                try:
                    send(message, entry)
                    outbox = outbox.went(way, now)
                    state.memory = replace(state.memory, outbox=outbox)
                    self.better(f"notify:{way.name}")
                    # Saved immediately: otherwise a killed watcher would send it again.
                    save()
                    continue
                except NotSentError as error:
                    outbox = outbox.failed(way, now, isinstance(error, RefusedError))
                    state.memory = replace(state.memory, outbox=outbox)
                    self.worse(f"notify:{way.name}", str(error))
                    continue
            state.memory = replace(state.memory, outbox=outbox)

    def _ways(self) -> list[Way]:
        settings = self._state.settings
        return [way for way, _entry in ways_of(list(settings.notify))] if settings else []
