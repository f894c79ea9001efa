from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._core.in_zone import (
    addresses_in,
    in_zone,
    unknown_placeholder,
    varies,
    with_addresses,
)


def test_region_and_zone_become_those_of_the_machine() -> None:
    assert in_zone("gs://lab-{region}/lm", "europe-west4-a") == "gs://lab-europe-west4/lm"
    assert in_zone("gs://lab-{zone}/{region}", "us-east1-d") == "gs://lab-us-east1-d/us-east1"
    assert in_zone("gs://lab/lm", "us-east1-d") == "gs://lab/lm"
    # AI zones have two parts behind their region.
    assert in_zone("{region}", "us-south1-ai1b") == "us-south1"


def test_without_a_zone_it_stays() -> None:
    assert in_zone("gs://lab-{region}/lm", "") == "gs://lab-{region}/lm"


def test_what_varies_and_what_is_unknown() -> None:
    assert varies("lab-{zone}")
    assert not varies("lab-{place}")
    assert unknown_placeholder("gs://{region}-{place}/x") == "{place}"
    assert unknown_placeholder("gs://{region}-{zone}/x") == ""


def test_in_a_text_only_addresses_change() -> None:
    text = "train.py --data 'gs://lab-{region}/d' --name {region} --also=gs://b/{zone}"
    assert addresses_in(text) == ["gs://lab-{region}/d", "gs://b/{zone}"]
    assert with_addresses(text, "us-east1-d") == (
        "train.py --data 'gs://lab-us-east1/d' --name {region} --also=gs://b/us-east1-d"
    )
    assert (with_addresses(3, "us-east1-d"), addresses_in(3)) == (3, [])
