from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._google.disk_prices import (
    address_usd_per_month,
    disk_usd_per_month,
)

from tpu_local_cloud.model.shared import catalog


@pytest.mark.parametrize(
    ("kind", "zone", "usd"),
    [
        ("pd-standard", "us-central1-a", 4.0),
        ("pd-balanced", "us-central1-a", 10.0),
        ("pd-balanced", "europe-west4-a", 11.0),
        ("hyperdisk-balanced", "asia-northeast1-b", 10.4),
        ("pd-balanced", "mars-east1-a", None),
        ("tape", "us-central1-a", None),
    ],
)
def test_a_month_of_100_gb(kind: str, zone: str, usd: float | None) -> None:
    found = disk_usd_per_month(kind, 100, zone)
    assert found == (None if usd is None else pytest.approx(usd))


def test_each_zone_with_tpus_has_a_price() -> None:
    zones = (*catalog.ZONES, *catalog.COMPUTE_ZONES)
    assert [zone for zone in zones if disk_usd_per_month("pd-ssd", 1, zone) is None] == []


def test_addresses_of_spot_machines_cost_half() -> None:
    assert address_usd_per_month(spot=False) == pytest.approx(3.65)
    assert address_usd_per_month(spot=True) == pytest.approx(1.825)
