from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import (
    PermissionDenied,
    Unavailable,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import (
    KEPT_DAYS,
    MOST_SLICES,
    OTHERS,
    Rate,
    Spend,
    SpendBook,
    count,
    counted,
    facts,
    lines_of,
    over,
    unpriced_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.budget import Budget
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import Grant
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.prices import parse_prices
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node

NOON = datetime(2026, 6, 10, 12, tzinfo=timezone.utc)
NOW = NOON.timestamp()
HOUR = 3600.0
ZONE = "us-central2-b"
A, B = f"{ZONE}/a/t", f"{ZONE}/b/t"
ONE = parse_prices(
    [{"generation": "v4", "region": "us-central2", "tier": "on_demand", "usd_per_chip_hour": 1}]
)


def rate(usd: float, hours_ago: float = 100.0) -> Rate:
    return Rate(usd, NOW - hours_ago * HOUR)


def seen(*, hours_ago: float, **rates: float) -> Spend:
    return Spend(
        NOW - hours_ago * HOUR, {}, {f"{ZONE}/{name}/t": usd for name, usd in rates.items()}
    )


def total(spend: Spend) -> float:
    return sum(spend.days.values())


def test_the_time_between_two_looks_counts() -> None:
    after = counted(seen(hours_ago=2, a=3.0), {A: rate(3.0)}, (), NOW)
    assert (after.at, after.rates) == (NOW, {A: 3.0})
    assert after.days == {"2026-06-10": pytest.approx(6.0)}


def test_what_is_gone_counts_until_the_look_that_misses_it() -> None:
    after = counted(seen(hours_ago=2, a=3.0), {}, (), NOW)
    assert total(after) == pytest.approx(6.0)
    assert after.rates == {}


def test_what_is_new_counts_from_its_creation() -> None:
    after = counted(seen(hours_ago=2), {B: rate(3.0, hours_ago=0.5)}, (), NOW)
    assert total(after) == pytest.approx(1.5)
    # Its grant ended meanwhile: then it counts from the last look.
    assert total(counted(seen(hours_ago=2), {B: rate(3.0)}, (), NOW)) == pytest.approx(6.0)


def test_the_higher_of_two_prices_counts() -> None:
    for before, after in ((1.0, 4.0), (4.0, 1.0)):
        found = counted(seen(hours_ago=1, a=before), {A: rate(after)}, (), NOW)
        assert total(found) == pytest.approx(4.0)
        assert found.rates == {A: after}


def test_a_zone_that_does_not_answer_goes_on() -> None:
    after = counted(seen(hours_ago=1, a=3.0), {}, {ZONE}, NOW)
    assert (total(after), after.rates) == (pytest.approx(3.0), {A: 3.0})


def test_what_the_grant_pays_for_costs_nothing_and_an_unknown_price_is_not_guessed() -> None:
    after = counted(seen(hours_ago=1), {A: rate(0.0), B: None}, (), NOW)
    assert (after.days, after.rates) == ({}, {})


def test_a_gap_over_midnight_belongs_to_both_days() -> None:
    after = counted(seen(hours_ago=36, a=1.0), {A: rate(1.0)}, (), NOW)
    assert after.days == {"2026-06-09": pytest.approx(24.0), "2026-06-10": pytest.approx(12.0)}
    assert (after.of_day(NOW), after.of_month(NOW)) == (pytest.approx(12.0), pytest.approx(36.0))


def test_a_look_is_counted_once() -> None:
    once = counted(seen(hours_ago=1, a=3.0), {A: rate(3.0)}, (), NOW)
    assert counted(once, {A: rate(3.0)}, (), NOW) == once
    assert counted(once, {A: rate(3.0)}, (), NOW - 60) == once


def test_what_is_old_or_too_much_is_not_kept() -> None:
    old = Spend(NOW - HOUR, {"2026-01-01": 5.0}, {})
    assert "2026-01-01" not in counted(old, {}, (), NOW).days
    many: dict[str, Rate | None] = {f"z/{n}/t": rate(1.0, 0.5) for n in range(MOST_SLICES + 10)}
    after = counted(seen(hours_ago=1), many, (), NOW)
    assert (len(after.rates), after.rates[OTHERS]) == (MOST_SLICES + 1, 10.0)
    assert total(counted(after, {}, (), NOW + HOUR)) == pytest.approx(1.5 * (MOST_SLICES + 10))


# -- by the nodes ----------------------------------------------------------------------------------


def node(name: str, hours: float, owner: str = "managed", state: str = "READY") -> Node:
    raw: dict[str, Any] = {
        "name": f"projects/p/locations/{ZONE}/nodes/{name}",
        "acceleratorType": "v4-8",
        "state": state,
        "labels": {"tpu-fleet": owner},
        "createTime": f"{NOON - timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}",
    }
    return Node.from_api(raw)


def world(*nodes: Node, at: datetime = NOON) -> World:
    return World(nodes, (), frozenset(), at)


def test_the_first_look_counts_from_the_creation() -> None:
    there = world(node("a", 36), node("theirs", 36, "other"), node("gone", 36, state="PREEMPTED"))
    found = count(Spend(), there, "managed", Grant.read("unrestricted"), ONE)
    # Four chips.
    assert found.days == {"2026-06-09": pytest.approx(96.0), "2026-06-10": pytest.approx(48.0)}
    assert list(found.rates.values()) == [4.0]


def test_while_the_grant_lasted_nothing_was_spent() -> None:
    entry = {"zone": ZONE, "generation": "v4", "tier": "on_demand", "chips": 8}
    granted = Grant.read([entry])
    assert count(Spend(), world(node("a", 36)), "managed", granted, ONE).days == {}
    ended = Grant.read([{**entry, "ends": "2026-06-09"}])
    found = count(Spend(), world(node("a", 36)), "managed", ended, ONE)
    assert found.days == {"2026-06-10": pytest.approx(48.0)}


def test_the_next_look_goes_on() -> None:
    grant, first = Grant.read("unrestricted"), world(node("a", 1))
    before = count(Spend(), first, "managed", grant, ONE)
    later = NOON + timedelta(minutes=30)
    after = count(before, world(node("a", 1), at=later), "managed", grant, ONE)
    assert total(after) == pytest.approx(6.0)


def test_slices_of_unknown_price_are_named_and_those_that_cost_nothing_are_not() -> None:
    there = world(node("a", 1), node("theirs", 1, "other"), node("gone", 1, state="PREEMPTED"))
    elsewhere = parse_prices(None)
    odd = replace(there.nodes[0], zone="us-x9-b")
    unrestricted = Grant.read("unrestricted")
    assert unpriced_of(there, "managed", unrestricted, elsewhere) == {}
    found = unpriced_of(world(odd, *there.nodes[1:]), "managed", unrestricted, elsewhere)
    assert found == {"a": "v4-8, on_demand, us-x9"}
    entry = {"zone": "us-x9-b", "generation": "v4", "tier": "on_demand", "chips": 4}
    assert unpriced_of(world(odd), "managed", Grant.read([entry]), elsewhere) == {}


# -- the budget ------------------------------------------------------------------------------------


def spent(day: float, month: float = 0.0) -> Spend:
    return Spend(NOW, {"2026-06-10": day, "2026-06-01": month, "2026-05-31": 1000.0}, {})


def test_a_limit_is_spent_when_it_is_reached() -> None:
    budget = Budget(per_day=10, per_month=30)
    assert over(budget, spent(9.99), NOW) is None
    found = over(budget, spent(10), NOW)
    assert found is not None
    assert (found.period, found.key) == ("day", "day 2026-06-10")
    assert found.why == "the budget of $10.00 a day is spent ($10.00)"
    found = over(budget, spent(5, 25), NOW)
    assert found is not None
    assert (found.period, found.key) == ("month", "month 2026-06")
    # The next day has a budget of its own; the month has not.
    assert over(Budget(per_day=10), spent(10), NOW + 86400) is None
    assert over(budget, spent(5, 25), NOW + 86400) is not None
    assert over(Budget(), spent(1e9), NOW) is None


def test_for_people() -> None:
    budget = Budget(per_day=10, on_exceed="stop")
    told = facts(budget, spent(2.5), NOW)
    assert lines_of(told) == [
        "$2.50 of $10.00 spent today, $7.50 left (counted until 2026-06-10 12:00 UTC)"
    ]
    missing = {f"s{n}": "v4-8, spot, us-x9" for n in range(8)}
    _spent, line = lines_of(facts(budget, spent(2.5), NOW, missing))
    assert line.startswith("nothing is counted of s0 (v4-8, spot, us-x9), s1 (")
    assert line.endswith("and 2 more, because the price is unknown: give it in fleet_prices")
    assert len(lines_of(facts(budget, Spend(), NOW, missing))) == 2
    assert "no watcher has looked" in lines_of(facts(budget, Spend(), NOW))[0]
    assert lines_of(None) == lines_of(facts(Budget(), spent(1), NOW)) == []


# -- kept ------------------------------------------------------------------------------------------


class Project:
    """The metadata of a project, as several controllers write it."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.fails: Exception | None = None

    def metadata(self) -> dict[str, Any]:
        if self.fails:
            raise self.fails
        return {"items": [{"key": k, "value": v} for k, v in self.values.items()]}

    def change_metadata(self, alter: Any) -> None:
        if self.fails:
            raise self.fails
        wanted = alter(dict(self.values))
        self.values = self.values if wanted is None else wanted


def test_the_watcher_of_another_computer_goes_on_with_the_count() -> None:
    project: Any = Project()
    mine, theirs = (SpendBook(lambda: project, None) for _who in range(2))
    assert mine.read() == Spend()
    first = seen(hours_ago=1, a=3.0)
    assert mine.write(first) == first
    after = counted(theirs.read(), {A: rate(3.0)}, (), NOW)
    assert theirs.write(after) == after
    # Who was late learns of the later count, and does not undo it.
    assert mine.write(first) == after
    assert mine.read() == after
    assert set(project.values) == {"tpu-fleet-spend"}
    SpendBook(lambda: project, "lab").write(first)
    assert set(project.values) == {"tpu-fleet-spend", "tpu-fleet-spend-lab"}


def test_without_metadata_the_own_count_has_to_do_and_a_pause_is_no_zero() -> None:
    project: Any = Project()
    book = SpendBook(lambda: project, None)
    project.fails = PermissionDenied("no")
    assert book.read() == Spend()
    assert book.write(spent(1)) == spent(1)
    project.fails = Unavailable("later")
    with pytest.raises(Unavailable):
        book.read()
    with pytest.raises(Unavailable):
        book.write(spent(1))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at": "x"}', '{"at": 1, "days": 3}'])
def test_what_is_no_count_is_none(text: str) -> None:
    project: Any = Project()
    project.values = {"tpu-fleet-spend": text}
    assert SpendBook(lambda: project, None).read() == Spend()
    assert Spend.from_dict(json.loads(json.dumps(spent(2).to_dict()))) == spent(2)


def test_days_are_bounded() -> None:
    long_ago = Spend(NOW - 400 * 86400, {}, {A: 1.0})
    assert len(counted(long_ago, {A: rate(1.0)}, (), NOW).days) <= KEPT_DAYS + 1
