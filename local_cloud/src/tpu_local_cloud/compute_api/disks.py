"""Disks: those that clients make, and those that instances boot from."""

from __future__ import annotations

from typing import Any

from ..compute_errors import ComputeError, already_exists, in_use, invalid, not_found, stale
from ..google import operations
from ..google.answers import Call, fingerprint
from ..model.cloud import Cloud
from ..model.compute import boot_disks
from ..model.shared.attachments import users_of
from ..model.shared.records import NodeRecord
from . import catalog, instance_request, lists, values
from .methods import methods
from .times import of_stamp

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
_STAMPS = ("creationTimestamp", "lastAttachTimestamp", "lastDetachTimestamp")
_SETTABLE = ("name", "description", "sizeGb", "type", "labels", "sourceSnapshot", "sourceImage")


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a disk."""
    zone, wanted = catalog.zone_of(cloud, call), call.json()
    name = instance_request.check_name(wanted.get("name"))
    refuse_if_exists(cloud, zone, name)
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
        "labels": values.check_labels(wanted.get("labels") or {}),
    }
    cloud.around.disks.put(f"{zone}/{name}", disk)
    return operations.begin(cloud, "insert", f"zones/{zone}/disks/{name}", f"zones/{zone}")


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one disk."""
    disk = _disk(cloud, call)
    return show(cloud, disk, _users(cloud, disk["zone"], disk["name"]))


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the disks of a zone."""
    zone = catalog.zone_of(cloud, call)
    found = [show(cloud, *each) for each in _all(cloud) if each[0]["zone"] == zone]
    return lists.of_zone(cloud, call, "disks", found)


def aggregated(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the disks of all zones, by zone."""
    found = [(f"zones/{each[0]['zone']}", show(cloud, *each)) for each in _all(cloud)]
    return lists.aggregated(cloud, call, "disks", found)


def _all(cloud: Cloud) -> list[tuple[dict[str, Any], list[str]]]:
    """Return the disks that clients made, and those that instances boot from, with their users."""
    found = [
        (boot_disks.document(cloud, *at), [_link(cloud, *at)]) for at in boot_disks.made(cloud)
    ]
    found += [(each, users_of(cloud, each["zone"], each["name"])) for each in cloud.around.disks]
    return sorted(found, key=lambda each: (each[0]["zone"], each[0]["name"]))


def exists(cloud: Cloud, zone: str, name: str) -> bool:
    """Return whether a disk has this name."""
    known = f"{zone}/{name}" in cloud.around.disks
    return known or boot_disks.find(cloud, zone, name) is not None


def refuse_if_exists(cloud: Cloud, zone: str, name: str) -> None:
    """Raise if a disk has this name."""
    if exists(cloud, zone, name):
        raise already_exists(_resource(cloud, zone, name))


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete an unused disk."""
    disk = _disk(cloud, call)
    zone, name = disk["zone"], disk["name"]
    users = _users(cloud, zone, name)
    if users:
        user = users[0].partition("/compute/v1/")[2]
        raise in_use("disk", _resource(cloud, zone, name), user)
    cloud.around.disks.drop(f"{zone}/{name}")
    cloud.backend.delete_disk(zone, name)
    return operations.begin(cloud, "delete", f"zones/{zone}/disks/{name}", f"zones/{zone}")


def resize(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Enlarge a disk."""
    disk = _disk(cloud, call)
    least = TYPES.get(disk["type"], min(TYPES.values()))
    size = _size(call.json().get("sizeGb"), least, disk["type"])
    if size <= int(disk["sizeGb"]):
        why = f"New disk size '{size}' GB must be larger than existing size '{disk['sizeGb']}' GB."
        raise ComputeError(400, "invalid", f"Invalid value for field 'sizeGb': '{size}'. {why}")
    _change(cloud, disk, sizeGb=str(size))
    return _changed(cloud, "resize", disk)


def set_labels(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Replace the labels, if the fingerprint matches the current ones."""
    disk, wanted = _disk(cloud, call), call.json()
    if wanted.get("labelFingerprint") != fingerprint(disk["labels"]):
        raise stale("Labels")
    _change(cloud, disk, labels=values.check_labels(wanted.get("labels") or {}, "labels"))
    return _changed(cloud, "setLabels", disk)


def types(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the types of disks of a zone."""
    zone = catalog.zone_of(cloud, call)
    found = [_type(cloud, zone, name) for name in sorted(TYPES)]
    return lists.of_zone(cloud, call, "diskTypes", found)


def one_type(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one type of disks."""
    zone = catalog.zone_of(cloud, call)
    if call["id"] not in TYPES:
        raise not_found(f"projects/{cloud.project}/zones/{zone}/diskTypes/{call['id']}")
    return _type(cloud, zone, call["id"])


def show(cloud: Cloud, disk: dict[str, Any], users: list[str]) -> dict[str, Any]:
    """Return a disk, which instances use, as the API shows it."""
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
        "users": users,
        **_of_image(str(disk.get("sourceImage") or "")),
    }
    for stamp in _STAMPS:
        if disk.get(stamp):
            shown[stamp] = of_stamp(disk[stamp])
    return {key: value for key, value in shown.items() if value not in ([], {})}


def _type(cloud: Cloud, zone: str, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#diskType",
        "name": name,
        "zone": operations.link(cloud, f"zones/{zone}"),
        "validDiskSize": f"{TYPES[name]}GB-{LARGEST_GB}GB",
        "selfLink": operations.link(cloud, f"zones/{zone}/diskTypes/{name}"),
    }


def _of_image(link: str) -> dict[str, Any]:
    """Return what a disk has from its image."""
    found = catalog.image(link)
    if found is None:
        return {}
    had = ("architecture", "guestOsFeatures")
    same = {key: found[key] for key in had}
    return {**same, "sourceImage": found["selfLink"], "sourceImageId": found["id"]}


def _users(cloud: Cloud, zone: str, name: str) -> list[str]:
    """Return the links of the instances that use a disk."""
    booted = boot_disks.find(cloud, zone, name)
    if booted is None:
        return users_of(cloud, zone, name)
    return [_link(cloud, *booted)]


def _link(cloud: Cloud, node: NodeRecord, worker: int) -> str:
    name = node.machines[worker]["name"]
    return operations.link(cloud, f"zones/{node.zone}/instances/{name}")


def _disk(cloud: Cloud, call: Call) -> dict[str, Any]:
    zone, name = catalog.zone_of(cloud, call), call["id"]
    disk = cloud.around.disks.get(f"{zone}/{name}")
    if disk is not None:
        return disk
    booted = boot_disks.find(cloud, zone, name)
    if booted is None:
        raise not_found(_resource(cloud, zone, name))
    return boot_disks.document(cloud, *booted)


def _change(cloud: Cloud, disk: dict[str, Any], **fields: Any) -> None:
    """Change fields of a disk; machines see another size only of data disks."""
    zone, name = disk["zone"], disk["name"]
    booted = boot_disks.find(cloud, zone, name)
    if booted is not None:
        boot_disks.change(cloud, *booted, **fields)
        return
    cloud.around.disks.put(f"{zone}/{name}", {**disk, **fields})
    if "sizeGb" in fields:
        cloud.backend.grow_disk(zone, name, int(fields["sizeGb"]))


def _changed(cloud: Cloud, kind: str, disk: dict[str, Any]) -> dict[str, Any]:
    scope = f"zones/{disk['zone']}"
    return operations.begin(cloud, kind, f"{scope}/disks/{disk['name']}", scope)


def _resource(cloud: Cloud, zone: str, name: str) -> str:
    return f"projects/{cloud.project}/zones/{zone}/disks/{name}"


def _size(value: Any, least: int, kind: str) -> int:
    if not str(value).isdigit():
        raise invalid("sizeGb", value, "Must be a number.")
    if not least <= int(value) <= LARGEST_GB:
        why = f"Disk size for {kind} must be between {least} GB and {LARGEST_GB} GB."
        raise invalid("sizeGb", value, why)
    return int(value)


METHODS = methods(
    {
        "disks.aggregatedList": aggregated,
        "disks.list": listed,
        "disks.insert": insert,
        "disks.get": get,
        "disks.delete": delete,
        "disks.resize": resize,
        "disks.setLabels": set_labels,
        "diskTypes.list": types,
        "diskTypes.get": one_type,
    }
)
