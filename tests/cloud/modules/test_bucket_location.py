"""Whether buckets are near, asked of the local cloud."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from emulator import Emulator

SLICES = [
    {"name": "solo", "zones": ["us-central2-b"]},
    {"name": "far", "zones": ["us-central2-b", "europe-west4-a"]},
]


def make(cloud: Emulator, name: str, **body: Any) -> None:
    url = f"{cloud.url}storage/v1/b"
    requests.post(url, json={"name": name, **body}, timeout=10).raise_for_status()


@pytest.fixture(autouse=True)
def buckets(cloud: Emulator) -> None:
    make(cloud, "near", location="us-central2")
    make(cloud, "multi", location="US")
    make(cloud, "lab-europe-west4", location="europe-west4")
    make(cloud, "lab-us-central2", location="us-central2")


def place(address: str, *slices: str, **more: Any) -> dict[str, Any]:
    return {"field": "fleet_runs[0].checkpoint_dir", "address": address, "slices": slices, **more}


def args(*places: dict[str, Any]) -> dict[str, Any]:
    return {"places": list(places), "slices": SLICES}


def test_a_zone_that_a_slice_may_get_is_enough_to_refuse_with_the_price(module: Any) -> None:
    result = module("bucket_location", args(place("gs://near/lm", "far")), check=True)
    assert result["rc"] == 1
    assert "Nothing was changed" in result["msg"]
    assert "fleet_runs[0].checkpoint_dir = 'gs://near/lm': bucket near is in" in result["msg"]
    assert "slice far may be in europe-west4-a" in result["msg"]
    assert "$50 a terabyte" in result["msg"]
    assert "cross_region: allow in fleet_runs[0]" in result["msg"]


def test_what_is_near_passes_and_each_bucket_is_looked_at_once(
    cloud: Emulator, module: Any
) -> None:
    places = [place("gs://near/a", "solo"), place("gs://near/b", "solo"), place("gs://no", "solo")]
    result = module("bucket_location", args(*places), check=True)
    assert (result["rc"], result["changed"]) == (0, False)
    assert result["locations"] == {"near": "US-CENTRAL2", "no": ""}
    assert (
        "there is no bucket no. Make it: gcloud storage buckets create gs://no"
        in (result["warned"])
    )
    assert "--location=us-central2" in result["warned"]


def test_a_slice_in_two_regions_has_a_bucket_in_each(module: Any) -> None:
    result = module("bucket_location", args(place("gs://lab-{region}/lm", "far")))
    assert result["rc"] == 0
    assert set(result["locations"]) == {"lab-us-central2", "lab-europe-west4"}


def test_the_price_can_be_accepted(module: Any) -> None:
    declared = place("gs://near/lm", "far", cross_region="allow")
    result = module("bucket_location", args(declared))
    assert (result["rc"], result["warned"]) == (0, "")
    assert "$50 a terabyte" in result["allowed"][0]


def test_reads_from_a_multi_region_are_warned_of(module: Any) -> None:
    result = module("bucket_location", args(place("gs://multi/lm", "solo")))
    assert result["rc"] == 0
    assert "reads cost $20 a terabyte" in result["warned"]
    assert module("bucket_location", args(place("gs://multi/lm", "far")))["rc"] == 1


def test_all_mistakes_are_reported_at_once(module: Any) -> None:
    second = {**place("gs://lab-europe-west4/x", "solo"), "field": "fleet_buckets[0].bucket"}
    result = module("bucket_location", args(place("gs://near/lm"), second))
    assert result["rc"] == 1
    assert "2 places are in another region" in result["msg"]
    assert "fleet_buckets[0].bucket" in result["msg"]


def test_who_may_not_know_is_told_so(cloud: Emulator, module: Any) -> None:
    cloud.fault("iam_denied", match={"service": "storage"})
    result = module("bucket_location", args(place("gs://near/lm", "far")))
    assert (result["rc"], result["locations"]) == (0, {"near": ""})
    assert "it is not known where bucket near is" in result["warned"]
    assert "roles/storage.bucketViewer" in result["warned"]


def test_a_bucket_that_the_fleet_makes_is_judged_by_its_region_before_it_is_there(
    module: Any,
) -> None:
    made = {"made": {"new": "us-central2"}}
    result = module("bucket_location", {**args(place("gs://new/lm", "solo")), **made})
    assert (result["rc"], result["warned"]) == (0, "")
    far = module("bucket_location", {**args(place("gs://new/lm", "far")), **made})
    assert far["rc"] == 1
    assert "bucket new is in us-central2" in far["msg"]
