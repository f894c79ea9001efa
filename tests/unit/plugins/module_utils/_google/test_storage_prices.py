from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._google.storage_prices import (
    GB,
    kept_copies,
    usd_per_gb_month,
    usd_per_month,
)

from tpu_local_cloud.model.shared import catalog


@pytest.mark.parametrize(
    ("location", "storage_class", "expected"),
    [
        ("US-CENTRAL1", "STANDARD", 0.020), ("us-east4", "STANDARD", 0.023),
        ("us-central1", "NEARLINE", 0.010), ("us-central1", "ARCHIVE", 0.0012),
        ("us-east4", "NEARLINE", 0.013), ("us-central2", "STANDARD", 0.020),
        ("US", "STANDARD", 0.026), ("NAM4", "STANDARD", 0.044),
        ("mars-east1", "STANDARD", None), ("", "", None),
        ("us-central1", "REGIONAL", None), ("mars-east1", "NEARLINE", None),
    ],
)  # fmt: skip
def test_the_price_of_a_bucket(location: str, storage_class: str, expected: float | None) -> None:
    assert usd_per_gb_month(location, storage_class) == expected


def test_what_is_unknown_has_no_price() -> None:
    assert usd_per_month(100 * GB, 0.02) == pytest.approx(2.0)
    assert usd_per_month(100 * GB, None) is None


def test_each_region_with_tpus_has_a_price() -> None:
    zones = (*catalog.ZONES, *catalog.COMPUTE_ZONES)
    regions = {zone.rpartition("-")[0] for zone in zones}
    assert {one for one in regions if usd_per_gb_month(one, "STANDARD") is None} == set()


def test_how_many_deleted_checkpoints_are_kept() -> None:
    assert kept_copies(7.0, 3600.0) == 168
    # Versions that no rule deletes grow for good: those of a month are counted.
    assert kept_copies(float("inf"), 3600.0) == 720
