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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import processes, store
from .locks import attempt


@dataclass(frozen=True)
class Ticket:
    """One run's place in the queue."""

    run: str
    user: str
    number: int
    holds: bool = False
    stuck: bool = False  # it could not start even if it were its turn
    left: bool = False  # it was stopped; after a reboot its agent takes the ticket up again
    pid: int = 0
    pid_started: Optional[int] = None
    boot_id: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ticket:
        """Read a ticket file; keys of other versions are passed over."""
        names = cls.__dataclass_fields__
        return cls(**{key: value for key, value in data.items() if key in names})


def ahead(mine: Ticket, others: List[Tuple[Ticket, float]], lost: float) -> Optional[Ticket]:
    """Return the run that comes first; the others come with the seconds that their agent is away.

    A run with the TPU keeps it. An agent that is away is waited for as long as a lost worker is.
    """
    here = [ticket for ticket, away in others if away <= lost]
    holding = [ticket for ticket in here if ticket.holds]
    if mine.holds:
        return None
    before = holding or [
        ticket
        for ticket in here
        if not ticket.stuck and (ticket.number, ticket.run) < (mine.number, mine.run)
    ]
    return min(before, key=lambda ticket: (ticket.number, ticket.run)) if before else None


class Turns:
    """One run's part in the queue of this host."""

    def __init__(
        self, folder: Path, run: str, user: str, boot_id: str, lost: float, position: Optional[int]
    ) -> None:
        self.error = ""
        self.holding = False
        self._folder = folder
        self._own = folder / f"{run}.json"
        self._lock = folder / ".lock"
        self._run, self._user, self._boot_id = run, user, boot_id
        self._lost = lost
        self._position = position
        self._away_since: Dict[str, float] = {}
        self._answer: Optional[Dict[str, Any]] = None
        self._since = time.time()

    def ask(
        self, stuck: bool, running: bool = False, keep: bool = True
    ) -> Optional[Dict[str, Any]]:
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

    def _look(self, stuck: bool, running: bool, keep: bool) -> Optional[Dict[str, Any]]:
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

    def _tickets(self) -> Dict[str, Ticket]:
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
