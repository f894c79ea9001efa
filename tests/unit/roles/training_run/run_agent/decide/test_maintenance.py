"""Notices of maintenance, and when a program is to save."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from run_agent.decide import maintenance
from run_agent.decide.maintenance import Notice

AT_FIVE = Notice("2026-11-22T05:00:00Z", 1795323600.0)


UPCOMING = {"window_start_time": "2026-11-22T05:00:00Z", "maintenance_status": "PENDING"}


@pytest.mark.parametrize(
    ("upcoming", "event", "found"),
    [
        ({}, "NONE", None),
        (None, "", None),
        ({}, "TERMINATE_ON_HOST_MAINTENANCE", Notice(ongoing=True)),
        (UPCOMING, "NONE", AT_FIVE),
        ({**UPCOMING, "maintenance_status": "ONGOING"}, "NONE", replace(AT_FIVE, ongoing=True)),
        ({"windowStartTime": "2026-11-22T05:00:00.5Z"}, "NONE", None),
        ({"window_start_time": "soon"}, "NONE", Notice("soon")),
    ],
)
def test_what_a_notice_says(upcoming: Any, event: str, found: Notice | None) -> None:
    seen = maintenance.notice(upcoming, event)
    if upcoming and "windowStartTime" in upcoming:
        assert seen is not None
        assert seen.begins == AT_FIVE.begins
    else:
        assert seen == found


@pytest.mark.parametrize(
    ("found", "before", "asks"),
    [
        (None, 0, False),
        (AT_FIVE, 300, False),
        (AT_FIVE, 120, True),
        (AT_FIVE, -60, True),
        (replace(AT_FIVE, ongoing=True), 300, True),
        (Notice("soon"), 0, False),
    ],
)
def test_when_to_save(found: Notice | None, before: float, asks: bool) -> None:
    due = maintenance.due(found, 1795323600.0 - before, lead=120)
    assert bool(due) is asks
