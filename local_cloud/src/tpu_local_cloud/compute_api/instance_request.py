"""Reads what a client asks of an instance, in a request or in a template, and refuses the rest.

Wordings are Google's where they are known; docs/internals/gcloud.md lists those that are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..compute_errors import bad, invalid
from ..model.cloud import Cloud
from ..model.compute.records import seconds
from ..tables._compute.machine_types import MachineType, accelerator_type_of, topologies
from . import catalog, links, values

_MODELS = ("STANDARD", "SPOT", "FLEX_START", "RESERVATION_BOUND")
SHORTEST_RUN, LONGEST_RUN = 600.0, 7 * 86400.0
LONGEST_WAIT = 7200.0
# What the API keeps of the request as it is.
_KEPT = (
    *("advancedMachineFeatures", "canIpForward", "deletionProtection", "description", "disks"),
    *("networkInterfaces", "reservationAffinity", "scheduling", "serviceAccounts"),
    *("shieldedInstanceConfig", "tags"),
)


@dataclass
class Asked:
    """One instance, as a request asks for it."""

    body: dict[str, Any]
    """In the form of a node's body, from which machines are made."""
    compute: dict[str, Any]
    """What only Compute Engine knows of it."""


def check_name(name: Any, field: str = "name") -> str:
    """Return a valid name, or raise."""
    if not isinstance(name, str) or not links.NAME.fullmatch(name):
        raise invalid(field, name or "", f"Must be a match of regex '{links.NAME.pattern}'")
    return name


def read(cloud: Cloud, zone: str, asked: dict[str, Any], topology: str = "") -> Asked:
    """Return what is asked of each instance of a slice; without a topology, of a single one."""
    kind = catalog.machine_type_for("machineType", zone, str(asked.get("machineType") or ""))
    scheduling = check_scheduling(asked.get("scheduling") or {})
    _check_shape(asked, kind)
    topology = topology or next(t for t, size in topologies(kind.name).items() if size == 1)
    disks = asked.get("disks") or []
    _check_disks(disks, kind)
    cards, accounts = asked.get("networkInterfaces") or [], asked.get("serviceAccounts") or []
    values.check_networks(cloud, zone.rpartition("-")[0], cards)
    values.check_accounts(accounts)
    body: dict[str, Any] = {
        "acceleratorType": accelerator_type_of(kind.name, topology),
        "labels": values.check_labels(asked.get("labels") or {}),
        "metadata": values.read_metadata(asked.get("metadata") or {}),
        "schedulingConfig": as_node(scheduling),
        "serviceAccount": _account(cloud, accounts),
        "networkConfig": {"enableExternalIps": bool(cards[0].get("accessConfigs"))},
        "tags": values.check_tags((asked.get("tags") or {}).get("items") or []),
        "dataDisks": [
            data_disk(cloud, disk, index)
            for index, disk in enumerate(disks)
            if disk.get("source") and not disk.get("boot")
        ],
    }
    kept = {key: asked[key] for key in _KEPT if key in asked}
    compute = {
        "machineType": kind.name,
        "topology": topology,
        "properties": {**kept, "scheduling": scheduling},
        **_of_boot_disk(disks, kind),
    }
    return Asked(body, compute)


def wait_of(asked: dict[str, Any]) -> float:
    """Return how many seconds a flex-start request may wait."""
    given = (asked.get("params") or {}).get("requestValidForDuration")
    found = seconds(given) or 0.0
    if found > LONGEST_WAIT:
        why = f"The duration must not be longer than {LONGEST_WAIT:g} seconds."
        raise invalid("params.requestValidForDuration", f"{found:g}s", why)
    return found


def check_scheduling(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the scheduling with its defaults, or raise."""
    model = asked.get("provisioningModel") or ("SPOT" if asked.get("preemptible") else "STANDARD")
    if model not in _MODELS:
        raise invalid("scheduling.provisioningModel", model, f"It is none of {', '.join(_MODELS)}.")
    if asked.get("onHostMaintenance", "TERMINATE") != "TERMINATE":
        why = "Instances with guest accelerators do not support live migration."
        raise invalid("scheduling.onHostMaintenance", asked["onHostMaintenance"], why)
    if model == "SPOT" and asked.get("automaticRestart"):
        why = "Scheduling must have automaticRestart be false when preemptible is true."
        raise invalid("scheduling.automaticRestart", "true", why)
    duration = seconds(asked.get("maxRunDuration"))
    if model == "FLEX_START" and (duration is None or not SHORTEST_RUN <= duration <= LONGEST_RUN):
        why = "With FLEX_START it must be between 10 minutes and 7 days."
        shown = "" if duration is None else f"{duration:g}s"
        raise invalid("scheduling.maxRunDuration", shown, why)
    found = {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": model == "STANDARD",
        "preemptible": model == "SPOT",
        "provisioningModel": model,
        **asked,
    }
    if model == "SPOT":
        found |= {"preemptible": True, "automaticRestart": False}
    return found


def _check_shape(asked: dict[str, Any], kind: MachineType) -> None:
    if asked.get("resourcePolicies"):
        raise bad(
            "Resource policy must have one of "
            "[VmMaintenancePolicy, GroupPlacementPolicy, InstanceSchedulePolicy]"
        )
    threads = (asked.get("advancedMachineFeatures") or {}).get("threadsPerCore")
    if kind.threads_per_core and threads != kind.threads_per_core:
        why = f"Machine type {kind.name} needs {kind.threads_per_core}."
        raise invalid("advancedMachineFeatures.threadsPerCore", threads or "", why)
    for card in asked.get("networkInterfaces") or []:
        nic = card.get("nicType") or kind.nic_type
        if nic not in (kind.nic_type, "UNSPECIFIED_NIC_TYPE"):
            why = f"Machine type {kind.name} needs {kind.nic_type}."
            raise invalid("networkInterfaces[0].nicType", nic, why)


def _of_boot_disk(disks: list[dict[str, Any]], kind: MachineType) -> dict[str, Any]:
    """Return the type of the boot disk, and the image that it is made of."""
    boot = next(disk for disk in disks if disk.get("boot"))
    params = boot.get("initializeParams") or {}
    image = catalog.image(str(params.get("sourceImage") or ""))
    name = str(params.get("diskType") or kind.disk_type).rpartition("/")[2]
    return {"boot_type": name, **({"boot_image": image["selfLink"]} if image else {})}


def _check_disks(disks: list[dict[str, Any]], kind: MachineType) -> None:
    for index, disk in enumerate(disks):
        image = (disk.get("initializeParams") or {}).get("sourceImage")
        if image and catalog.image(image) is None:
            field = f"disks[{index}].initializeParams.sourceImage"
            raise invalid(field, image, "The referenced image resource cannot be found.")
    boot = [disk for disk in disks if disk.get("boot")]
    if not boot:
        raise bad("Invalid value for field 'resource.disks': ''. No disks are specified.")
    wanted = str((boot[0].get("initializeParams") or {}).get("diskType") or kind.disk_type)
    name = wanted.rpartition("/")[2]
    hyper = kind.disk_type.startswith("hyperdisk")
    if hyper != name.startswith("hyperdisk"):
        raise bad(f"[{name}] features are not compatible for creating instance.", "badRequest")


def as_node(scheduling: dict[str, Any]) -> dict[str, Any]:
    """Return the scheduling in the form of a node's."""
    model = scheduling["provisioningModel"]
    return {
        "SPOT": {"spot": True, "provisioningModel": "SPOT"},
        "RESERVATION_BOUND": {"reserved": True, "provisioningModel": "RESERVATION_BOUND"},
    }.get(model, {"provisioningModel": model})


def _account(cloud: Cloud, accounts: list[dict[str, Any]]) -> dict[str, Any]:
    if not accounts:
        return {}
    email = accounts[0].get("email") or "default"
    default = f"{cloud.number}-compute@developer.gserviceaccount.com"
    return {
        "email": default if email == "default" else email,
        "scope": list(accounts[0].get("scopes") or []),
    }


def data_disk(cloud: Cloud, disk: dict[str, Any], index: int) -> dict[str, Any]:
    """Return an existing disk that is attached, in the form of a node's data disk."""
    link = links.read(str(disk.get("source") or ""))
    if link is None:
        raise links.malformed("disks[].source", str(disk.get("source") or ""))
    return {
        "sourceDisk": f"projects/{link.project or cloud.project}/{link.scope}/disks/{link.name}",
        "mode": disk.get("mode") or "READ_WRITE",
        "deviceName": disk.get("deviceName") or f"persistent-disk-{index}",
        "autoDelete": bool(disk.get("autoDelete")),
    }
