"""A watcher counts by the cloud's clock, and a spent budget keeps slices from being made."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from emulator import Emulator

SOLO = {"name": "solo", "accelerator_type": "v4-8", "zone": Emulator.zone}
PRICE = {"generation": "v4", "region": "us-central2", "tier": "on_demand", "usd_per_chip_hour": 1}
SPENT, COSTS = "The budget of $10.00 a day is spent", "solo still costs money"


def spent(watched: Any) -> float:
    found = (watched.status().get("budget") or {}).get("periods") or [{"spent": 0.0}]
    return float(found[0]["spent"])


def two_looks(watched: Any) -> None:
    for _look in range(2):
        before = watched.status()["looked_at"]
        watched.until(lambda seen=before: watched.status()["looked_at"] > seen)


def test_it_is_told_once_and_what_is_lost_is_not_made_again(
    cloud: Emulator, watched: Any, hook: Any
) -> None:
    # The budget counts by day: of this one much is left.
    now = datetime.fromisoformat(cloud.control("clock", {"advance": 0})["time"])
    morning = now.replace(hour=6, minute=0, second=0, microsecond=0) + timedelta(days=1)
    cloud.control("clock", {"advance": (morning - now).total_seconds()})
    watched.get(SOLO)
    wanted = {
        "fleet_slices": [SOLO],
        "fleet_prices": [PRICE],
        "fleet_notify": [{"apprise": hook.url}],
    }
    watched.declare(**wanted, fleet_budget={"per_day": 10})
    watched.start("--hosts-interval=10")
    watched.until(lambda: spent(watched) > 0)
    assert (hook.titles(), spent(watched) < 10) == ([], True)
    cloud.control("clock", {"advance": 3 * 3600})
    watched.until(lambda: SPENT in hook.titles())
    two_looks(watched)
    assert (hook.titles().count(SPENT), COSTS in hook.titles()) == (1, False)
    assert "$0.00 left" in watched.command("status").stdout

    # A worker that does not answer keeps its slice, and people know what that costs.
    watched.declare(**wanted, fleet_budget={"per_day": 10, "on_exceed": "delete"})
    watched.until(lambda: COSTS in hook.titles())
    assert watched.node()["state"] == "READY"
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/solo:preempt", {})
    watched.wait_for("not created, because the budget is spent: solo")
    two_looks(watched)
    assert (watched.node() or {}).get("state") != "READY"
    assert hook.titles().count(SPENT) == 1
