"""Words and numbers of the page."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_fleet.history.store import Event
from tpu_fleet.page.words import said


@pytest.mark.parametrize(
    ("detail", "text"),
    [
        ({"seconds": 900}, "15 min"),
        ({"seconds": 3600.2}, "1 h"),
        ({"seconds": -3600.2}, "-1 h"),
        ({"seconds": 0.4, "step": 7}, "0.4 s, step 7"),
        ({"version": "9d0e7a11" * 8}, "to 9d0e7a11"),
        ({"version": 7}, "to 7"),  # not of an agent's
        ({"peer": 1, "exit_code": 0}, "worker 1, exit code 0"),
    ],
)
def test_details_of_events(detail: dict[str, Any], text: str) -> None:
    assert said(Event(0.0, "pair", "digits", 0, "hang", detail=detail)) == text
