"""The use of chips and its costs, idle chips, and what is left of the grant."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_fleet.history.money import (
    NO_PERSON,
    Use,
    burns_of,
    by_person,
    chips_in,
    chips_of,
    days_of,
    forecast_of,
    granted_in,
    sum_of,
)
from tpu_fleet.history.store import Span

DAY = 20_000 * 86400.0


def node(begun: float, seen: float, **value: Any) -> Span:
    told = {"state": "ready", "chips": 8, "ours": True, "usd": 10.0, "billed": 4.0, **value}
    return Span("node", "pair", told, DAY + begun, DAY + seen)


def run(begun: float, seen: float, user: str, state: str = "running") -> Span:
    return Span("run", f"pair/{user}", {"state": state, "user": user}, DAY + begun, DAY + seen)


def test_chip_hours_and_costs_by_day() -> None:
    nodes = [node(0, 3600), node(90_000, 93_600)]
    runs = [run(0, 1800, "alice"), run(90_000, 93_600, "alice"), run(90_000, 93_600, "bob")]
    first, second = days_of(nodes, runs, DAY, DAY + 93_600)
    # After her run the chips wait for its user.
    assert first.by_user == {"alice": Use(4.0, 4.0, 4.0, 10.0)}
    # Two runs at a time share the chips, and their price.
    assert second.by_user == {"alice": Use(4.0, 0, 2.0, 5.0), "bob": Use(4.0, 0, 2.0, 5.0)}
    people = by_person([first, second])
    assert list(people) == ["alice", "bob"]
    assert people["alice"] == Use(8.0, 4.0, 6.0, 15.0)
    assert sum_of(people.values()) == sum_of([first.whole, second.whole])


def test_chips_that_no_run_has_used_yet_are_idle_for_no_person() -> None:
    (day,) = days_of([node(0, 3600)], [run(1800, 3600, "bob")], DAY, DAY + 3600)
    assert {user: (use.busy, use.idle) for user, use in day.by_user.items()} == {
        NO_PERSON: (0.0, 4.0),
        "bob": (4.0, 0.0),
    }


def test_the_idle_time_after_a_day_is_of_the_person_whose_run_was_last() -> None:
    days = days_of([node(0, 90_000)], [run(0, 3600, "bob", "running")], DAY, DAY + 90_000)
    assert [day.whole.busy for day in days] == [8.0, 0.0]
    assert days[1].by_user["bob"].idle == 8.0


@pytest.mark.parametrize("value", [{"ours": False}, {"state": "preempted"}])
def test_what_is_not_ours_or_not_there_is_not_used(value: dict[str, Any]) -> None:
    assert [d.by_user for d in days_of([node(0, 3600, **value)], [], DAY, DAY + 3600)] == [{}]


def test_idle_chips_have_a_price_and_those_of_others_do_not_count() -> None:
    nodes = [
        {"name": name, "chips": 4, "ours": ours, "usd_per_hour": usd, "usd_per_hour_billed": billed}
        for name, ours, usd, billed in (
            ("pair", True, 8.0, 0.0),
            ("solo", True, 5.0, 2.0),
            ("x", False, 9.0, 9.0),
            ("new", True, None, None),
        )
    ]
    chips = chips_in(nodes, {"pair"})
    assert (chips.all, chips.idle, chips.busy) == (12, 8, 4)
    assert (chips.idle_usd, chips.idle_billed, chips.slices) == (5.0, 2.0, ("solo", "new"))


def test_what_stays_until_the_end_of_the_grant_is_forecast() -> None:
    nodes = [{"name": "pair", "chips": 8, "usd": 10.0, "billed": 4.0}]
    found = forecast_of(nodes, DAY + 7200, DAY)
    assert (found.chip_hours, found.usd, found.list_usd, found.after) == (16.0, 8.0, 20.0, 10.0)
    assert forecast_of(nodes, DAY - 1, DAY).chip_hours == 0
    assert chips_of([], ()).all == 0


def grants() -> list[Span]:
    return [
        Span("grant", "32 v4", {"chips": 32, "used": used}, begun, seen)
        for used, begun, seen in ((8, 0.0, 3600.0), (32, 3600.0, 7200.0))
    ]


def test_the_grant_burns_down() -> None:
    (burn,) = burns_of(grants(), {"32 v4": 36_000.0})
    assert (burn.whole, burn.held(), burn.left(7200.0), burn.wasted(7200.0)) == (320, 40, 256, 24)
    assert burns_of(grants(), {}) == []


def test_what_the_grant_had_is_counted_from_a_time_on() -> None:
    assert (granted_in(grants(), 0.0), granted_in(grants(), 5400.0)) == (64.0, 16.0)
