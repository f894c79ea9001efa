"""What requests may set of buckets and objects."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.model.storage import documents

NOW = 1_800_000_000.0


def bucket(**wanted: Any) -> dict[str, Any]:
    return documents.new_bucket({"name": "lab", **wanted}, NOW, "12")


def test_a_new_bucket_is_as_google_makes_it() -> None:
    made = bucket(location="us-central1")
    assert (made["location"], made["locationType"]) == ("US-CENTRAL1", "region")
    assert made["softDeletePolicy"]["retentionDurationSeconds"] == "604800"
    assert (made["metageneration"], made["storageClass"]) == ("1", "STANDARD")
    assert bucket()["locationType"] == "multi-region"
    assert bucket(location="nam4")["locationType"] == "dual-region"


@pytest.mark.parametrize("name", ["", "a", "ab", "Lab", "-lab", "lab-", "x" * 64, "goog-x", "a..b"])
def test_names_of_buckets(name: str) -> None:
    with pytest.raises(ApiError, match="Invalid bucket name"):
        documents.new_bucket({"name": name}, NOW, "12")


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"softDeletePolicy": {"retentionDurationSeconds": 3600}}, "must be 0, or between 604800"),
        ({"softDeletePolicy": {"retentionDurationSeconds": "x"}}, "Seconds 'x'"),
        ({"storageClass": "WARM"}, "storageClass 'WARM'"),
        ({"encryption": {"defaultKmsKeyName": "k"}}, "local cloud has no encryption"),
        ({"hierarchicalNamespace": {"enabled": True}}, "has no hierarchical namespace"),
    ],
)
def test_values_that_a_bucket_cannot_have(wanted: dict[str, Any], text: str) -> None:
    with pytest.raises(ApiError, match=text):
        bucket(**wanted)


def test_a_bucket_changes_field_by_field() -> None:
    made = bucket(labels={"a": "1", "b": "2"}, versioning={"enabled": True})
    changed = documents.changed_bucket(made, {"labels": {"a": None, "c": "3"}}, NOW)
    assert (changed["labels"], changed["versioning"]) == ({"b": "2", "c": "3"}, {"enabled": True})
    assert changed["metageneration"] == "2"
    whole = documents.changed_bucket(made, {"labels": {"c": "3"}}, NOW, replace=True)
    assert whole["labels"] == {"c": "3"}
    assert "versioning" not in whole


def test_an_object_changes_field_by_field() -> None:
    about = {"contentType": "a/b", "metadata": {"x": "1", "y": "2"}}
    made = documents.new_object(bucket(), "n", 7, about, NOW)
    wanted = {"metadata": {"x": None, "z": "3"}, "contentType": None}
    changed = documents.changed_object(made, wanted, NOW + 1)
    assert changed["metadata"] == {"y": "2", "z": "3"}
    assert changed["contentType"] == "application/octet-stream"
    assert (changed["generation"], changed["metageneration"]) == ("7", "2")
    assert changed["etag"] != made["etag"]
    assert changed["updated"] > changed["timeCreated"]
    whole = documents.changed_object(made, {"metadata": {"z": "3"}}, NOW, replace=True)
    assert whole["metadata"] == {"z": "3"}


@pytest.mark.parametrize("name", ["", "a\nb", "é" * 513, ".", ".."])
def test_names_of_objects(name: str) -> None:
    with pytest.raises(ApiError):
        documents.check_object_name(name)


def test_another_content_than_announced_is_refused() -> None:
    documents.check_sums({"crc32c": "a"}, {"crc32c": "a", "md5Hash": "b"})
    with pytest.raises(ApiError, match='Provided MD5 hash "x" doesn\'t match'):
        documents.check_sums({"md5Hash": "x"}, {"crc32c": "a", "md5Hash": "b"})


def test_a_custom_time_that_is_none_is_refused() -> None:
    with pytest.raises(ApiError, match="customTime 'soon'"):
        documents.new_object(bucket(), "n", 7, {"customTime": "soon"}, NOW)
