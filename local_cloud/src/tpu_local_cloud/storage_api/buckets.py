"""The buckets of the JSON API, and their policies."""

from __future__ import annotations

from typing import Any

from ..compute_errors import ComputeError
from ..google import policies
from ..model.storage.index import Document
from ..tpu_api.call import paged
from .access import permissions
from .call import Answer, Call, Reply


def shown(call: Call, document: Document) -> dict[str, Any]:
    """Return a bucket as the JSON API shows it."""
    link = f"{call.request.root}/storage/v1/b/{document['name']}"
    return {**document, "selfLink": link}


def insert(call: Call) -> Answer:
    """Create a bucket."""
    return shown(call, call.cloud.buckets.make(call.json()))


def get(call: Call) -> Answer:
    """Return one bucket."""
    document = call.cloud.buckets.bucket(call["bucket"])
    call.conditions.check(document, reading=True)
    return shown(call, document)


def listed(call: Call) -> Answer:
    """List the buckets."""
    found = call.cloud.buckets.all()
    some = [each for each in found if each["name"].startswith(call.query.get("prefix", ""))]
    size, token = call.query.get("maxResults", ""), call.query.get("pageToken", "")
    page = paged(size, token, some, "items", lambda each: shown(call, each), of="buckets")
    return {"kind": "storage#buckets", **page}


def patch(call: Call) -> Answer:
    """Change what the body names."""
    return _altered(call, replace=False)


def update(call: Call) -> Answer:
    """Replace what may be changed."""
    return _altered(call, replace=True)


def _altered(call: Call, replace: bool) -> Answer:
    wanted, name = call.json(), call["bucket"]
    return shown(call, call.cloud.buckets.alter(name, wanted, call.conditions, replace))


def delete(call: Call) -> Answer:
    """Delete an empty bucket."""
    call.cloud.buckets.delete_bucket(call["bucket"], call.conditions)
    with call.cloud.lock:
        call.cloud.around.policies.drop(f"buckets/{call['bucket']}")
    return Reply(204)


def layout(call: Call) -> Answer:
    """Return how objects are stored: a flat namespace."""
    document = call.cloud.buckets.bucket(call["bucket"])
    return {
        "kind": "storage#storageLayout",
        "bucket": document["name"],
        "location": document["location"],
        "locationType": document["locationType"],
        "hierarchicalNamespace": {"enabled": False},
    }


def get_policy(call: Call) -> Answer:
    """Return the policy of a bucket."""
    version = call.query.get("optionsRequestedPolicyVersion") or "1"
    if version not in ("1", "2", "3"):
        text = f"Invalid value for optionsRequestedPolicyVersion: '{version}'. Send 1 or 3."
        raise ComputeError(400, "invalid", text)
    call.cloud.buckets.bucket(call["bucket"])
    with call.cloud.lock:
        policy = policies.get_bucket(call.cloud, call["bucket"], int(version))
    return _policy(call, policy)


def set_policy(call: Call) -> Answer:
    """Replace the policy of a bucket."""
    call.cloud.buckets.bucket(call["bucket"])
    wanted = call.json()
    with call.cloud.lock:
        policy = policies.set_bucket(call.cloud, call["bucket"], wanted)
    return _policy(call, policy)


def _policy(call: Call, policy: dict[str, Any]) -> dict[str, Any]:
    name = f"projects/_/buckets/{call['bucket']}"
    return {"kind": "storage#policy", "resourceId": name, **policy}


def test_permissions(call: Call) -> Answer:
    """Return which of the named permissions the caller has."""
    call.cloud.buckets.bucket(call["bucket"])
    asked = [value for name, value in call.request.pairs if name == "permissions"]
    if call.request.caller.kind != "owner":
        own = permissions(call.cloud, call.request.caller, call["bucket"])
        asked = [name for name in asked if name in own]
    return {"kind": "storage#testIamPermissionsResponse", "permissions": asked}


def service_account(call: Call) -> Answer:
    """Return the account by which Google's service itself acts for the project."""
    email = f"service-{call.cloud.number}@gs-project-accounts.iam.gserviceaccount.com"
    return {"kind": "storage#serviceAccount", "email_address": email}


def no_folders(call: Call) -> Answer:
    """List the managed folders of a bucket: it has none, as they are not to be made here."""
    call.cloud.buckets.bucket(call["bucket"])
    return {"kind": "storage#managedFolders"}
