"""Dates and numbers of days, as people write them."""

from __future__ import annotations

from datetime import date

import pytest

from tpu_fleet.begin.days import date_of, last_day_of

TODAY = date(2026, 11, 28)


@pytest.mark.parametrize(
    ("said", "day"),
    [
        ("2026-12-31", date(2026, 12, 31)),
        ("2026/12/31", date(2026, 12, 31)),
        ("2026.1.3", date(2026, 1, 3)),
        ("2026年12月31日", date(2026, 12, 31)),
        ("today", TODAY),
        ("Today", TODAY),
        ("28 Nov", TODAY),
        ("28 november", TODAY),
        ("28th Nov.", TODAY),
        ("Nov 28, 2026", TODAY),
        ("28 November 2026", TODAY),
        ("31 Jan", date(2027, 1, 31)),
        ("1 Sept", date(2026, 9, 1)),
        ("29 Feb 2028", date(2028, 2, 29)),
        # Which of the two is the month?
        ("3/4/2027", None),
        ("2026-13-01", None),
        ("31 Feb", None),
        ("Nov", None),
        ("30 days", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_date_in_a_usual_form(said: str, day: date | None) -> None:
    assert date_of(said, TODAY) == day


@pytest.mark.parametrize("said", ["30 days", "30 天", "30天", "30", "for 30 days", "30 Days"])
def test_a_number_of_days_begins_today(said: str) -> None:
    assert last_day_of(said, TODAY) == date(2026, 12, 27)


@pytest.mark.parametrize("said", ["0 days", "30 weeks", "-3", "30 days or so", "2026"])
def test_what_is_no_number_of_days(said: str) -> None:
    assert last_day_of(said, TODAY) is None


def test_a_date_is_a_last_day_too() -> None:
    assert last_day_of("31 Jan", TODAY) == date(2027, 1, 31)
