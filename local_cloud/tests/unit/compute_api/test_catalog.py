"""What Compute Engine offers where, and what it refuses."""

from __future__ import annotations

import pytest

from tpu_local_cloud.compute_api import catalog
from tpu_local_cloud.compute_errors import ComputeError
from tpu_local_cloud.model.shared import catalog as places
from tpu_local_cloud.tables._compute.machine_types import MACHINE_TYPES

IMAGES = "projects/ubuntu-os-accelerator-images"
FAMILY = "ubuntu-accel-2404-amd64-tpu-tpu7x"


@pytest.mark.parametrize(
    ("zone", "there", "not_there"),
    [
        ("us-central1-c", "tpu7x-standard-4t", "ct6e-standard-4t"),
        ("us-central1-ai1a", "tpu7x-standard-4t-tpu", "ct5p-hightpu-4t"),
        ("us-east1-d", "ct6e-standard-8t", "tpu7x-standard-4t"),
        ("us-central1-a", "ct5p-hightpu-4t", "tpu7x-standard-4t"),
        ("us-west4-a", "ct5lp-hightpu-1t", "ct6e-standard-1t"),
    ],
)
def test_machine_types_of_zones(zone: str, there: str, not_there: str) -> None:
    names = catalog.machine_types_in(zone)
    assert there in names
    assert not_there not in names


def test_every_machine_type_is_somewhere() -> None:
    there = {name for zone in places.ALL_ZONES for name in catalog.machine_types_in(zone)}
    assert set(MACHINE_TYPES) <= there
    assert catalog.machine_types_in("us-central2-b") == []


@pytest.mark.parametrize(
    "value",
    [
        "ct6e-standard-4t",
        "zones/us-east5-a/machineTypes/ct6e-standard-4t",
        "http://127.0.0.1:1/compute/v1/projects/p/zones/us-east5-a/machineTypes/ct6e-standard-4t",
    ],
)
def test_the_machine_type_of_a_request(value: str) -> None:
    assert catalog.machine_type_for("machineType", "us-east5-a", value).chips == 4


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("n2-standard-8", "'n2-standard-8'. The referenced resource does not exist."),
        ("tpu7x-standard-4t", "does not exist"),
        ("zones/us-east1-d/machineTypes/ct6e-standard-4t", "does not exist"),
        ("", "does not exist"),
        # Listed, and refused: only GKE may use it.
        (
            "ct5lp-hightpu-1t",
            r"This user agent is not allowed to use the machine type \[ct5lp-hightpu-1t\]\.",
        ),
    ],
)
def test_refused_machine_types(value: str, why: str) -> None:
    with pytest.raises(ComputeError, match=why) as refused:
        catalog.machine_type_for("machineType", "us-east5-a", value)
    assert refused.value.http == 400


@pytest.mark.parametrize(
    "url",
    [
        f"{IMAGES}/global/images/family/{FAMILY}",
        f"{IMAGES}/zones/-/imageFamilyViews/{FAMILY}",
        f"http://127.0.0.1:1/compute/beta/{IMAGES}/zones/us-east1-d/imageFamilyViews/{FAMILY}",
        f"https://www.googleapis.com/compute/v1/{IMAGES}/global/images/{FAMILY}-v20261020",
    ],
)
def test_images_by_name_and_family(url: str) -> None:
    found = catalog.image(url)
    assert found is not None
    assert found["name"] == f"{FAMILY}-v20261020"
    assert found["diskSizeGb"] == "10"
    assert "deprecated" not in found


def test_an_older_build_is_deprecated() -> None:
    older = catalog.image(f"{IMAGES}/global/images/{FAMILY}-v20261013")
    assert older is not None
    assert older["deprecated"]["state"] == "DEPRECATED"
    assert older["deprecated"]["replacement"].endswith(f"{FAMILY}-v20261020")


@pytest.mark.parametrize(
    "url",
    [
        f"global/images/family/{FAMILY}",
        f"projects/mine/global/images/family/{FAMILY}",
        f"{IMAGES}/global/images/{FAMILY}",
        f"{IMAGES}/global/images/family/{FAMILY}-v20261020",
        f"x{IMAGES}/global/images/family/{FAMILY}",
        FAMILY,
        "",
    ],
)
def test_images_that_there_are_not(url: str) -> None:
    assert catalog.image(url) is None


def test_each_machine_type_has_an_image() -> None:
    for kind in MACHINE_TYPES.values():
        assert catalog.image(f"{IMAGES}/global/images/family/{kind.image_family}")
