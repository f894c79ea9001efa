"""An instance as Compute Engine shows it."""

from __future__ import annotations

from typing import Any

from ..google.answers import fingerprint
from ..google.operations import link
from ..model.cloud import Cloud
from ..model.compute import boot_disks
from ..model.compute.boot_disks import BOOT_GB
from ..model.compute.records import access, status, tags
from ..model.shared.records import NodeRecord
from ..tables._compute.machine_types import machine_type
from . import times
from .times import of_stamp


def show(cloud: Cloud, node: NodeRecord, worker: int) -> dict[str, Any]:
    """Return an instance."""
    compute, machine = node.compute, node.machines[worker]
    asked, here = compute["properties"], f"zones/{node.zone}"
    labels: dict[str, str] = machine["labels"]
    shown: dict[str, Any] = {
        "kind": "compute#instance",
        "id": machine["id"],
        "creationTimestamp": of_stamp(node.created),
        "name": machine["name"],
        "description": asked.get("description", ""),
        "tags": shown_tags(tags(node, worker)),
        "machineType": link(cloud, f"{here}/machineTypes/{compute['machineType']}"),
        "status": status(node, worker, node.state == "CREATING" and cloud.compute.staging(node)),
        "zone": link(cloud, here),
        "canIpForward": bool(asked.get("canIpForward")),
        "networkInterfaces": [_card(cloud, node, worker)],
        "disks": _disks(cloud, node, worker),
        "metadata": metadata(machine["metadata"]),
        "serviceAccounts": _accounts(node),
        "selfLink": link(cloud, f"{here}/instances/{machine['name']}"),
        "scheduling": asked["scheduling"],
        "cpuPlatform": "Unknown CPU Platform",
        "labels": labels,
        "labelFingerprint": fingerprint(labels),
        "startRestricted": False,
        "deletionProtection": bool(asked.get("deletionProtection")),
        "fingerprint": fingerprint([machine["id"], labels, machine["metadata"]]),
        "guestAccelerators": _accelerators(cloud, node),
        "resourceStatus": _resource_status(node),
        "reservationAffinity": asked.get("reservationAffinity", {}),
        "advancedMachineFeatures": asked.get("advancedMachineFeatures", {}),
        "shieldedInstanceConfig": asked.get("shieldedInstanceConfig", {}),
        "satisfiesPzi": True,
    }
    for key, field in (("started", "lastStartTimestamp"), ("stopped", "lastStopTimestamp")):
        if key in compute:
            shown[field] = times.shown(compute[key])
    return {key: value for key, value in shown.items() if value not in ("", {}, [])}


def metadata(items: dict[str, str]) -> dict[str, Any]:
    """Return metadata with its fingerprint."""
    shown: dict[str, Any] = {"kind": "compute#metadata", "fingerprint": fingerprint(items)}
    if items:
        shown["items"] = [{"key": key, "value": value} for key, value in sorted(items.items())]
    return shown


def shown_tags(items: list[str]) -> dict[str, Any]:
    """Return network tags with their fingerprint."""
    return {**({"items": items} if items else {}), "fingerprint": fingerprint(items)}


def _card(cloud: Cloud, node: NodeRecord, worker: int) -> dict[str, Any]:
    machine, region = node.machines[worker], node.zone.rpartition("-")[0]
    asked = (node.compute["properties"].get("networkInterfaces") or [{}])[0]
    network = str(asked.get("network") or "default").rpartition("/")[2]
    subnet = str(asked.get("subnetwork") or network).rpartition("/")[2]
    shown: dict[str, Any] = {
        "kind": "compute#networkInterface",
        "name": "nic0",
        "network": link(cloud, f"global/networks/{network}"),
        "subnetwork": link(cloud, f"regions/{region}/subnetworks/{subnet}"),
        "stackType": "IPV4_ONLY",
        "fingerprint": fingerprint([machine["internal_ip"], machine["external_ip"]]),
        "nicType": asked.get("nicType") or "GVNIC",
    }
    current = status(node, worker)
    if current != "PENDING":
        shown["networkIP"] = machine["internal_ip"]
    name = access(node, worker)
    if name:
        config = {
            "kind": "compute#accessConfig",
            "type": "ONE_TO_ONE_NAT",
            "name": name,
            "networkTier": "PREMIUM",
        }
        if machine["external_ip"] and current not in ("PENDING", "TERMINATED"):
            config["natIP"] = machine["external_ip"]
        shown["accessConfigs"] = [config]
    return shown


def _disks(cloud: Cloud, node: NodeRecord, worker: int) -> list[dict[str, Any]]:
    own = [each for each in node.compute["properties"].get("disks") or [] if each.get("boot")]
    found = [_boot_disk(cloud, node, worker, each) for each in own]
    for disk in disks_of(node, worker):
        place = disk["sourceDisk"].split("/")[2:]
        known = cloud.around.disks.get(f"{place[1]}/{place[3]}") or {}
        found.append(
            {
                "source": link(cloud, "/".join(place)),
                "deviceName": disk["deviceName"],
                "mode": disk["mode"],
                "autoDelete": disk["autoDelete"],
                "boot": False,
                "diskSizeGb": str(known.get("sizeGb") or BOOT_GB),
            }
        )
    common = {"kind": "compute#attachedDisk", "type": "PERSISTENT", "interface": "NVME"}
    return [{**common, **disk, "index": index} for index, disk in enumerate(found)]


def _boot_disk(
    cloud: Cloud, node: NodeRecord, worker: int, asked: dict[str, Any]
) -> dict[str, Any]:
    name = boot_disks.name_of(node, worker)
    known = cloud.around.disks.get(f"{node.zone}/{name}")
    disk = known or boot_disks.document(cloud, node, worker)
    return {
        "source": link(cloud, f"zones/{node.zone}/disks/{name}"),
        "deviceName": asked.get("deviceName") or "persistent-disk-0",
        "mode": asked.get("mode") or "READ_WRITE",
        "autoDelete": bool(asked.get("autoDelete")),
        "boot": True,
        "diskSizeGb": str(disk["sizeGb"]),
    }


def disks_of(node: NodeRecord, worker: int) -> list[dict[str, Any]]:
    """Return the data disks of an instance."""
    return [
        disk
        for disk in node.body.get("dataDisks") or []
        if str(worker) in disk.get("workerIds", [str(worker)])
    ]


def _accounts(node: NodeRecord) -> list[dict[str, Any]]:
    own = node.body.get("serviceAccount") or {}
    return [{"email": own["email"], "scopes": own["scope"]}] if own else []


def _accelerators(cloud: Cloud, node: NodeRecord) -> list[dict[str, Any]]:
    name = node.compute["machineType"]
    kind = machine_type(name)
    family = name.partition("-")[0]
    return [
        {
            "acceleratorType": link(cloud, f"zones/{node.zone}/acceleratorTypes/{family}"),
            "acceleratorCount": kind.chips if kind else 0,
        }
    ]


def _resource_status(node: NodeRecord) -> dict[str, Any]:
    ends = node.compute.get("ends")
    shown: dict[str, Any] = {
        "scheduling": {} if ends is None else {"terminationTimestamp": times.shown(ends)}
    }
    if node.maintenance:
        stamps = ("windowStartTime", "windowEndTime", "latestWindowStartTime")
        shown["upcomingMaintenance"] = {
            **{k: of_stamp(v) if k in stamps else v for k, v in node.maintenance.items()},
            "maintenanceReasons": ["PLANNED_UPDATE"],
        }
    return shown
