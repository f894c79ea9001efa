"""Compute's disks, as far as TPU nodes use them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from ..compute_errors import ComputeError, already_exists, in_use, invalid, not_found, stale
from ..model import catalog
from ..model.attachments import users_of
from ..model.cloud import Cloud
from . import operations
from .answers import Call

TYPES = {
    "pd-standard": 10,
    "pd-balanced": 10,
    "pd-ssd": 10,
    "hyperdisk-balanced": 4,
    "hyperdisk-ml": 4,
    "hyperdisk-throughput": 2048,
    "hyperdisk-extreme": 64,
}
LARGEST_GB = 65536
NAME = re.compile(r"(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)")
_LABEL = re.compile(r"[a-z][-_a-z0-9]{0,62}=[-_a-z0-9]{0,63}")
_SETTABLE = ("name", "description", "sizeGb", "type", "labels", "sourceSnapshot", "sourceImage")


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a disk."""
    zone, wanted = _zone(call["zone"]), call.json()
    name = str(wanted.get("name") or "")
    if not NAME.fullmatch(name):
        raise invalid("name", name, f"Must be a match of regex '{NAME.pattern}'")
    if f"{zone}/{name}" in cloud.around.disks:
        raise already_exists(_resource(cloud, zone, name))
    kind = str(wanted.get("type") or "pd-standard").rpartition("/")[2]
    if kind not in TYPES:
        why = "The referenced disk type cannot be found."
        raise invalid("type", wanted.get("type"), why)
    size = _size(wanted.get("sizeGb") or 500, TYPES[kind], kind)
    disk = {key: wanted[key] for key in _SETTABLE if wanted.get(key)}
    disk |= {
        "id": operations.number(),
        "creationTimestamp": cloud.clock.timestamp(),
        "zone": zone,
        "type": kind,
        "sizeGb": str(size),
        "labels": _labels(wanted.get("labels") or {}),
    }
    cloud.around.disks.put(f"{zone}/{name}", disk)
    return operations.begin(cloud, "insert", f"zones/{zone}/disks/{name}", f"zones/{zone}")


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one disk."""
    return show(cloud, _disk(cloud, call))


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the disks of a zone."""
    zone = _zone(call["zone"])
    found = [disk for disk in cloud.around.disks if disk["zone"] == zone]
    page = call.page(_named(call, found), "items", lambda disk: show(cloud, disk))
    return {"kind": "compute#diskList", **page}


def aggregated(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the disks of all zones, by zone."""
    items: dict[str, Any] = {}
    for zone in catalog.ALL_ZONES:
        found = [disk for disk in _named(call, cloud.around.disks) if disk["zone"] == zone]
        if found:
            items[f"zones/{zone}"] = {"disks": [show(cloud, disk) for disk in found]}
    return {"kind": "compute#diskAggregatedList", "items": items}


def _named(call: Call, disks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    # gcloud finds a disk's zone by its name; clients apply other filters themselves.
    match = re.search(r"\(?name eq \"?(?P<pattern>[^\")]+)\"?\)?", call.query.get("filter", ""))
    pattern = match["pattern"] if match else ".*"
    return [disk for disk in disks if re.fullmatch(pattern, disk["name"])]


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete an unused disk."""
    disk = _disk(cloud, call)
    zone, name = disk["zone"], disk["name"]
    users = users_of(cloud, zone, name)
    if users:
        user = users[0].partition("/compute/v1/")[2]
        raise in_use("disk", _resource(cloud, zone, name), user)
    cloud.around.disks.drop(f"{zone}/{name}")
    cloud.backend.delete_disk(zone, name)
    return operations.begin(cloud, "delete", f"zones/{zone}/disks/{name}", f"zones/{zone}")


def resize(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Enlarge a disk."""
    disk = _disk(cloud, call)
    size = _size(call.json().get("sizeGb"), TYPES[disk["type"]], disk["type"])
    if size <= int(disk["sizeGb"]):
        why = f"New disk size '{size}' GB must be larger than existing size '{disk['sizeGb']}' GB."
        raise ComputeError(400, "invalid", f"Invalid value for field 'sizeGb': '{size}'. {why}")
    _put(cloud, {**disk, "sizeGb": str(size)})
    cloud.backend.grow_disk(disk["zone"], disk["name"], size)
    return _changed(cloud, "resize", disk)


def set_labels(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Replace the labels, if the fingerprint matches the current ones."""
    disk, wanted = _disk(cloud, call), call.json()
    if wanted.get("labelFingerprint") != fingerprint(disk["labels"]):
        raise stale("Labels")
    _put(cloud, {**disk, "labels": _labels(wanted.get("labels") or {})})
    return _changed(cloud, "setLabels", disk)


def types(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the types of disks of a zone."""
    zone = _zone(call["zone"])
    found = [_type(cloud, zone, name) for name in sorted(TYPES)]
    return {"kind": "compute#diskTypeList", **call.page(found, "items")}


def one_type(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one type of disks."""
    zone = _zone(call["zone"])
    if call["id"] not in TYPES:
        raise not_found(f"projects/{cloud.project}/zones/{zone}/diskTypes/{call['id']}")
    return _type(cloud, zone, call["id"])


def show(cloud: Cloud, disk: dict[str, Any]) -> dict[str, Any]:
    """Return a disk as the API shows it."""
    zone, name = disk["zone"], disk["name"]
    shown = {
        "kind": "compute#disk",
        **disk,
        "status": "READY",
        "zone": operations.link(cloud, f"zones/{zone}"),
        "selfLink": operations.link(cloud, f"zones/{zone}/disks/{name}"),
        "type": operations.link(cloud, f"zones/{zone}/diskTypes/{disk['type']}"),
        "labelFingerprint": fingerprint(disk["labels"]),
        "physicalBlockSizeBytes": "4096",
        "users": users_of(cloud, zone, name),
    }
    return {key: value for key, value in shown.items() if value not in ([], {})}


def fingerprint(data: Any) -> str:
    """Return a fingerprint of data, in the base64 that gcloud sends back."""
    text = json.dumps(data, sort_keys=True).encode()
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()[:8]).decode()


def _type(cloud: Cloud, zone: str, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#diskType",
        "name": name,
        "zone": operations.link(cloud, f"zones/{zone}"),
        "validDiskSize": f"{TYPES[name]}GB-{LARGEST_GB}GB",
        "selfLink": operations.link(cloud, f"zones/{zone}/diskTypes/{name}"),
    }


def _disk(cloud: Cloud, call: Call) -> dict[str, Any]:
    zone, name = _zone(call["zone"]), call["id"]
    disk = cloud.around.disks.get(f"{zone}/{name}")
    if disk is None:
        raise not_found(_resource(cloud, zone, name))
    return disk


def _put(cloud: Cloud, disk: dict[str, Any]) -> None:
    cloud.around.disks.put(f"{disk['zone']}/{disk['name']}", disk)


def _changed(cloud: Cloud, kind: str, disk: dict[str, Any]) -> dict[str, Any]:
    scope = f"zones/{disk['zone']}"
    return operations.begin(cloud, kind, f"{scope}/disks/{disk['name']}", scope)


def _resource(cloud: Cloud, zone: str, name: str) -> str:
    return f"projects/{cloud.project}/zones/{zone}/disks/{name}"


def _zone(zone: str) -> str:
    if zone not in catalog.ALL_ZONES:
        raise ComputeError(
            400, "invalid", f"Invalid value for field 'zone': '{zone}'. Unknown zone."
        )
    return zone


def _size(value: Any, least: int, kind: str) -> int:
    if not str(value).isdigit():
        raise invalid("sizeGb", value, "Must be a number.")
    if not least <= int(value) <= LARGEST_GB:
        why = f"Disk size for {kind} must be between {least} GB and {LARGEST_GB} GB."
        raise invalid("sizeGb", value, why)
    return int(value)


def _labels(labels: dict[str, Any]) -> dict[str, str]:
    for key, value in labels.items():
        if not isinstance(value, str) or not _LABEL.fullmatch(f"{key}={value}"):
            why = "Labels are lower case letters, digits, dashes and underscores, 63 at most."
            raise invalid("labels", f"{key}={value}", why)
    return dict(labels)
