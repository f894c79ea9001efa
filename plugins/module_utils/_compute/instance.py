# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances of Compute Engine as typed values, and an instance with TPUs as a node. No I/O.

Source: Google's discovery document of the Compute API. Every field of an answer may be absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timezone
from functools import lru_cache
from typing import Any

from .._tpu.model import COMPUTE, Node, basename, map_in, parse_time, part_of, text_in, texts_in
from .client import values_of
from .machine_types import accelerator_type_of, machine_type, topologies

# On each instance of a slice, and on its template: the name of the slice.
SLICE_LABEL = "tpu-fleet-slice"
# On an instance that may have to wait: how many seconds it may. The API does not show its params.
WAIT_LABEL = "tpu-fleet-wait"
# Labels that users neither see, set nor remove.
KEPT_LABELS = frozenset({SLICE_LABEL, WAIT_LABEL})
# What Google writes into the metadata of an instance; only Google may change or remove it.
GOOGLE_METADATA = frozenset(
    {
        "accelerator-type",
        "agent-worker-number",
        "created-by",
        "instance-template",
        "tpu-env",
        "worker-id",
        "worker-network-endpoints",
    }
)

WAITING = "PENDING"
# What each status of an instance means for a slice; PENDING means that it is still a request.
STATES = {
    "PROVISIONING": "CREATING",
    "STAGING": "CREATING",
    "RUNNING": "READY",
    "REPAIRING": "REPAIRING",
    "PENDING_STOP": "STOPPING",
    "STOPPING": "STOPPING",
    "SUSPENDING": "STOPPING",
    "SUSPENDED": "STOPPED",
    "STOPPED": "STOPPED",
    # Compute Engine's word for an instance that was shut down and can be started.
    "TERMINATED": "STOPPED",
    "DEPROVISIONING": "DELETING",
}

_TOPOLOGY = re.compile(r"^TOPOLOGY: *'?(?P<topology>[0-9x]+)'?", re.MULTILINE)


@dataclass(frozen=True)
class Instance:
    """A VM, with TPUs or without."""

    name: str
    uid: str
    project: str
    zone: str
    machine_type: str
    status: str
    labels: dict[str, str]
    metadata: dict[str, str]
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def from_api(cls, raw: Mapping[str, Any]) -> Instance:
        """Return the instance that an API answer describes."""
        project, zone = _place_of(text_in(raw, "zone") or text_in(raw, "selfLink"))
        return cls(
            name=text_in(raw, "name"),
            uid=text_in(raw, "id"),
            project=project,
            zone=zone,
            machine_type=basename(text_in(raw, "machineType")),
            status=text_in(raw, "status"),
            labels=texts_in(raw, "labels"),
            metadata=values_of(map_in(raw, "metadata")),
            raw=dict(raw),
        )

    @property
    def has_tpus(self) -> bool:
        """Return whether its machine type has TPUs."""
        return machine_type(self.machine_type) is not None

    @property
    def waits(self) -> bool:
        """Return whether it is a request that waits for capacity."""
        return self.status == WAITING

    @property
    def group(self) -> str:
        """Return the path of the group that made it; empty if it was made alone."""
        return self.metadata.get("created-by", "")

    @property
    def slice_name(self) -> str:
        """Return the name of its slice, of which it may be one worker of several."""
        return basename(self.group) or self.labels.get(SLICE_LABEL) or self.name

    @property
    def is_single(self) -> bool:
        """Return whether it is a slice by itself."""
        return self.slice_name == self.name and not self.group

    @property
    def worker(self) -> int | None:
        """Return which worker of its slice it is; None if Google has not said so."""
        number = self.metadata.get("agent-worker-number", "")
        return int(number) if number.isdigit() else None

    @property
    def topology(self) -> str:
        """Return the topology of its slice from its metadata; else the one of its type."""
        told = _TOPOLOGY.search(self.metadata.get("tpu-env", ""))
        return told["topology"] if told else own_topology(self.machine_type)

    @property
    def is_spot(self) -> bool:
        """Return whether Google may take it back at any time."""
        scheduling = map_in(self.raw, "scheduling")
        return scheduling.get("provisioningModel") == "SPOT" or bool(scheduling.get("preemptible"))

    @property
    def state(self) -> str:
        """Return its state in the words of nodes; why it stopped decides if it starts again."""
        state = STATES.get(self.status, self.status or "STATE_UNSPECIFIED")
        if state != "STOPPED":
            return state
        if self.is_spot:
            return "PREEMPTED"
        return "TERMINATED" if self._has_expired else state

    @property
    def _has_expired(self) -> bool:
        """Return whether it stopped because the time that it may run was over."""
        scheduling = map_in(map_in(self.raw, "resourceStatus"), "scheduling")
        ends = parse_time(text_in(scheduling, "terminationTimestamp"))
        stopped = parse_time(text_in(self.raw, "lastStopTimestamp"))
        return ends is not None and stopped is not None and stopped >= ends

    @property
    def is_alive(self) -> bool:
        """Return whether it runs, or comes up by itself."""
        return self.state in ("CREATING", "READY", "REPAIRING")

    @property
    def upcoming_maintenance(self) -> dict[str, Any]:
        """Return the maintenance that Google plans or carries out."""
        return dict(map_in(map_in(self.raw, "resourceStatus"), "upcomingMaintenance"))

    @property
    def health(self) -> str:
        """Return the health in the words of nodes."""
        ongoing = self.upcoming_maintenance.get("maintenanceStatus") == "ONGOING"
        return "UNHEALTHY_MAINTENANCE" if ongoing else "HEALTHY"

    @property
    def endpoint(self) -> dict[str, Any]:
        """Return its addresses as a node shows them."""
        nic = _first(self.raw, "networkInterfaces")
        return {
            "ipAddress": text_in(nic, "networkIP"),
            "accessConfig": {"externalIp": text_in(_first(nic, "accessConfigs"), "natIP")},
            "instance": self.name,
        }

    @property
    def access(self) -> str:
        """Return the name of the configuration of its external address; empty without one."""
        nic = _first(self.raw, "networkInterfaces")
        return text_in(_first(nic, "accessConfigs"), "name")

    @property
    def has_access(self) -> bool:
        """Return whether it has an external address whenever it runs."""
        return bool(_first(self.raw, "networkInterfaces").get("accessConfigs"))

    def properties(self) -> dict[str, Any]:
        """Return what a node shows of it, in the words of the Cloud TPU API."""
        return {**_shown_alike(self.raw), **self.own_properties()}

    def own_properties(self) -> dict[str, Any]:
        """Return those of them in which the workers of a slice may differ."""
        return _shown_apart(self.raw, self.labels, self.metadata, self.project, self.zone)


# Almost all instances of a list are in few zones.
@lru_cache(maxsize=256)
def _place_of(link: str) -> tuple[str, str]:
    """Return the project and the zone of a link."""
    return part_of(link, "projects"), part_of(link, "zones")


def own_topology(name: str) -> str:
    """Return the topology of a slice that is one machine of this type; empty if there is none."""
    return next((shape for shape, vms in topologies(name).items() if vms == 1), "")


def node_raw(
    path: tuple[str, str, str],
    kind: str,
    topology: str,
    properties: Mapping[str, Any],
    instances: Sequence[Instance] = (),
    **rest: Any,
) -> dict[str, Any]:
    """Return a slice as the Cloud TPU API would show its node; `path` is project, zone, name."""
    project, zone, name = path
    return {
        "api": COMPUTE,
        "name": f"projects/{project}/locations/{zone}/nodes/{name}",
        "machineType": kind,
        "acceleratorType": accelerator_type_of(kind, topology),
        "acceleratorConfig": {"topology": topology},
        "networkEndpoints": [instance.endpoint for instance in instances],
        **properties,
        **rest,
    }


def node_of(instance: Instance) -> Node:
    """Return the node that an instance alone is."""
    return Node.from_api(
        node_raw(
            (instance.project, instance.zone, instance.name),
            instance.machine_type,
            instance.topology,
            instance.properties(),
            [instance],
            id=instance.uid,
            state=instance.state,
            health=instance.health,
            createTime=born(instance.raw),
            upcomingMaintenance=instance.upcoming_maintenance,
        )
    )


def shown(raw: Mapping[str, Any], project: str, zone: str) -> dict[str, Any]:
    """Return what a node shows of the properties of a template."""
    labels, metadata = texts_in(raw, "labels"), values_of(map_in(raw, "metadata"))
    return {**_shown_alike(raw), **_shown_apart(raw, labels, metadata, project, zone)}


def _shown_alike(raw: Mapping[str, Any]) -> dict[str, Any]:
    nic, account = _first(raw, "networkInterfaces"), _first(raw, "serviceAccounts")
    boot: Mapping[str, Any] = next((disk for disk in _disks(raw) if disk.get("boot")), {})
    size = boot.get("diskSizeGb") or map_in(boot, "initializeParams").get("diskSizeGb")
    return {
        "schedulingConfig": dict(map_in(raw, "scheduling")),
        "networkConfig": {
            "network": text_in(nic, "network"),
            "subnetwork": text_in(nic, "subnetwork"),
            "enableExternalIps": bool(nic.get("accessConfigs")),
        },
        "tags": list(map_in(raw, "tags").get("items") or []),
        "bootDiskConfig": {"diskSizeGb": str(size or "")},
        "description": text_in(raw, "description"),
        "serviceAccount": {"email": text_in(account, "email")},
    }


def _shown_apart(
    raw: Mapping[str, Any],
    labels: Mapping[str, str],
    metadata: Mapping[str, str],
    project: str,
    zone: str,
) -> dict[str, Any]:
    disks = [disk for disk in _disks(raw) if not disk.get("boot")]
    return {
        "labels": {key: labels[key] for key in labels if key not in KEPT_LABELS},
        "metadata": {key: metadata[key] for key in metadata if key not in GOOGLE_METADATA},
        "dataDisks": [_data_disk(disk, project, zone) for disk in disks],
    }


def as_items(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Return metadata as the API writes it."""
    return [{"key": key, "value": value} for key, value in values.items()]


def born(raw: Mapping[str, Any]) -> str:
    """Return when a resource was created, in UTC: the API writes times of another zone."""
    text = text_in(raw, "creationTimestamp")
    created = parse_time(text)
    return created.astimezone(timezone.utc).isoformat().replace("+00:00", "Z") if created else text


def _disks(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [disk for disk in raw.get("disks") or [] if isinstance(disk, dict)]


def _first(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}


def _data_disk(disk: Mapping[str, Any], project: str, zone: str) -> dict[str, Any]:
    source = text_in(disk, "source")
    # A template names a disk without its zone.
    path = source[source.find("projects/") :] if "projects/" in source else ""
    return {
        "sourceDisk": path or f"projects/{project}/zones/{zone}/disks/{source}",
        "mode": text_in(disk, "mode") or "READ_WRITE",
    }
