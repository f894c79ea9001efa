from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.costs import Cost, costs_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import (
    Place,
    chips_of,
    holdings_of,
    parse_allocations,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.prices import (
    Prices,
    parse_prices,
    price_rules,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node

NOW = datetime(2026, 6, 10, tzinfo=timezone.utc)
ZONE = "us-central2-b"
V4: dict[str, Any] = {"zone": ZONE, "generation": "v4", "tier": "on_demand", "chips": 8}
# One dollar for a chip and an hour.
ONE = parse_prices(
    [
        {
            "generation": "v4",
            "region": "us-central2",
            "tier": "on_demand",
            "usd_per_chip_hour": 1,
        }
    ]
)


def node(name: str, hours: float | None, kind: str = "v4-8", state: str = "READY") -> Node:
    raw: dict[str, Any] = {
        "name": f"projects/p/locations/{ZONE}/nodes/{name}",
        "acceleratorType": kind,
        "state": state,
    }
    if hours is not None:
        raw["createTime"] = (NOW - timedelta(hours=hours)).isoformat()
    return Node.from_api(raw)


def per_hour(prices: Prices, kind: str, tier: str, zone: str = ZONE) -> float | None:
    """Return what a whole slice costs, whose chips are known."""
    each = prices.per_chip(Place(zone, kind, "tpu"), tier)
    return None if each is None else each * (chips_of(kind) or 0)


def costs(raw: Any, *nodes: Node, prices: Prices = ONE) -> list[Cost]:
    return costs_of(nodes, holdings_of(nodes, []), parse_allocations(raw), prices, NOW)


@pytest.mark.parametrize(
    ("raw", "there", "expected"),
    [
        # Inside of the grant it is free.
        ([V4], node("a", 10), Cost(4, 0, 0, 0)),
        # Without a grant it is not.
        ([], node("a", 10), Cost(4, 4, 40, 4)),
        (None, node("a", 10), Cost(4, 4, 40, 4)),
        ("unrestricted", node("a", 10), Cost(4, 4, 40, 4)),
        # Only what the grant does not hold.
        ([V4], node("a", 10, "v4-32"), Cost(16, 8, 80, 8)),
        # Free until the grant ended, two days ago.
        ([{**V4, "ends": "2026-06-07"}], node("a", 100), Cost(4, 4, 4 * 48, 4)),
        ([{**V4, "ends": "2026-06-07"}], node("a", 10), Cost(4, 4, 40, 4)),
        ([{**V4, "ends": "2026-06-10"}], node("a", 100), Cost(4, 0, 0, 0)),
        # What is being made costs nothing yet; when what is gone ceased to cost, nobody knows.
        ([], node("a", 1, state="CREATING"), Cost(4, 0, 0, 4)),
        ([], node("a", 10, state="PREEMPTED"), Cost(4, 0, None, 4)),
        ([V4], node("a", 10, state="PREEMPTED"), Cost(4, 0, 0, 0)),
        # No price is no guess.
        ([], node("a", 10, "v5litepod-8"), Cost(None, None, None, 8)),
        ([{**V4, "generation": "v5e"}], node("a", 10, "v5litepod-8"), Cost(None, 0, 0, 0)),
        ([], node("a", 10, "v9-8"), Cost(None, None, None, 0)),
        ([], node("a", None), Cost(4, 4, None, 4)),
        # A clock that is behind.
        ([], node("a", -1), Cost(4, 4, 0, 4)),
    ],
)
def test_one_node(raw: Any, there: Node, expected: Cost) -> None:
    (cost,) = costs(raw, there, prices=ONE)
    assert cost == expected


def test_the_oldest_has_the_grant() -> None:
    young, old = costs([V4], node("young", 5, "v4-16"), node("old", 10, "v4-8"))
    assert (old.so_far, old.outside) == (0, 0)
    assert (young.so_far, young.outside) == (4 * 5, 4)


def test_a_grant_that_shrinks_costs_from_then_on() -> None:
    raw = [{**V4, "chips": 4, "ends": "2026-06-08"}, {**V4, "chips": 4}]
    first, second = costs(raw, node("a", 100), node("b", 99))
    assert (first.so_far, first.outside) == (0, 0)
    assert (second.so_far, second.outside) == (4 * 24, 4)


@pytest.mark.parametrize(
    ("zone", "kind", "tier", "usd"),
    [
        (ZONE, "v4-8", "on_demand", 12.88),
        (ZONE, "v4-8", "guaranteed", 12.88),
        (ZONE, "v4-8", "best_effort", 3.686),
        # A single v2-8 has another price than as many chips of a pod.
        ("us-central1-f", "v2-8", "on_demand", 4.5),
        ("us-central1-a", "v2-32", "on_demand", 24.0),
        ("europe-west4-b", "v5litepod-16", "on_demand", 24.96),
        ("us-east1-d", "v6e-8", "spot", 4.5828),
        # What the table does not hold.
        (ZONE, "v4-8", "reserved", None),
        ("southamerica-west1-a", "v6e-8", "spot", None),
        ("me-west1-c", "v5litepod-1", "spot", None),
        (ZONE, "v9-8", "on_demand", None),
        ("us-central1-c", "v7x-8", "on_demand", None),
        ("nonsense", "v4-8", "on_demand", None),
    ],
)
def test_the_table_of_prices(zone: str, kind: str, tier: str, usd: float | None) -> None:
    found = per_hour(Prices(), kind, tier, zone)
    assert found is None if usd is None else found == pytest.approx(usd)


def test_own_prices_come_first() -> None:
    place = {"region": "us-central2", "tier": "reserved"}
    entries = [
        {**place, "generation": "v4", "usd_per_chip_hour": 2},
        {**place, "accelerator_type": "v4-8", "usd_per_chip_hour": 1},
        {**place, "generation": "v4", "tier": "spot", "usd_per_chip_hour": 0},
        {**place, "generation": "tpu7x", "usd_per_chip_hour": 3},
    ]
    assert price_rules({"fleet_prices": entries}) == []
    prices = parse_prices(entries)
    assert per_hour(prices, "v4-8", "reserved") == 4
    assert per_hour(prices, "v4-16", "reserved") == 16
    assert per_hour(prices, "v7x-16", "reserved") == 24
    assert per_hour(prices, "v4-8", "spot") == 0
    assert per_hour(prices, "v4-8", "on_demand") == pytest.approx(12.88)
