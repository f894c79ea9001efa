"""Compute Engine's view of the project: its metadata."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..compute_errors import stale
from ..google import operations
from ..google.answers import Call, fingerprint
from ..model.cloud import Cloud
from .methods import methods


def get(cloud: Cloud, _call: Call) -> dict[str, Any]:
    """Return the project with its metadata."""
    items = [{"key": k, "value": v} for k, v in sorted(cloud.project_metadata.items())]
    metadata: dict[str, Any] = {
        "kind": "compute#metadata",
        "fingerprint": fingerprint(cloud.project_metadata),
    }
    if items:
        metadata["items"] = items
    return {
        "kind": "compute#project",
        "id": cloud.number,
        "name": cloud.project,
        "commonInstanceMetadata": metadata,
        "defaultServiceAccount": f"{cloud.number}-compute@developer.gserviceaccount.com",
        "selfLink": f"{operations.LINKS}/projects/{cloud.project}",
    }


def set_metadata(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Replace the metadata, if the fingerprint matches the current one."""
    wanted = call.json()
    try:
        items = {str(item["key"]): str(item.get("value", "")) for item in wanted.get("items", [])}
    except (KeyError, TypeError, AttributeError):
        raise errors.invalid_json() from None
    now = fingerprint(cloud.project_metadata)
    if wanted.get("fingerprint", now) != now:
        raise stale("metadata")
    cloud.set_project_metadata(items)
    return operations.begin(cloud, "compute.projects.setCommonInstanceMetadata", "")


METHODS = methods(
    {
        "projects.get": get,
        "projects.setCommonInstanceMetadata": set_metadata,
    }
)
