"""What a bucket for checkpoints has, and what an existing one lacks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import BadRequest
from ansible_collections.tpu.fleet.plugins.module_utils._google.bucket_plan import (
    BucketSpec,
    access_given,
    access_of,
    changes,
    lacking,
    members_of,
    remarks,
    summary,
    wanted_summary,
    with_access,
)
from ansible_collections.tpu.fleet.plugins.module_utils._google.bucket_settings import (
    DAY,
    misfits,
    wanted,
)

SPEC = BucketSpec("lab-checkpoints", "us-central2", accounts=("default", "a@lab.example"))
RULE = {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 7}}
OLD = {"action": {"type": "Delete"}, "condition": {"age": 30}}
# As Google makes one when nothing is said.
PLAIN: dict[str, Any] = {
    "storageClass": "STANDARD",
    "iamConfiguration": {
        "uniformBucketLevelAccess": {"enabled": False},
        "publicAccessPrevention": "inherited",
    },
    "softDeletePolicy": {"retentionDurationSeconds": str(7 * DAY)},
}


def made(spec: BucketSpec) -> dict[str, Any]:
    """Return the bucket that Google makes of the request."""
    return {**PLAIN, **spec.body()}


def test_a_new_bucket_says_all_that_google_would_decide_otherwise() -> None:
    body = BucketSpec("lab-checkpoints", "us-central2", soft_delete=7 * DAY).body()
    assert body == {
        **wanted(),
        "name": "lab-checkpoints",
        "location": "US-CENTRAL2",
        "softDeletePolicy": {"retentionDurationSeconds": "604800"},
        "labels": {"tpu-fleet": "managed"},
    }
    assert list(misfits(SPEC.body())) == []


def test_what_is_corrected_is_what_the_doctor_would_find() -> None:
    for key in ("softDeletePolicy", "versioning", "storageClass", "lifecycle"):
        odd = {"versioning": {"enabled": True}, "storageClass": "NEARLINE", "lifecycle": {}}
        bucket = {**made(SPEC), key: odd.get(key, PLAIN.get(key))}
        assert list(misfits(bucket)), key
        assert list(misfits({**bucket, **changes(SPEC, bucket)})) == [], key


@pytest.mark.parametrize("days", [0, 7, 30])
def test_a_bucket_that_was_made_needs_no_change(days: int) -> None:
    spec = BucketSpec("lab-checkpoints", "us-central2", soft_delete=days * DAY, owner="vision")
    bucket = made(spec)
    assert changes(spec, bucket) == {}
    assert summary(bucket) == wanted_summary(spec, bucket)


@pytest.mark.parametrize(
    ("setting", "value", "body"),
    [
        ("storageClass", "NEARLINE", {"storageClass": "STANDARD"}),
        ("versioning", {"enabled": True}, {"versioning": {"enabled": False}}),
        ("softDeletePolicy", {"retentionDurationSeconds": "604800"},
         {"softDeletePolicy": {"retentionDurationSeconds": "0"}}),
        ("lifecycle", {"rule": [OLD]}, {"lifecycle": {"rule": [OLD, RULE]}}),
        ("lifecycle", {"rule": [{**RULE, "condition": {"age": 1}}]}, {}),
        ("lifecycle", {"rule": [{**RULE, "condition": {"age": 1, "matchesPrefix": ["a"]}}]},
         {"lifecycle": {"rule": [{**RULE, "condition": {"age": 1, "matchesPrefix": ["a"]}},
                                 RULE]}}),
        ("iamConfiguration", PLAIN["iamConfiguration"],
         {"iamConfiguration": wanted()["iamConfiguration"]}),
        ("labels", {"team": "x"}, {"labels": {"tpu-fleet": "managed"}}),
        ("labels", {"tpu-fleet": "vision"}, {}),
    ],
)  # fmt: skip
def test_a_setting_that_differs_is_one_field_of_a_patch(
    setting: str, value: Any, body: dict[str, Any]
) -> None:
    assert changes(SPEC, {**made(SPEC), setting: value}) == body


def test_a_retention_policy_is_named() -> None:
    (said,) = remarks({"retentionPolicy": {"retentionPeriod": str(30 * DAY)}})
    assert "30d" in said
    assert remarks(made(SPEC)) == []


def test_each_account_gets_its_roles_and_nobody_loses_any() -> None:
    members = members_of(SPEC, "42")
    assert members == {
        "default": "serviceAccount:42-compute@developer.gserviceaccount.com",
        "a@lab.example": "serviceAccount:a@lab.example",
    }
    before = {
        "etag": "x",
        "bindings": [
            {"role": "roles/storage.objectUser", "members": ["user:b@lab.example"]},
            {"role": "roles/storage.admin", "members": [members["default"]]},
        ],
    }
    after = with_access(before, SPEC, members)
    assert after is not None
    assert after["etag"] == "x"
    assert access_of(after, members) == access_given(access_of(before, members), SPEC)
    assert access_of(after, members)["default"] == [
        "roles/storage.admin", "roles/storage.legacyBucketReader", "roles/storage.objectUser",
    ]  # fmt: skip
    assert "user:b@lab.example" in after["bindings"][0]["members"]
    assert with_access(after, SPEC, members) is None


def test_people_get_what_they_need_and_no_more() -> None:
    alice, bob = "user:alice@lab.example", "group:lab@lab.example"
    spec = BucketSpec("lab", "us-central2", writers=(alice,), readers=(bob, alice))
    members = members_of(spec, "42")
    policy = with_access({"etag": "x"}, spec, members)
    assert policy is not None
    assert access_of(policy, members) == {
        alice: ["roles/storage.legacyBucketReader", "roles/storage.objectUser"],
        bob: ["roles/storage.legacyBucketReader", "roles/storage.objectViewer"],
    }
    assert lacking(policy, spec, "42") == {}
    assert lacking({}, spec, "42") == access_of(policy, members)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (BucketSpec("gs://lab", "us-central2"), "name = 'gs://lab'"),
        (BucketSpec("lab", "us central2"), "location = 'us central2'"),
        (BucketSpec("lab", "us-central2", soft_delete=DAY), "soft_delete_duration = 1d"),
        (BucketSpec("lab", "us-central2", soft_delete=91 * DAY), "soft_delete_duration = 91d"),
        (BucketSpec("lab", "us-central2", accounts=("alice",)), "accounts: 'alice'"),
        (BucketSpec("lab", "us-central2", writers=("alice@lab.example",)), "'alice@lab.example'"),
        (BucketSpec("lab", "us-central2", readers=("allUsers",)), "'allUsers' is not what gets"),
        (BucketSpec("lab", "us-central2", owner="A b"), "The owner 'A b'"),
    ],
)
def test_what_no_bucket_can_have_is_refused(spec: BucketSpec, words: str) -> None:
    with pytest.raises(BadRequest) as raised:
        spec.check()
    assert words in str(raised.value)
    assert raised.value.remedy


@pytest.mark.parametrize("location", ["us-central2", "US-CENTRAL2", "europe-west4", "us", "NAM4"])
def test_locations(location: str) -> None:
    BucketSpec("lab", location).check()
