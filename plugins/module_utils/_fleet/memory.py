# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remember the outcome of requests for slices: refused, or perhaps still in progress.

Nothing here has to survive, because a restarted controller learns the same from the API.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from .._core.error_table import Reaction
from .._core.errors import (
    Busy,
    RateLimited,
    StockOut,
    TpuError,
    Unavailable,
    from_status,
    row_of,
)
from .._core.wait import Backoff
from .._fleet_file.declared import Fleet
from .._fleet_file.grant import Place
from .._tpu.model import Operation, basename, parse_time
from .plan_terms import Try, World

Key = tuple[str, Place]
# For how long a place that had no capacity comes after the others.
REMEMBERED = timedelta(minutes=10)


class Memory:
    """The requests so far, by slice and place."""

    def __init__(self, fleet: Fleet, again: Backoff, settle: float, stuck: float) -> None:
        self.tries: dict[Key, Try] = {}
        self._fleet = fleet
        self._again = again
        self._settle = timedelta(seconds=settle)
        self._stuck = timedelta(seconds=stuck)

    def asked(self, key: Key, operation: str, now: datetime) -> None:
        """Record that a request may have created something."""
        known = self.tries.get(key, Try())
        self.tries[key] = replace(known, asked_at=now, operation=operation, next_at=None)

    def refused(self, key: Key, error: TpuError, now: datetime) -> None:
        """Record a refusal, and when to ask again, if ever."""
        known, row = self.tries.get(key, Try()), row_of(error)
        attempts = known.attempts + 1
        delay = next(islice(self._again.delays(), attempts - 1, None))
        if isinstance(error, (RateLimited, Unavailable)) and error.retry_after:
            delay = max(delay, error.retry_after)
        self.tries[key] = Try(
            attempts=attempts,
            since=known.since or now,
            short=row.short,
            message=str(error),
            # The same holds for an operation that ended with an error that only a user can correct.
            never=row.reaction in (Reaction.NEVER_HERE, Reaction.STOP),
            stay=isinstance(error, (RateLimited, Busy)),
            next_at=now + timedelta(seconds=delay),
        )

    def taken_back(self, slice_name: str, zone: str) -> None:
        """Record that a requested resource was deleted again and need not be looked for."""
        for key, known in self.tries.items():
            if (key[0], key[1].zone) == (slice_name, zone):
                self.tries[key] = replace(known, asked_at=None, operation="")

    def learn(self, operations: Iterable[Operation], now: datetime) -> None:
        """Take over what an earlier controller asked for: what runs, and what had no capacity.

        What a person has to correct may be corrected by now.
        """
        for operation in operations:
            ended = parse_time(operation.end_time)
            if operation.verb == "create" and operation.error and ended is not None:
                error = from_status(operation.error)
                if isinstance(error, StockOut) and now - ended < REMEMBERED:
                    for key in self._keys_of(operation, sure=True):
                        self.refused(key, error, ended)
                continue
            begun = parse_time(operation.create_time)
            if operation.verb != "create" or begun is None or operation.done:
                continue
            if now - begun > self._stuck:
                continue
            for key in self._keys_of(operation):
                known = self.tries.get(key, Try())
                if known.asked_at is None:
                    self.tries[key] = replace(known, asked_at=begun, operation=operation.name)

    def _keys_of(self, operation: Operation, sure: bool = False) -> list[Key]:
        """Return the slice and places that an operation may be for: its target has no type."""
        zone = operation.target.partition("/locations/")[2].partition("/")[0]
        name = basename(operation.target)
        for want in self._fleet.slices:
            if want.name == name and not (sure and len(want.types) > 1):
                return [(name, place) for place in want.candidates if place.zone == zone][:1]
        return []

    def unseen(self, world: World) -> list[Key]:
        """Return the requests whose resource is not visible; forget those that are settled."""
        open_questions = []
        for key, known in list(self.tries.items()):
            if known.asked_at is None and not known.operation:
                continue
            name, place = key
            if place.zone in world.unreachable:
                continue
            where = (place.api, place.zone, name)
            nodes = [n for n in world.nodes if (n.api, n.zone, n.name) == where]
            queued = [q for q in world.queued if (q.api, q.zone, q.name) == where]
            if any(node.is_ready for node in nodes):
                del self.tries[key]
            elif nodes or queued:
                self.tries[key] = replace(known, asked_at=None)
            else:
                if known.asked_at is None:
                    # It was visible and is gone; its operation may show why.
                    self.tries[key] = replace(known, asked_at=world.now)
                open_questions.append(key)
        return open_questions

    def settle(self, key: Key, operations: Sequence[Operation] | None, now: datetime) -> None:
        """Find out what became of an invisible request; `operations` is None if unavailable."""
        known = self.tries[key]
        operation = self._operation_of(key, known, operations or ())
        asked_at = known.asked_at or now
        if operation is not None and operation.error:
            self.refused(key, from_status(operation.error, key[0]), now)
            return
        if operation is not None:
            known = self.tries[key] = replace(known, operation=operation.name)
        running = operations is None or (operation is not None and not operation.done)
        if now - asked_at >= (self._stuck if running else self._settle):
            # Treat it as failed. If it did succeed, the next request finds the name in use.
            self.tries[key] = replace(known, asked_at=None, operation="")

    def _operation_of(
        self, key: Key, known: Try, operations: Iterable[Operation]
    ) -> Operation | None:
        if known.operation:
            named = basename(known.operation)
            return next((op for op in operations if basename(op.name) == named), None)
        # The answer with the operation's name was lost: take the latest that began since.
        since = (known.asked_at or datetime.min) - timedelta(seconds=5)
        begun = [
            (parse_time(op.create_time), op)
            for op in operations
            if op.verb == "create" and key in self._keys_of(op)
        ]
        ours = [(start, op) for start, op in begun if start is not None and start >= since]
        return max(ours, key=lambda pair: pair[0])[1] if ours else None
