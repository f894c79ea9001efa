"""Which run comes first on the TPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_agent.decide import tickets
from run_agent.decide.tickets import Ticket

MINE = Ticket("b", "bob", number=2)


@pytest.mark.parametrize(
    ("others", "first"),
    [
        ([], None),
        ([(Ticket("a", "alice", 1), 0)], "a"),
        ([(Ticket("a", "alice", 2), 0)], "a"),  # two of one number: by name, everywhere the same
        ([(Ticket("c", "carol", 3), 0)], None),
        ([(Ticket("c", "carol", 3, holds=True), 0)], "c"),
        ([(Ticket("a", "alice", 1, stuck=True), 0)], None),
        ([(Ticket("c", "carol", 3, holds=True, stuck=True), 0)], "c"),
        ([(Ticket("a", "alice", 1), 29)], "a"),  # its agent is starting
        ([(Ticket("a", "alice", 1, holds=True), 31)], None),
        ([(Ticket("a", "alice", 1), 0), (Ticket("c", "carol", 3, holds=True), 0)], "c"),
    ],
)
def test_who_is_first(others: list[tuple[Ticket, float]], first: str | None) -> None:
    found = tickets.ahead(MINE, others, lost=30)
    assert (found.run if found else None) == first
    assert tickets.ahead(replace(MINE, holds=True), others, lost=30) is None
