"""What a plan would change, and what that costs."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.forecast import forecast
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan import plan_fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.prices import parse_prices
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node

NOW = datetime(2026, 6, 10, tzinfo=timezone.utc)
ZONE = "us-central2-b"
ONE = {"region": "us-central2", "usd_per_chip_hour": 1}
PRICES = parse_prices(
    [
        {**ONE, "generation": "v4", "tier": "on_demand"},
        {**ONE, "generation": "v4", "tier": "spot"},
    ]
)
GRANT = {"zone": ZONE, "generation": "v4", "tier": "on_demand"}
SPOT = {"zone": ZONE, "generation": "v4", "tier": "spot", "chips": 64}


def node(name: str, kind: str = "v4-8", state: str = "READY", spot: bool = False) -> Node:
    return Node.from_api(
        {
            "name": f"projects/p/locations/{ZONE}/nodes/{name}",
            "acceleratorType": kind,
            "state": state,
            "labels": {"tpu-fleet": "managed"},
            "schedulingConfig": {"spot": spot},
            "createTime": (NOW - timedelta(hours=1)).isoformat(),
        }
    )


def told(slices: list[dict[str, Any]], *there: Node, grant: Any, **more: Any) -> dict[str, Any]:
    entries = [{"accelerator_type": "v4-8", "zone": ZONE, **one} for one in slices]
    fleet = Fleet.from_params({"slices": entries, "allocations": grant, **more}, "p")
    world = World(there, (), frozenset(), NOW)
    return forecast(fleet, world, plan_fleet(fleet, world, {}), PRICES)


@pytest.mark.parametrize(
    ("grant", "billed", "until"),
    [
        ([{**GRANT, "chips": 12, "ends": "2026-12-31"}], 0, "2026-12-31"),
        # It draws on two entries, and is paid until the first one ends.
        (
            [
                {**GRANT, "accelerator_type": "v4-16", "generation": None, "chips": 4,
                 "ends": "2026-07-31"},
                {**GRANT, "chips": 8, "ends": "2026-12-31"},
            ],
            0,
            "2026-07-31",
        ),
        ([{**GRANT, "chips": 12}], 0, None),
        ("unrestricted", 12, None),
    ],
)  # fmt: skip
def test_a_new_slice_says_its_price_and_who_pays_until_when(
    grant: Any, billed: float, until: str | None
) -> None:
    found = told([{"name": "pair", "accelerator_type": "v4-16"}], node("other"), grant=grant)
    (change,) = found["changes"]
    assert change["does"] == "create"
    assert change["hosts"] == ("pair-w0", "pair-w1")
    assert (change["chips"], change["usd_per_hour"]) == (8, 8)
    assert found["usd_per_hour"] == 12
    assert found["usd_per_hour_billed"] == billed
    assert change["usd_per_hour_billed"] == (8 if billed else 0)
    assert change["granted_until"] == until


def test_a_lost_slice_is_recreated_and_counts_once() -> None:
    wanted = [{"name": "cheap", "tier": "spot"}]
    found = told(wanted, node("cheap", state="PREEMPTED", spot=True), grant=[SPOT])
    (change,) = found["changes"]
    assert (change["does"], change["hosts"]) == ("recreate", ("cheap",))
    assert change["why"] == "it is PREEMPTED and still books quota"
    assert found["usd_per_hour"] == 4


def test_what_is_deleted_costs_no_more() -> None:
    grant = [{**GRANT, "chips": 8}]
    found = told([], node("old"), grant=grant, prune=True)
    (change,) = found["changes"]
    assert (change["does"], change["usd_per_hour"], change["hosts"]) == ("delete", 4, ())
    assert found["usd_per_hour"] == 0
    found = told([{"name": "old"}], node("old"), grant=grant, teardown=["old"])
    assert [one["does"] for one in found["changes"]] == ["delete"]


def test_an_unknown_price_makes_the_sum_unknown() -> None:
    grant = [{"zone": "us-x9-b", "generation": "v4", "tier": "on_demand", "chips": 8}]
    found = told([{"name": "far", "zone": "us-x9-b"}], grant=grant)
    assert found["changes"][0]["usd_per_hour"] is None
    assert found["usd_per_hour"] is None


def test_slices_that_are_not_named_are_left_alone() -> None:
    grant = [{**GRANT, "chips": 8}]
    slices = [{"name": "one"}, {"name": "two"}]
    found = told(slices, node("left"), grant=grant, only=["two"], prune=True)
    assert [(one["does"], one["slice"]) for one in found["changes"]] == [("create", "two")]
    assert [one["name"] for one in found["slices"]] == ["two"]
    with pytest.raises(Exception, match=r"only names three, which the fleet file does not"):
        told(slices, grant=grant, only=["three"])


def test_a_new_slice_on_compute_engine_has_disks_and_addresses_beside_its_chips() -> None:
    place = {"zone": "us-east5-a", "accelerator_type": "v6e-8", "api": "compute"}
    found = told([{"name": "two", **place}, {"name": "old"}], grant="unrestricted")
    rows = [(one["what"], one["name"], one["place"]) for one in found["beside"]]
    assert rows == [("boot disks", "two", "us-east5-a"), ("addresses", "two", "us-east5-a")]
    assert all(one["usd_per_month"] for one in found["beside"])
    # What is there is in the costs of the status.
    assert told([{"name": "old"}], node("old"), grant="unrestricted")["beside"] == []
