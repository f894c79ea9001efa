"""Words and numbers of the page."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_fleet.history.store import Event
from tpu_fleet.page.words import many, said


@pytest.mark.parametrize(
    ("detail", "text"),
    [
        ({"seconds": 900}, "15 min"),
        ({"seconds": 3600.2}, "1 h"),
        ({"seconds": -3600.2}, "-1 h"),
        ({"seconds": 0.4, "step": 7}, "0.4 s, step 7"),
        ({"peer": 1, "exit_code": 0}, "worker 1, exit code 0"),
    ],
)
def test_details_of_events(detail: dict[str, Any], text: str) -> None:
    assert said(Event(0.0, "pair", "digits", 0, "hang", detail=detail)) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 steps"), (1, "1 step"), (851, "851 steps"), (1076, "1,076 steps")]
)
def test_one_of_a_thing_is_no_plural(value: int, text: str) -> None:
    assert many(value, "step") == text
