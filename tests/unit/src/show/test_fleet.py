"""How the grant, the queue and the costs are drawn."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_fleet.commands.status import show
from tpu_fleet.show.console import PlainConsole
from tpu_fleet.show.cost import dollars, per_hour, time_left, total
from tpu_fleet.show.fleet import beside_table, costs_table, grant_table, requests_table
from tpu_fleet.show.table import Table, print_tables
from tpu_fleet.workers.inventory.fleet_facts import FleetView, view_of

NODE: dict[str, Any] = {
    "name": "solo",
    "zone": "us-central2-b",
    "api": "tpu",
    "accelerator_type": "v4-8",
    "tier": "on_demand",
    "state": "READY",
    "chips": 4,
    "ours": True,
    "create_time": "2026-06-01T00:00:00Z",
    "outside": 0,
    "usd_per_hour": 12.88,
    "usd_per_hour_billed": 0.0,
    "usd_so_far": 0.0,
}
ENTRY: dict[str, Any] = {
    "field": "fleet_allocations[0]",
    "text": "32 v4 chips on demand in us-central2-b",
    "zone": "us-central2-b",
    "api": "tpu",
    "generation": "v4",
    "accelerator_type": None,
    "tier": "on_demand",
    "chips": 32,
    "used": 4,
    "last_day": "2027-03-31",
    "ends": "2027-04-01T00:00:00Z",
    "days_left": 3,
    "over": False,
}
GRANT = {"unrestricted": False, "declared": True, "allocations": [ENTRY]}
PRICES = {"date": "2026-11-21", "sources": []}


def drawn(*tables: Table) -> str:
    console = PlainConsole(width=160)
    with console.capture() as captured:
        print_tables(console, *tables)
    return captured.get()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "$12.88, free"),
        ({"usd_per_hour_billed": 12.88}, "$12.88"),
        ({"usd_per_hour_billed": 6.44}, "$12.88, $6.44 of it billed"),
        ({"usd_per_hour": None, "usd_per_hour_billed": None}, "unknown"),
        ({"usd_per_hour": None}, "unknown, free"),
        ({"usd_per_hour": 0}, "$0.00"),
    ],
)
def test_price_of_an_hour(changes: dict[str, Any], text: str) -> None:
    assert per_hour({**NODE, **changes}) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "2027-03-31 (3 days left)"),
        ({"days_left": 1}, "2027-03-31 (1 day left)"),
        ({"days_left": 0}, "2027-03-31 (today)"),
        ({"over": True}, "2027-03-31 (over)"),
        ({"last_day": None, "days_left": None}, "no end"),
    ],
)
def test_time_left(changes: dict[str, Any], text: str) -> None:
    assert time_left({**ENTRY, **changes}) == text


def test_what_is_unknown_is_not_added_up() -> None:
    nodes = [{"usd": 1234.5}, {"usd": None}, {"usd": 0.5}]
    assert total(nodes, "usd") == "$1,235.00 and 1 unknown"
    assert dollars(None) == "unknown"


def test_costs_say_of_which_day_the_prices_are() -> None:
    theirs = {**NODE, "name": "other", "ours": False, "usd_so_far": None}
    text = " ".join(drawn(costs_table(FleetView(nodes=[NODE, theirs], prices=PRICES))).split())
    for words in ("solo", "other (not ours)", "$12.88, free", "unknown", "prices of 2026-11-21:"):
        assert words in text


def test_what_waits_says_since_when() -> None:
    queued = {
        "name": "big",
        "zone": "us-central2-b",
        "api": "tpu",
        "state": "WAITING_FOR_RESOURCES",
        "reason": "waits for capacity",
        "tier": "spot",
        "accelerator_types": ["v4-64"],
        "chips": 32,
        "create_time": "2026-06-01T00:00:00Z",
        "valid_until": None,
        "ours": True,
    }
    text = drawn(requests_table(FleetView(queued=[queued])))
    for words in ("big", "v4-64", "waits for capacity", "2026-06-01T00:00:00Z"):
        assert words in text


def test_the_api_is_a_column_where_there_are_both() -> None:
    entries = [ENTRY, {**ENTRY, "api": "compute"}]
    nodes = [NODE, {**NODE, "api": "compute"}]
    view = FleetView(nodes=nodes, grant={**GRANT, "allocations": entries}, prices=PRICES)
    for table in (costs_table(view), grant_table(view)):
        head, first, second = (line.plain.split() for line in table.lines()[1:4])
        assert (head[2], first[2], second[2]) == ("API", "tpu", "compute")
    one = FleetView(nodes=nodes[:1], grant=GRANT, prices=PRICES)
    for table in (costs_table(one), grant_table(one)):
        assert "API" not in table.lines()[1].plain


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (FleetView(problem="no [credentials]"), "unknown: no [credentials]"),
        (FleetView(grant=GRANT, warnings=["it ends"], prices=PRICES), "4 of 32 chips"),
        (FleetView(grant=GRANT, warnings=["it ends"], prices=PRICES), "Warning: it ends"),
        (
            FleetView(grant={**GRANT, "declared": False, "allocations": []}, prices=PRICES),
            "nothing may be created",
        ),
    ],
)
def test_the_whole_view(view: FleetView, words: str) -> None:
    console = PlainConsole(width=160)
    with console.capture() as captured:
        show(console, [], [], view)
    assert words in captured.get()


def test_zones_that_could_not_be_asked_are_a_warning() -> None:
    view = view_of(
        {
            "grant": GRANT,
            "nodes": [NODE],
            "queued": [],
            "grant_warnings": ["it ends"],
            "prices": PRICES,
            "now": "2026-06-01T00:00:00Z",
            "unreachable_zones": ["us-east1-d"],
        }
    )
    assert view.nodes == [NODE]
    assert view.warnings[0] == "it ends"
    assert "us-east1-d" in view.warnings[1]


def test_what_costs_beside_the_chips() -> None:
    disk = {"what": "disk", "name": "data", "place": "us-east1-d", "kind": "pd-ssd"}
    row = {**disk, "amount": 100, "usd_per_month": 17.0, "is_cut": False}
    bucket = {**row, "what": "bucket", "name": "lab", "amount": 2.5, "is_cut": True}
    unknown = {**row, "what": "addresses", "name": "solo", "amount": 4, "usd_per_month": None}
    text = " ".join(drawn(beside_table([row, bucket, unknown])).split())
    assert "disk data us-east1-d pd-ssd 100.0 GB $17.00" in text
    assert "2.5 GB at least $17.00" in text
    assert "addresses solo us-east1-d pd-ssd 4 unknown" in text
    assert "Together $34.00 and 1 unknown a month" in text
