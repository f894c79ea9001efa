"""Roles of Google's, as its page of roles has them."""

from __future__ import annotations

import pytest

from tpu_local_cloud.storage_api.access import ROLES


@pytest.mark.parametrize(
    ("role", "has", "lacks"),
    [
        ("objectViewer", "objects.get objects.list", "objects.create buckets.get"),
        ("objectCreator", "objects.create multipartUploads.create", "objects.get objects.delete"),
        ("objectUser", "objects.create objects.delete objects.update", "buckets.get"),
        ("objectAdmin", "objects.setIamPolicy objects.delete", "buckets.get buckets.update"),
        ("bucketViewer", "buckets.get buckets.list", "objects.list"),
        ("legacyBucketReader", "buckets.get objects.list", "objects.get"),
        ("legacyBucketWriter", "objects.create objects.delete buckets.get", "objects.get"),
        ("admin", "buckets.get buckets.delete objects.delete buckets.setIamPolicy", ""),
    ],
)
def test_roles(role: str, has: str, lacks: str) -> None:
    permissions = ROLES[f"roles/storage.{role}"]
    assert {f"storage.{word}" for word in has.split()} <= permissions
    assert not {f"storage.{word}" for word in lacks.split()} & permissions
