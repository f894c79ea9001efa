"""What one worker does next."""

from __future__ import annotations

import pytest
from queue_agent.decide.member import END, INSTALL, REMOVE, START, WAIT, Here, decide
from queue_agent.decide.messages import HOLD, INSTALLED, NONE, NOTHING, RUN, STARTED, STOP, Order

SHA = "a" * 64
ONE = Order(RUN, "one", SHA, 3)
NOT_THERE, HALF = Here(), Here("one", 3)
WHOLE, ACTIVE = Here("one", 3, True), Here("one", 3, True, True)
BEFORE, OTHER = Here("one", 2, True, True), Here("two", 3, True)


@pytest.mark.parametrize(
    ("order", "here", "todo"),
    [
        (None, ACTIVE, WAIT),
        (Order(HOLD), WHOLE, WAIT),  # after a boot nothing starts before worker 0 knows
        (Order(NONE), NOT_THERE, WAIT),
        (Order(NONE), ACTIVE, REMOVE),
        (ONE, NOT_THERE, INSTALL),
        (ONE, HALF, INSTALL),
        (ONE, WHOLE, START),
        (ONE, ACTIVE, WAIT),
        (ONE, BEFORE, REMOVE),  # each claim is another run
        (ONE, OTHER, REMOVE),
        (Order(STOP, "one", SHA, 3), ACTIVE, END),
        (Order(STOP, "one", SHA, 3), WHOLE, WAIT),
        (Order(STOP, "one", SHA, 3), NOT_THERE, WAIT),
        (Order(STOP, "one", SHA, 3), OTHER, REMOVE),
    ],
)
def test_the_one_thing_to_do(order: Order | None, here: Here, todo: str) -> None:
    assert decide(order, here) == todo


def test_the_state_for_a_report() -> None:
    assert [one.state for one in (NOT_THERE, HALF, WHOLE, ACTIVE)] == [
        NOTHING, NOTHING, INSTALLED, STARTED,
    ]  # fmt: skip
