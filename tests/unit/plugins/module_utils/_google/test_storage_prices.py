from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._google.storage_prices import (
    GB,
    usd_per_gb_month,
    usd_per_month,
)


@pytest.mark.parametrize(
    ("location", "storage_class", "expected"),
    [
        ("US-CENTRAL1", "STANDARD", 0.020), ("us-east4", "STANDARD", 0.023),
        ("us-central1", "NEARLINE", 0.010), ("us-central1", "ARCHIVE", 0.0012),
        ("US", "STANDARD", None), ("mars-east1", "STANDARD", None), ("", "", None),
        ("us-central1", "REGIONAL", None), ("mars-east1", "NEARLINE", None),
    ],
)  # fmt: skip
def test_the_price_of_a_bucket(location: str, storage_class: str, expected: float | None) -> None:
    assert usd_per_gb_month(location, storage_class) == expected


def test_what_is_unknown_has_no_price() -> None:
    assert usd_per_month(100 * GB, 0.02) == pytest.approx(2.0)
    assert usd_per_month(100 * GB, None) is None
