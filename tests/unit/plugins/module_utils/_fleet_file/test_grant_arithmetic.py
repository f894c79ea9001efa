"""The arithmetic of the grant against a second, slower account of it."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import (
    Holding,
    Place,
    chips_of,
    generation_of,
    parse_allocations,
)
from hypothesis import given
from hypothesis import strategies as st

NOW = dt.datetime(2026, 6, 1, 12, tzinfo=dt.timezone.utc)
ZONES = ("us-central2-b", "europe-west4-a")
TYPES = ("v4-8", "v4-16", "v4-32", "v5litepod-4")
ENDS = (None, "2026-05-31", "2026-06-01", "2026-06-02", "2026-06-20")

# Few different ones, or they would seldom meet.
zones = st.sampled_from((ZONES[0],) * 5 + ZONES[1:])
tiers = st.sampled_from(("spot", "spot", "spot", "best_effort", "on_demand"))
nodes = st.tuples(zones, st.sampled_from(TYPES), tiers)
places = {"zone": zones, "tier": tiers, "ends": st.sampled_from(ENDS)}
entries = st.one_of(
    st.fixed_dictionaries(
        {**places, "generation": st.sampled_from(("v4", "v5e")), "chips": st.integers(1, 32)}
    ),
    st.fixed_dictionaries(
        {**places, "accelerator_type": st.sampled_from(TYPES), "count": st.integers(1, 4)}
    ),
)
files = st.lists(entries, max_size=5)


def hold(node: tuple[str, str, str]) -> Holding:
    return Holding.at(*asked_of(node), "node")


def asked_of(node: tuple[str, str, str]) -> tuple[Place, str]:
    zone, kind, tier = node
    return Place(zone, kind, "tpu"), tier


def granted_as(tier: str) -> str:
    return "spot" if tier == "best_effort" else tier


def within(raw: list[dict[str, Any]], held: list[tuple[str, str, str]], day: dt.date) -> int:
    """Count the chips that the grant holds: by type first, the overflow by generation."""
    live = [entry for entry in raw if not entry["ends"] or str(day) <= entry["ends"]]
    use: Counter[tuple[str, str, str]] = Counter()
    for zone, kind, tier in held:
        use[zone, granted_as(tier), kind] += chips_of(kind) or 0
    total = 0
    overflow: Counter[tuple[str, str, str]] = Counter()
    for (zone, tier, kind), chips in use.items():
        own = sum(
            entry["count"] * (chips_of(kind) or 0)
            for entry in live
            if entry.get("accelerator_type") == kind
            and (entry["zone"], granted_as(entry["tier"])) == (zone, tier)
        )
        total += min(own, chips)
        overflow[zone, tier, str(generation_of(kind))] += chips - min(own, chips)
    for (zone, tier, generation), chips in overflow.items():
        shared = sum(
            entry["chips"]
            for entry in live
            if entry.get("generation") == generation
            and (entry["zone"], granted_as(entry["tier"])) == (zone, tier)
        )
        total += min(shared, chips)
    return total


@given(files, st.lists(nodes, max_size=8))
def test_all_chips_are_either_in_the_grant_or_outside(
    raw: list[dict[str, Any]], held: list[tuple[str, str, str]]
) -> None:
    grant = parse_allocations(raw)
    holdings = [hold(node) for node in held]
    inside = within(raw, held, NOW.date())
    assert sum(grant.used(holdings, NOW).values()) == inside
    assert sum(grant.outside(holdings, NOW)) == sum(h.chips for h in holdings) - inside


@given(files, st.lists(nodes, max_size=12))
def test_what_was_not_refused_never_leaves_the_grant(
    raw: list[dict[str, Any]], asked: list[tuple[str, str, str]]
) -> None:
    grant = parse_allocations(raw)
    held: list[tuple[str, str, str]] = []
    for node in asked:
        fits = within(raw, [*held, node], NOW.date()) == sum(
            hold(each).chips for each in [*held, node]
        )
        refusal = grant.refusal(*asked_of(node), [hold(each) for each in held], NOW)
        assert (refusal is None) is fits, refusal
        if fits:
            held.append(node)


@given(files, nodes, st.lists(nodes, max_size=6), st.lists(nodes, max_size=3))
def test_more_in_use_never_makes_room(
    raw: list[dict[str, Any]],
    node: tuple[str, str, str],
    held: list[tuple[str, str, str]],
    more: list[tuple[str, str, str]],
) -> None:
    grant = parse_allocations(raw)
    if grant.refusal(*asked_of(node), [hold(each) for each in held], NOW):
        assert grant.refusal(*asked_of(node), [hold(each) for each in [*held, *more]], NOW)


@given(st.dates(dt.date(2000, 1, 1), dt.date(2099, 12, 30)), st.timedeltas(dt.timedelta(0)))
def test_a_day_belongs_to_the_grant_until_midnight_in_utc(
    day: dt.date, later: dt.timedelta
) -> None:
    entry = {"zone": ZONES[0], "generation": "v4", "tier": "spot", "chips": 4, "ends": str(day)}
    grant = parse_allocations([entry])
    start = dt.datetime.combine(day, dt.time(), dt.timezone.utc)
    within_day = later % dt.timedelta(days=1)
    place = Place(ZONES[0], "v4-8", "tpu")
    assert grant.refusal(place, "spot", [], start + within_day) is None
    after = start + dt.timedelta(days=1) + within_day
    assert "is over" in (grant.refusal(place, "spot", [], after) or "")
    assert grant.ended(place, "spot", after)
