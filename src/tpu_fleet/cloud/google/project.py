"""Compute's view of the project: its metadata, and the zones."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..compute_errors import not_found, stale
from ..model import catalog
from ..model.cloud import Cloud
from . import operations
from .answers import Call
from .disks import fingerprint


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


def zones(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the zones."""
    found = [_zone(cloud, zone) for zone in catalog.ALL_ZONES]
    return {"kind": "compute#zoneList", **call.page(found, "items")}


def zone(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one zone."""
    if call["zone"] not in catalog.ALL_ZONES:
        raise not_found(f"projects/{cloud.project}/zones/{call['zone']}")
    return _zone(cloud, call["zone"])


def _zone(cloud: Cloud, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#zone",
        "name": name,
        "status": "UP",
        "region": operations.link(cloud, f"regions/{name.rpartition('-')[0]}"),
        "selfLink": operations.link(cloud, f"zones/{name}"),
    }
