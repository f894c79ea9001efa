"""Rules for runs in the fleet file."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.rules import (
    check_training_run,
)


def problems(place: str | None, key: str = "checkpoint_dir") -> list[str]:
    run = {"name": "digits", "slices": [], key: place}
    found = map(str, check_training_run({"fleet_runs": [run]}))
    return [text for text in found if key in text]


@pytest.mark.parametrize(
    "place", ["gs://lab-ckpt/digits", "gs://lab-ckpt", "/mnt/ckpt", "", "gs://lab-{region}/{zone}"]
)
def test_where_checkpoints_may_be(place: str) -> None:
    assert problems(place) == []


@pytest.mark.parametrize("place", ["gs://", "gs:lab/x", "gs:///x", "gs://Lab/x", "gs://l@b/x"])
def test_the_address_of_a_bucket(place: str) -> None:
    (text,) = problems(place)
    assert f"fleet_runs[0].checkpoint_dir = {place!r}: is not the address" in text
    assert "gs://BUCKET/FOLDER" in text


@pytest.mark.parametrize("place", ["gs://lab-logs/digits", "gs://lab-logs", "", None])
def test_where_an_archive_may_be(place: str | None) -> None:
    assert problems(place, "archive") == []


@pytest.mark.parametrize("place", ["gs://", "s3://lab/x", "/mnt/logs", "lab-logs"])
def test_an_archive_is_in_a_bucket(place: str) -> None:
    (text,) = problems(place, "archive")
    assert f"fleet_runs[0].archive = {place!r}: is not the address of a bucket" in text


@pytest.mark.parametrize(
    ("place", "fence", "is_wrong"),
    [
        ("gs://lab-ckpt/digits", "attempt", False),
        ("/mnt/ckpt", "folder", False),
        ("/mnt/ckpt", "attempt", True),
        (None, "attempt", True),
    ],
)
def test_folders_of_attempts_are_in_a_bucket(place: str | None, fence: str, is_wrong: bool) -> None:
    run = {"name": "digits", "slices": [], "checkpoint_dir": place, "fence": fence}
    found = list(map(str, check_training_run({"fleet_runs": [run]})))
    wrong = [text for text in found if "fleet_runs[0].fence = 'attempt': needs" in text]
    assert bool(wrong) == is_wrong
    assert all("gs://BUCKET/FOLDER" in text for text in wrong)


def test_only_region_and_zone_are_replaced() -> None:
    (text,) = problems("gs://lab-{place}/x")
    assert "has {place}, which is neither region nor zone. Write {region} or {zone}" in text


@pytest.mark.parametrize(
    ("venv", "version", "words"),
    [
        ({"framework": "jax"}, None, ""),
        ({"framework": "jax", "framework_version": "0.11.2"}, "0.10.2", ""),
        ({"framework": "jax", "framework_version": "0.11.1"}, None, "venv has JAX 0.11.1"),
        ({"framework": "jax"}, "0.10.2", "the run's venv has JAX 0.10.2"),
        ({"framework": "torch_xla"}, None, "the run's venv is none with framework: jax"),
        ({}, None, "the run's venv is none with framework: jax"),
    ],
)
def test_certificates_need_a_jax_that_does_not_ignore_them(
    venv: dict[str, str], version: str | None, words: str
) -> None:
    run = {"name": "digits", "slices": [], "venv": "main", "mtls": True}
    venvs = [{"name": "main", "path": "/opt/venvs/main", **venv}]
    data = {"fleet_runs": [run], "fleet_venvs": venvs, "fleet_jax_version": version}
    found = [str(one) for one in check_training_run(data) if one.field == "fleet_runs[0].mtls"]
    assert len(found) == bool(words)
    assert all(words in text and "0.11.2 or newer" in text for text in found)
    plain = {**data, "fleet_runs": [{**run, "mtls": False}]}
    assert not [one for one in check_training_run(plain) if one.field.endswith("mtls")]
