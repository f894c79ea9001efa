"""Objects of Cloud Storage: uploads, downloads and lists of the JSON API, with preconditions.

Uploads are simple or multipart ones; resumable ones are refused.
"""

from __future__ import annotations

import base64
import hashlib
import re
from email import message_from_bytes
from typing import Any

from .. import payload
from ..compute_errors import ComputeError
from ..errors import ApiError
from ..model.cloud import Cloud
from .answers import Call, Media
from .policies import granted
from .storage import get as bucket_of

_READERS = {
    "roles/editor",
    "roles/owner",
    "roles/storage.admin",
    "roles/storage.objectAdmin",
    "roles/storage.objectUser",
    "roles/storage.objectViewer",
}
_DEFAULT_KIND = "application/octet-stream"
_AUTH = "https://www.googleapis.com/auth/"
_SCOPES = {
    f"{_AUTH}{name}"
    for name in (
        "cloud-platform",
        "cloud-platform.read-only",
        "devstorage.full_control",
        "devstorage.read_only",
        "devstorage.read_write",
    )
}


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Store an object, completely or not at all."""
    bucket = bucket_of(cloud, call)["name"]
    about, content = _uploaded(call)
    name = call.query.get("name") or str(about.get("name") or "")
    if not name or len(name.encode()) > 1024 or "\n" in name or "\r" in name:
        raise ComputeError(400, "required", "Required")
    key = f"{bucket}/{name}"
    before = cloud.around.objects.get(key)
    _check_generation(call, before)
    now = cloud.clock.timestamp()[:23] + "Z"
    generation = str(
        max(int(cloud.clock.now() * 1e6), int((before or {}).get("generation", 0)) + 1)
    )
    kind = str(about.get("contentType") or call.query.get("contentType") or _DEFAULT_KIND)
    document = {
        "kind": "storage#object",
        "id": f"{key}/{generation}",
        "name": name,
        "bucket": bucket,
        "generation": generation,
        "metageneration": "1",
        "contentType": kind,
        "storageClass": "STANDARD",
        "size": str(len(content)),
        "md5Hash": base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode(),
        "etag": base64.b64encode(generation.encode()).decode(),
        "timeCreated": now,
        "updated": now,
        **({"metadata": about["metadata"]} if about.get("metadata") else {}),
    }
    kept = base64.b64encode(content).decode()
    cloud.around.objects.put(key, {"object": document, "generation": generation, "content": kept})
    return document


def _uploaded(call: Call) -> tuple[dict[str, Any], bytes]:
    """Return the metadata and the content of an uploaded object."""
    way = call.query.get("uploadType", "")
    if way == "media":
        return {"contentType": call.kind}, call.raw
    if way != "multipart":
        text = f'Value "{way}" for uploadType is not one that the local cloud takes.'
        raise ComputeError(400, "invalidParameter", text)
    # gcloud puts the boundary between quotes of another kind.
    kind = re.sub("boundary='([^']*)'", r'boundary="\1"', call.kind)
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    parts: Any = message_from_bytes(head + call.raw).get_payload()
    if not isinstance(parts, list) or len(parts) != 2:
        raise ComputeError(400, "badRequest", "Multipart must have exactly two parts.")
    try:
        said: dict[str, Any] = payload.read(parts[0].get_payload(decode=True))
    except ApiError:
        raise ComputeError(400, "parseError", "Parse Error") from None
    said.setdefault("contentType", parts[1].get_content_type())
    return said, parts[1].get_payload(decode=True)


def _check_generation(call: Call, before: dict[str, Any] | None) -> None:
    wanted = call.query.get("ifGenerationMatch")
    if wanted is not None and wanted != (before["generation"] if before else "0"):
        text = "At least one of the pre-conditions you specified did not hold."
        raise ComputeError(412, "conditionNotMet", text, "FAILED_PRECONDITION")


def get(cloud: Cloud, call: Call) -> dict[str, Any] | Media:
    """Return an object's metadata, or with alt=media its content."""
    found = _object(cloud, call)
    if call.query.get("alt") != "media":
        return dict(found["object"])
    return Media(base64.b64decode(found["content"]), found["object"]["contentType"])


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete an object."""
    _check_generation(call, _object(cloud, call))
    cloud.around.objects.drop(f"{call['id']}/{call['object']}")
    return {}


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the objects whose names begin with a prefix; with a delimiter, folders separately."""
    bucket = bucket_of(cloud, call)["name"]
    begin, delimiter = call.query.get("prefix", ""), call.query.get("delimiter", "")
    found, folders = [], {}
    for document in cloud.around.objects:
        one = document["object"]
        if one["bucket"] != bucket or not one["name"].startswith(begin):
            continue
        head, cut, _rest = one["name"][len(begin) :].partition(delimiter or "\0")
        if delimiter and cut:
            folders[f"{begin}{head}{cut}"] = True
        else:
            found.append(one)
    page = call.page(found, "items")
    return {"kind": "storage#objects", **page, **({"prefixes": list(folders)} if folders else {})}


def admit_machine(cloud: Cloud, call: Call, email: str, scopes: list[str]) -> None:
    """Raise if a machine's service account may not read an object."""
    if not _SCOPES & set(scopes):
        text = "Request had insufficient authentication scopes."
        raise ComputeError(403, "insufficientPermissions", text, "PERMISSION_DENIED")
    member = f"serviceAccount:{email}"
    roles = granted(cloud, "project", member) | granted(cloud, f"buckets/{call['id']}", member)
    if not roles & _READERS:
        text = (
            f"{email} does not have storage.objects.get access to the Google Cloud Storage object. "
            "Permission 'storage.objects.get' denied on resource (or it may not exist)."
        )
        raise ComputeError(403, "forbidden", text, "PERMISSION_DENIED")


def _object(cloud: Cloud, call: Call) -> dict[str, Any]:
    bucket = bucket_of(cloud, call)["name"]
    found = cloud.around.objects.get(f"{bucket}/{call['object']}")
    if found is None:
        text = f"No such object: {bucket}/{call['object']}"
        raise ComputeError(404, "notFound", text, "NOT_FOUND")
    return found
