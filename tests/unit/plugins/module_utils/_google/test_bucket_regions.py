from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.in_zone import region_of
from ansible_collections.tpu.fleet.plugins.module_utils._google.bucket_regions import (
    FAR,
    FREE,
    NEAR,
    regions_of,
    transfer,
)

from tpu_local_cloud.model.shared import catalog

CUSTOM = {
    "location": "US",
    "customPlacementConfig": {"dataLocations": ["US-EAST1", "US-WEST1"]},
}


@pytest.mark.parametrize(
    ("bucket", "region", "kind", "usd"),
    [
        ({"location": "US-CENTRAL2"}, "us-central2", FREE, None),
        ({"location": "NAM4"}, "us-east1", FREE, None),
        (CUSTOM, "us-west1", FREE, None),
        ({}, "us-west1", FREE, None),
        ({"location": "US-CENTRAL1"}, "us-central2", FAR, 20),
        ({"location": "EUROPE-WEST1"}, "europe-west4", FAR, 20),
        ({"location": "US-EAST1"}, "northamerica-northeast1", FAR, 20),
        ({"location": "US-EAST1"}, "europe-west4", FAR, 50),
        ({"location": "EUROPE-WEST4"}, "us-east1", FAR, 50),
        ({"location": "ASIA-EAST1"}, "asia-northeast1", FAR, 80),
        ({"location": "US-EAST1"}, "asia-northeast1", FAR, 80),
        ({"location": "US-EAST1"}, "southamerica-west1", FAR, 140),
        ({"location": "AUSTRALIA-SOUTHEAST1"}, "us-east1", FAR, 100),
        ({"location": "EUR4"}, "europe-west1", FAR, 20),
        ({"location": "NAM4"}, "europe-west4", FAR, 50),
        (CUSTOM, "us-central1", FAR, 20),
        ({"location": "US"}, "us-central1", NEAR, 20),
        ({"location": "EU"}, "europe-west4", NEAR, 20),
        ({"location": "ASIA"}, "asia-east1", NEAR, 80),
        ({"location": "US"}, "europe-west4", FAR, 50),
        ({"location": "US"}, "northamerica-northeast1", FAR, 20),
        ({"location": "MARS-EAST1"}, "us-east1", FAR, None),
        ({"location": "NAM99"}, "us-east1", FAR, None),
    ],
)
def test_what_lies_between(
    bucket: dict[str, Any], region: str, kind: str, usd: float | None
) -> None:
    found = transfer(bucket, region)
    assert found.kind == kind
    assert found.usd_per_tb == (None if usd is None else pytest.approx(usd))


def test_each_region_with_tpus_has_a_price_to_each_other() -> None:
    regions = {region_of(zone) for zone in (*catalog.ZONES, *catalog.COMPUTE_ZONES)}
    for one in regions:
        for other in regions - {one}:
            usd = transfer({"location": one.upper()}, other).usd_per_tb
            assert 20 <= (usd or 0) <= 140, (one, other)


def test_in_words() -> None:
    assert transfer({"location": "NAM4"}, "us-west1").place == "us-central1 and us-east1"
    assert transfer({"location": "US"}, "us-west1").place == "the multi-region US"
    assert transfer({"location": "US-EAST1"}, "asia-east1").price == "$80 a terabyte"
    assert "storage/pricing" in transfer({"location": "MARS-EAST1"}, "us-east1").price


def test_the_regions_of_a_bucket() -> None:
    assert regions_of(CUSTOM) == ("us-east1", "us-west1")
    assert regions_of({"location": "US"}) == ()
