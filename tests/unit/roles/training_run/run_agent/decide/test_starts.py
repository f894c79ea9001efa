"""How long a start takes, and when it is late."""

from __future__ import annotations

from typing import Any

import pytest
from run_agent.decide import starts


def attempt(seconds: float | None, start: float = 1000.0) -> dict[str, Any]:
    return {"start": start, "first_step_at": None if seconds is None else start + seconds}


@pytest.mark.parametrize(
    ("history", "usual", "late"),
    [
        ([], None, 180.0),
        ([attempt(None)], None, 180.0),
        ([{}], None, 180.0),
        ([attempt(-5.0)], None, 180.0),  # the clock was set
        ([attempt(100.0)], 100.0, 200.0),
        ([attempt(2.0)], 2.0, 30.0),
        ([attempt(10.0), attempt(None), attempt(400.0), attempt(90.0)], 90.0, 180.0),
        # What was long ago does not count.
        ([attempt(900.0)] * 9 + [attempt(50.0)] * 5, 50.0, 100.0),
    ],
)
def test_the_usual_time_is_that_of_earlier_attempts(
    history: list[dict[str, Any]], usual: float | None, late: float
) -> None:
    assert starts.usual(history) == usual
    assert starts.late_after(history) == late


def test_a_late_start_is_said_where_the_usual_time_is_known() -> None:
    known = [attempt(100.0)]
    assert starts.said(150.0, known) == ""
    text = "no step for 4 min 10 s since the start, which usually takes 1 min 40 s"
    assert starts.said(250.0, known).startswith(text[:14])
    assert "usually takes" in starts.said(250.0, known)
    assert starts.said(10_000.0, []) == ""
