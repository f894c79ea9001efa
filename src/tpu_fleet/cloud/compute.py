"""As much of the Compute API as `gcloud compute tpus tpu-vm ssh` needs: the project's metadata."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from typing import Any

from . import errors
from .clock import timestamp
from .model import Cloud

_PATH = re.compile(r"/compute/(?:v1|beta|alpha)/projects/(?P<project>[^/]+)(?P<tail>/.*)?")


def answer(cloud: Cloud, method: str, path: str, body: bytes) -> dict[str, Any]:
    """Return the JSON answer to a request, or raise ApiError."""
    match = _PATH.fullmatch(path)
    if not match:
        raise errors.no_such_method(path)
    project, tail = match["project"], match["tail"] or ""
    if project not in (cloud.project, cloud.number):
        raise errors.iam_denied("compute.projects.get", f"projects/{project}")
    if method == "GET" and not tail:
        return _project(cloud)
    if method == "POST" and tail == "/setCommonInstanceMetadata":
        return _set_metadata(cloud, body)
    if method == "GET" and (found := re.fullmatch(r"/global/operations/([^/]+)", tail)):
        return _done(cloud, found[1])
    raise errors.no_such_method(path)


def _fingerprint(cloud: Cloud) -> str:
    # gcloud decodes it, so it has to be real base64.
    text = json.dumps(cloud.project_metadata, sort_keys=True).encode()
    return base64.b64encode(hashlib.sha256(text).digest()[:8]).decode()


def _project(cloud: Cloud) -> dict[str, Any]:
    items = [{"key": k, "value": v} for k, v in sorted(cloud.project_metadata.items())]
    metadata: dict[str, Any] = {
        "kind": "compute#metadata",
        "fingerprint": _fingerprint(cloud),
    }
    if items:
        metadata["items"] = items
    return {
        "kind": "compute#project",
        "id": cloud.number,
        "name": cloud.project,
        "commonInstanceMetadata": metadata,
    }


def _set_metadata(cloud: Cloud, body: bytes) -> dict[str, Any]:
    try:
        wanted = json.loads(body or b"{}")
        items = {item["key"]: item.get("value", "") for item in wanted.get("items", [])}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise errors.invalid_json() from None
    if wanted.get("fingerprint", _fingerprint(cloud)) != _fingerprint(cloud):
        raise errors.ApiError(
            "FAILED_PRECONDITION",
            "Supplied fingerprint does not match current metadata fingerprint.",
        )
    cloud.set_project_metadata(items)
    return _done(cloud, f"operation-{secrets.token_hex(8)}")


def _done(cloud: Cloud, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#operation",
        "name": name,
        "operationType": "setMetadata",
        "status": "DONE",
        "progress": 100,
        "insertTime": timestamp(),
        "targetLink": f"https://compute.googleapis.com/compute/v1/projects/{cloud.project}",
    }
