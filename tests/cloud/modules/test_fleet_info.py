"""The grant and the costs of a project, as the module counts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests
from emulator import Emulator

Module = Callable[..., dict[str, Any]]
V4 = {"zone": Emulator.zone, "generation": "v4", "tier": "on_demand", "chips": 8}


@pytest.mark.parametrize("check", [False, True])
def test_use_and_costs(cloud: Emulator, module: Module, check: bool) -> None:
    cloud.populate(1, prefix="theirs", acceleratorType="v4-16")
    cloud.populate(1, prefix="ours", labels={"tpu-fleet": "managed"})
    result = module("fleet_info", {"allocations": [V4]}, check=check)
    assert result["rc"] == 0
    assert not result["changed"]
    (entry,) = result["grant"]["allocations"]
    assert (entry["used"], entry["chips"], entry["days_left"]) == (8, 8, None)
    rows = {row["name"]: row for row in result["nodes"]}
    assert rows["theirs-0"]["chips"] == 8
    assert (rows["ours-0"]["ours"], rows["theirs-0"]["ours"]) == (True, False)
    assert rows["ours-0"]["usd_per_hour"] == pytest.approx(12.88)
    # One of them has the grant, the other one costs.
    assert sum(row["outside"] for row in rows.values()) == 4
    (warning,) = result["grant_warnings"]
    assert "outside of the grant" in warning
    assert result["now"].endswith("Z")


def test_what_waits_is_counted(cloud: Emulator, module: Module) -> None:
    cloud.fault("stock_out")
    spec = {"name": "q", "zone": cloud.zone, "accelerator_type": "v4-16", "tier": "spot"}
    made = module("queued_resource", {**spec, "wait": False})
    assert made["rc"] == 0, made
    result = module("fleet_info", {"allocations": [{**V4, "tier": "spot", "ends": "2037-01-01"}]})
    (queued,) = result["queued"]
    assert (queued["name"], queued["chips"], queued["ours"]) == ("q", 8, True)
    assert "waits for capacity" in queued["reason"]
    (entry,) = result["grant"]["allocations"]
    assert entry["used"] == 8
    assert entry["last_day"] == "2037-01-01"


def test_nothing_declared(cloud: Emulator, module: Module) -> None:
    result = module("fleet_info", {})
    assert result["grant"] == {"unrestricted": False, "declared": False, "allocations": []}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"allocations": [{**V4, "count": 3}]}, "has both chips and count"),
        ({"allocations": "unrestricted", "prices": [{"generation": "v4"}]}, "region: is missing"),
    ],
)
def test_what_is_wrong_is_refused(
    cloud: Emulator, module: Module, options: dict[str, Any], words: str
) -> None:
    result = module("fleet_info", options)
    assert result["rc"] == 1
    assert words in result["msg"]


def test_a_zone_that_nobody_could_ask(cloud: Emulator, module: Module) -> None:
    cloud.fault("unreachable", match={"zone": "europe-west4-b"})
    result = module("fleet_info", {"allocations": "unrestricted"})
    assert result["unreachable_zones"] == ["europe-west4-b"]


def test_what_costs_beside_the_chips(cloud: Emulator, module: Module) -> None:
    disk = {"name": "data", "zone": cloud.zone, "size": "100GiB", "type": "pd-balanced"}
    assert module("disk", disk)["rc"] == 0
    body = {"name": "lab", "location": "us-central2"}
    requests.post(f"{cloud.url}storage/v1/b", json=body, timeout=10).raise_for_status()
    upload = f"{cloud.url}upload/storage/v1/b/lab/o"
    query = {"uploadType": "media", "name": "lm/1.pt"}
    requests.post(upload, params=query, data=b"x" * 4096, timeout=10).raise_for_status()
    result = module("fleet_info", {"allocations": [V4], "buckets": ["lab", "gone"]})
    found = {row["name"]: row for row in result["beside"]}
    assert (found["data"]["amount"], found["data"]["usd_per_month"]) == (100, pytest.approx(10))
    assert found["lab"]["amount"] * (1 << 30) == pytest.approx(4096)
    assert found["lab"]["usd_per_month"] == pytest.approx(0.02 * 4096 / (1 << 30))
    assert result["beside_unknown"] == ["bucket gone: there is no such bucket"]


def test_who_may_not_see_disks_is_told_so(cloud: Emulator, module: Module) -> None:
    cloud.fault("iam_denied", match={"service": "compute"})
    result = module("fleet_info", {"allocations": [V4]})
    assert result["rc"] == 0
    assert result["beside"] == []
    assert result["beside_unknown"][0].startswith("disks: ")
