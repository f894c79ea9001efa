"""The places of runs in the queue for the TPU, and which of them comes first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .values import fields_of


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
    pid_started: int | None = None
    boot_id: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ticket:
        """Read a ticket file."""
        return cls(**fields_of(cls, data))


def ahead(mine: Ticket, others: list[tuple[Ticket, float]], lost: float) -> Ticket | None:
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
