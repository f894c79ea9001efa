"""Which attempt may write in a checkpoint folder."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_agent.decide import fence
from run_agent.decide.fence import ELSEWHERE, GO, TAKE_OVER, Mark

OLD = Mark(7, "old", "digits-1", "vm-a")


@pytest.mark.parametrize(
    ("found", "claimed", "todo"),
    [
        (None, False, GO),
        (None, True, GO),
        (replace(OLD, owner="me"), True, GO),
        (replace(OLD, owner="me", reserved=True), False, GO),
        (OLD, False, TAKE_OVER),  # a slice that is made anew
        (OLD, True, ELSEWHERE),  # one that comes back
    ],
)
def test_whose_the_checkpoint_folder_is(found: Mark | None, claimed: bool, todo: str) -> None:
    assert fence.judge(found, "me", claimed) == todo


@pytest.mark.parametrize(
    ("found", "attempt", "out"),
    [
        (None, 3, False),
        (Mark(3, "me"), 3, False),
        (Mark(2, "other"), 3, False),
        (Mark(4, "other"), 3, True),
        (Mark(4, "me"), 3, True),
        (Mark(3, "other"), 3, True),
    ],
)
def test_who_is_shut_out(found: Mark | None, attempt: int, out: bool) -> None:
    assert bool(fence.shuts_out(found, "me", attempt)) is out
