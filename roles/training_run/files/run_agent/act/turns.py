"""The order of runs on the TPU: the runs of a slice that need it go one after the other.

Worker 0 decides for its slice. The agents of all runs on it draw tickets in one folder under one
lock, so there is one order and no two can wait for each other. A run keeps its turn over crashes
and reboots until it has ended or is stopped. Runs over several slices (multislice) have a place in
the queue of each of them; their order is that of the fleet file, which is the same everywhere, and
as long as one of their slices is taken they keep none of the others.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..decide.tickets import Ticket, ahead
from . import processes, store
from .locks import attempt


class Turns:
    """One run's part in the queue of this host."""

    def __init__(
        self, folder: Path, run: str, user: str, boot_id: str, lost: float, position: int | None
    ) -> None:
        self.error = ""
        self.holding = False
        self._folder = folder
        self._own = folder / f"{run}.json"
        self._lock = folder / ".lock"
        self._run, self._user, self._boot_id = run, user, boot_id
        self._lost = lost
        self._position = position
        self._away_since: dict[str, float] = {}
        self._answer: dict[str, Any] | None = None
        self._since = time.time()

    def ask(self, stuck: bool, running: bool = False, keep: bool = True) -> dict[str, Any] | None:
        """Return behind which run this one waits; None when no run is before it.

        A run that could start then has its turn (`holding`), and keeps it if it is to.
        """
        try:
            with attempt(self._lock) as free:
                # A process holds it only for a moment; the next look is soon.
                if free:
                    self._answer = self._look(stuck, running, keep)
            self.error = ""
        except OSError as error:
            self.error = f"the queue for the TPU: {error.strerror}"
        return self._answer

    def leave(self, for_good: bool) -> None:
        """Give the turn, or the place in the queue, up: for good, or until the next boot."""
        self._answer, self.holding = None, False
        if not self._own.exists():
            return
        with contextlib.suppress(OSError):
            known = self._tickets().get(self._run)
            if known is not None and not for_good:
                store.write(self._own, asdict(replace(known, left=True)))
            elif known is not None:
                self._own.unlink()

    def _look(self, stuck: bool, running: bool, keep: bool) -> dict[str, Any] | None:
        tickets = self._tickets()
        known = tickets.pop(self._run, None)
        if known is not None and known.left and known.boot_id == self._boot_id:
            known = None
        pid = os.getpid()
        mine = Ticket(
            run=self._run,
            user=self._user,
            number=known.number if known else self._draw(tickets),
            holds=running or (keep and known is not None and known.holds),
            stuck=stuck,
            pid=pid,
            pid_started=processes.start_time(pid),
            boot_id=self._boot_id,
        )
        first = ahead(mine, [(t, self._away(t)) for t in tickets.values()], self._lost)
        if first is None and keep and not stuck:
            mine = replace(mine, holds=True)
        if mine != known:
            try:
                store.write(self._own, asdict(mine))
            except OSError:
                if known is None or not known.holds:  # it has its turn, also on a full disk
                    raise
        self.holding = mine.holds
        if first is None:
            return None
        if self._answer is None:
            self._since = time.time()
        return {"behind": first.run, "user": first.user, "since": self._since}

    def _draw(self, tickets: Mapping[str, Ticket]) -> int:
        if self._position is not None:
            return self._position
        return max([ticket.number for ticket in tickets.values()], default=0) + 1

    def _tickets(self) -> dict[str, Ticket]:
        found = {}
        for path in self._folder.glob("*.json"):
            data = store.read(path)
            if data is not None:
                with contextlib.suppress(TypeError):
                    ticket = Ticket.from_json(data)
                    found[ticket.run] = ticket
        return found

    def _away(self, ticket: Ticket) -> float:
        now = time.monotonic()
        if ticket.left and ticket.boot_id == self._boot_id:
            return float("inf")
        there = (
            ticket.boot_id == self._boot_id
            and ticket.pid_started is not None
            and processes.start_time(ticket.pid) == ticket.pid_started
        )
        if there:
            self._away_since.pop(ticket.run, None)
            return 0.0
        return now - self._away_since.setdefault(ticket.run, now)
