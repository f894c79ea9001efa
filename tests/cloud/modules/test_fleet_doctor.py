"""What the doctor says of a project on the local cloud, from the computer of a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._google.bucket_settings import wanted
from emulator import Emulator

Module = Callable[..., dict[str, Any]]
V4 = {"zone": Emulator.zone, "generation": "v4", "tier": "on_demand", "chips": 8}
V6E = {"zone": "us-east5-a", "generation": "v6e", "tier": "spot", "chips": 8, "api": "compute"}
SOLO = {"name": "solo", "zone": Emulator.zone, "accelerator_type": "v4-8"}
CHEAP = {"name": "cheap", "zone": "us-east5-a", "accelerator_type": "v6e-8", "tier": "spot"}


@pytest.fixture
def doctor(cloud: Emulator, module: Module) -> Callable[..., dict[str, str]]:
    """Return what examines a fleet file: the status of each check of the project, and its words."""

    def examine(slices: list[dict[str, Any]], allocations: list[dict[str, Any]]) -> dict[str, str]:
        args = {"project": cloud.project, "api_endpoint": cloud.url, "slices": slices}
        found = module("fleet_doctor", {**args, "allocations": allocations})
        return {
            row["check"]: f"{row['status']} {row['says']} {row['remedy']}"
            for row in found["findings"]
        }

    return examine


def switch_off(cloud: Emulator, service: str) -> None:
    path = f"v1/projects/{cloud.project}/services/{service}:disable"
    requests.post(f"{cloud.url}{path}", json={}, timeout=60).raise_for_status()


def test_each_api_is_asked_for_its_own_quota(
    cloud: Emulator, doctor: Callable[..., dict[str, str]]
) -> None:
    cloud.fault("quota", match={"service": "compute", "tier": "spot"}, options={"limit": 4})
    # Of Compute Engine by the grant, which alone says so.
    found = doctor([SOLO, CHEAP], [V4, V6E])
    assert found["api"].startswith("ok")
    assert found["compute_api"].startswith("ok")
    assert found["grant"].startswith("ok"), found
    assert found["compute_quota"].startswith(
        "fail the quota on Compute Engine for v6e-8 (spot) in us-east5 is 4; the slice takes 8"
    )
    assert "PREEMPTIBLE-TPU-V6E-per-project-region" in found["compute_quota"]
    # A local cloud reports no quotas of the Cloud TPU API.
    assert found["quota"].startswith("skipped")


def test_without_a_limit_all_is_well(doctor: Callable[..., dict[str, str]]) -> None:
    assert doctor([CHEAP], [V6E])["compute_quota"].startswith("ok us-east5-a: unlimited")


def test_what_no_slice_needs_is_not_asked(doctor: Callable[..., dict[str, str]]) -> None:
    found = doctor([SOLO], [V4])
    assert found["compute_api"] == "skipped no slice is on Compute Engine "
    assert found["compute_quota"] == "skipped no slice is on Compute Engine "
    assert doctor([CHEAP], [V6E])["api"] == "skipped no slice is of the Cloud TPU API "


@pytest.mark.parametrize(
    ("slices", "grant", "service", "refused"),
    [
        ([SOLO, CHEAP], [V4, V6E], "compute", "compute_api"),
        ([SOLO, CHEAP], [V4, V6E], "tpu", "api"),
        ([CHEAP], [V6E], "tpu", ""),
        ([SOLO], [V4], "compute", ""),
    ],
)
def test_an_api_that_is_not_enabled(
    cloud: Emulator,
    doctor: Callable[..., dict[str, str]],
    slices: list[dict[str, Any]],
    grant: list[dict[str, Any]],
    service: str,
    refused: str,
) -> None:
    switch_off(cloud, f"{service}.googleapis.com")
    found = doctor(slices, grant)
    failed = {check: said for check, said in found.items() if said.startswith(("fail", "warn"))}
    # None of them is created, whatever is refused.
    assert set(failed) - {"slices"} == ({refused} if refused else set()), failed
    if refused:
        assert f"gcloud services enable {service}.googleapis.com" in failed[refused]


def test_a_bucket_as_google_makes_it_is_a_finding_with_price_and_command(
    cloud: Emulator, module: Module
) -> None:
    storage = f"{cloud.url}storage/v1/b"
    for name, more in (("plain", {}), ("right", wanted())):
        body = {"name": name, "location": "us-central2", **more}
        requests.post(storage, json=body, timeout=10).raise_for_status()
    upload = f"{cloud.url}upload/storage/v1/b/plain/o"
    for step in (100, 200):
        query = {"uploadType": "media", "name": f"lm/{step}.pt"}
        requests.post(upload, params=query, data=b"x" * 1000, timeout=10).raise_for_status()
    buckets = [
        {"name": name, "zones": ["us-central2-b"], "folders": ["lm/"]}
        for name in ("plain", "right")
    ]
    args = {"project": cloud.project, "api_endpoint": cloud.url, "slices": [SOLO]}
    found = module("fleet_doctor", {**args, "allocations": [V4], "buckets": buckets})
    rows = [row for row in found["findings"] if row["check"] == "buckets"]
    assert [(row["subject"], row["status"], row["case"]) for row in rows] == [
        ("plain", "warn", "soft_delete"),
        ("plain", "warn", "no_abort"),
        ("right", "ok", "ok"),
    ]
    assert "which is $" in rows[0]["says"]
    assert "update gs://plain --soft-delete-duration=0" in rows[0]["remedy"]


def test_who_lacks_access_to_the_queue_is_a_finding(cloud: Emulator, module: Module) -> None:
    args = {"project": cloud.project, "api_endpoint": cloud.url}
    made = {**args, "name": "queue", "location": "us-central2", "state": "used"}
    module("bucket", made)
    access = {"accounts": ["default"], "writers": ["user:alice@lab.example"], "readers": []}
    asked = {"name": "queue", "zones": ["us-central2-b"], "access": access}

    def findings() -> list[str]:
        found = module("fleet_doctor", {**args, "slices": [SOLO], "buckets": [asked]})
        rows = [row for row in found["findings"] if row["check"] == "buckets"]
        return [f"{row['case']}: {row['says']}. {row['remedy']}" for row in rows]

    assert findings() == [
        "no_access: fleet_queue.bucket = queue: its policy does not give "
        f"roles/storage.legacyBucketReader, roles/storage.objectUser to {who}. "
        "Run as an administrator of the bucket: tpu-fleet project setup --only buckets"
        for who in ("the project's default account", "user:alice@lab.example")
    ]
    module("bucket", {**made, "accounts": access["accounts"], "writers": access["writers"]})
    assert [one.partition(":")[0] for one in findings()] == ["ok"]
