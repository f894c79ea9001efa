"""Whether buckets are near, asked of the local cloud."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from emulator import Emulator

SLICES = [{"name": "solo", "zone": "us-central2-b"}, {"name": "far", "zone": "europe-west4-a"}]


@pytest.fixture(autouse=True)
def buckets(cloud: Emulator) -> None:
    for name, location in (("near", "us-central2"), ("multi", "US")):
        body = {"name": name, "location": location}
        requests.post(f"{cloud.url}storage/v1/b", json=body, timeout=10).raise_for_status()


def test_what_is_far_is_warned_of_and_nothing_fails(module: Any) -> None:
    args = {
        "buckets": [{"bucket": "near"}, {"bucket": "multi", "slices": ["solo"]}, {"bucket": "no"}],
        "slices": SLICES,
    }
    result = module("bucket_location", args, check=True)
    assert (result["rc"], result["changed"]) == (0, False)
    assert result["locations"] == {"near": "US-CENTRAL2", "multi": "US", "no": ""}
    assert [text.partition(":")[0] for text in result["far"]] == ["Bucket near", "Bucket multi"]
    assert "each read from europe-west4 costs egress (far)" in result["far"][0]
    assert "Bucket no: there is no such bucket." in result["warned"]


def test_who_may_not_know_is_told_so(cloud: Emulator, module: Any) -> None:
    cloud.fault("iam_denied", match={"service": "storage"})
    result = module("bucket_location", {"buckets": [{"bucket": "near"}], "slices": SLICES})
    assert (result["rc"], result["far"]) == (0, [])
    assert "Bucket near: its region is unknown." in result["warned"]
