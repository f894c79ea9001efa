"""The buckets of Cloud Storage."""

from __future__ import annotations

import re
from typing import Any

from ..compute_errors import ComputeError
from ..model.cloud import Cloud
from .answers import Call


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a bucket."""
    wanted = call.json()
    name = str(wanted.get("name", ""))
    if not re.fullmatch(r"[a-z0-9][-_.a-z0-9]{1,61}[a-z0-9]", name):
        raise ComputeError(400, "invalid", f"Invalid bucket name: '{name}'")
    if name in cloud.around.buckets:
        text = "Your previous request to create the named bucket succeeded and you already own it."
        raise ComputeError(409, "conflict", text, "ALREADY_EXISTS")
    bucket = {
        "kind": "storage#bucket",
        "id": name,
        "name": name,
        "projectNumber": cloud.number,
        "location": str(wanted.get("location") or "US").upper(),
        "storageClass": wanted.get("storageClass") or "STANDARD",
        # Three digits, because gcloud warns about more.
        "timeCreated": cloud.clock.timestamp()[:23] + "Z",
        "updated": cloud.clock.timestamp()[:23] + "Z",
        "metageneration": "1",
        "etag": "CAE=",
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
    }
    cloud.around.buckets.put(name, bucket)
    return bucket


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one bucket."""
    bucket = cloud.around.buckets.get(call["id"])
    if bucket is None:
        raise ComputeError(404, "notFound", "The specified bucket does not exist.", "NOT_FOUND")
    return bucket


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the buckets."""
    return {"kind": "storage#buckets", **call.page(list(cloud.around.buckets), "items")}


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete a bucket."""
    bucket = get(cloud, call)
    if any(known["object"]["bucket"] == bucket["name"] for known in cloud.around.objects):
        text = "The bucket you tried to delete is not empty."
        raise ComputeError(409, "conflict", text, "FAILED_PRECONDITION")
    cloud.around.buckets.drop(bucket["name"])
    cloud.around.policies.drop(f"buckets/{bucket['name']}")
    return {}
