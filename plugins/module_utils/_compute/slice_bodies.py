# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bodies of the requests that create a slice on Compute Engine. Pure.

A slice of one machine is an instance. A slice of several is a group that makes all of them at once
from a template, with a workload policy that says how their chips are connected. Sources: Google's
discovery document of the Compute API, and
https://docs.cloud.google.com/compute/docs/instance-groups/create-workload-policies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._core.errors import BadRequest
from .._core.in_zone import region_of
from .._core.ownership import DEFAULT_OWNER
from .._tpu.model import basename
from .._tpu.node_spec import GUEST_ATTRIBUTES, DataDisk, NodeSpec
from .._tpu.queued_spec import seconds_of
from .groups import Mark
from .instance import SLICE_LABEL, WAIT_LABEL, as_items, own_topology
from .machine_types import (
    IMAGE_PROJECT,
    MachineType,
    accelerator_type_of,
    machine_type,
    topologies,
    workers_of,
)

# A reservation in calendar mode is one that Google makes for some days, and used as any other.
RESERVED = ("reserved", "calendar")
TIERS = ("on_demand", "spot", "flex_start", *RESERVED)
# Google's default of 10 GB is full after the first installation.
BOOT_DISK_GB = 100
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
# The limits of flex-start, in seconds: for the wait of one machine, and for its life.
LONGEST_WAIT = 7200
LONGEST_RUN, SHORTEST_RUN = 7 * 86400, 600
# The longest name to which a group can still add its random suffix.
LONGEST_BASE_NAME = 58

Body = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """What a slice is made of, and how it is asked for, beside what its spec says."""

    machine_type: str
    topology: str = ""
    tier: str = "on_demand"
    max_run_duration: str | None = None
    # How many seconds the request may wait for capacity; for one machine only.
    valid_for: float | None = None
    reservation: str | None = None
    # Whether the group makes an instance again that is lost; not possible with flex-start.
    repair: bool = False

    @property
    def kind(self) -> MachineType:
        """Return the machine type; raise if it has no TPUs, or is unknown."""
        kind = machine_type(self.machine_type)
        if kind is None:
            raise BadRequest(
                f"machine_type is {self.machine_type!r}, which is no machine type with TPUs.",
                remedy="Use one like ct6e-standard-4t or tpu7x-standard-4t.",
            )
        return kind

    @property
    def whole_topology(self) -> str:
        """Return the topology; without one, that of a single machine."""
        return self.topology or own_topology(self.kind.name)

    @property
    def workers(self) -> int:
        """Return the number of machines."""
        count = workers_of(self.kind.name, self.whole_topology)
        if count is None:
            known = ", ".join(topologies(self.kind.name))
            raise BadRequest(
                f"topology is {self.topology!r}, which {self.machine_type} cannot form.",
                remedy=f"Use one of {known}.",
            )
        return count

    @property
    def accelerator_type(self) -> str:
        """Return the accelerator type that its workers find in their metadata."""
        return accelerator_type_of(self.kind.name, self.whole_topology)


def slice_bodies(spec: NodeSpec, shape: Shape) -> dict[str, Body]:
    """Return the bodies by their kinds: an instance; or a policy, a template and a group."""
    _check(shape)
    if shape.workers == 1:
        return {"instance": instance_body(spec, shape)}
    policy, template = policy_body(spec, shape), template_body(spec, shape)
    return {"policy": policy, "template": template, "group": group_body(spec, shape)}


def instance_body(spec: NodeSpec, shape: Shape) -> Body:
    """Return the body that creates the only machine of a slice."""
    zone = spec.zone
    body = {
        "name": spec.name,
        **_properties(spec, shape, f"zones/{zone}/diskTypes/", spec.data_disks),
        "machineType": f"zones/{zone}/machineTypes/{shape.machine_type}",
    }
    if spec.description:
        body["description"] = spec.description
    if shape.tier == "flex_start":
        return waiting_body(body, min(shape.valid_for or LONGEST_WAIT, LONGEST_WAIT))
    return body


def waiting_body(body: Mapping[str, Any], seconds: float) -> Body:
    """Return the body of an instance that may wait so long for capacity, and says so."""
    return {
        **body,
        "labels": {**body["labels"], WAIT_LABEL: str(int(seconds))},
        "params": {"requestValidForDuration": duration(seconds)},
    }


def policy_body(spec: NodeSpec, shape: Shape) -> Body:
    """Return the body that creates the workload policy of a group."""
    policy = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": shape.whole_topology}
    body = {"name": spec.name, "workloadPolicy": policy}
    return {**body, "description": _marked(spec, body)}


def template_body(spec: NodeSpec, shape: Shape) -> Body:
    """Return the body that creates the template of a group's machines."""
    # Only a disk that all read can be attached to all; the others are attached one by one, later.
    disks = tuple(
        disk for disk in spec.data_disks if disk.mode == "READ_ONLY" and not disk.worker_ids
    )
    properties = _properties(spec, shape, "", disks)
    if spec.description:
        properties["description"] = spec.description
    body = {"name": spec.name, "properties": properties}
    return {**body, "description": _marked(spec, body)}


def group_body(spec: NodeSpec, shape: Shape) -> Body:
    """Return the body that creates a group, which makes all its machines at once or none."""
    path = f"projects/{spec.project}/regions/{region_of(spec.zone)}"
    repairs = shape.repair and shape.tier != "flex_start"
    return {
        "name": spec.name,
        "baseInstanceName": spec.name[:LONGEST_BASE_NAME].rstrip("-"),
        "instanceTemplate": f"{path}/instanceTemplates/{spec.name}",
        "targetSize": shape.workers,
        "targetSizePolicy": {"mode": "BULK"},
        "resourcePolicies": {"workloadPolicy": f"{path}/resourcePolicies/{spec.name}"},
        "instanceLifecyclePolicy": {
            "defaultActionOnFailure": "REPAIR" if repairs else "DO_NOTHING"
        },
        "updatePolicy": {"type": "OPPORTUNISTIC"},
    }


def duration(seconds: float) -> dict[str, str]:
    """Return a duration as Compute Engine writes it."""
    return {"seconds": str(int(seconds))}


def attached_disk(source: str, mode: str) -> Body:
    """Return a data disk to attach, which outlives the machine."""
    return {
        "source": source,
        "mode": mode,
        "type": "PERSISTENT",
        "boot": False,
        "autoDelete": False,
        # The name of its device on the machine is google- and this.
        "deviceName": basename(source),
    }


def _properties(spec: NodeSpec, shape: Shape, disk_types: str, disks: tuple[DataDisk, ...]) -> Body:
    """Return what an instance and a template have in common."""
    kind = shape.kind
    boot = {
        "boot": True,
        "autoDelete": True,
        "mode": "READ_WRITE",
        "type": "PERSISTENT",
        "initializeParams": {
            "sourceImage": f"projects/{IMAGE_PROJECT}/global/images/family/{kind.image_family}",
            "diskSizeGb": str(spec.boot_disk_size_gb or BOOT_DISK_GB),
            "diskType": f"{disk_types}{kind.disk_type}",
        },
    }
    # A template names a disk without its zone.
    others = [
        attached_disk(disk.source if disk_types else basename(disk.source), disk.mode)
        for disk in disks
    ]
    body: Body = {
        "machineType": shape.machine_type,
        "disks": [boot, *others],
        "networkInterfaces": [_network(spec, kind)],
        "metadata": {"items": as_items(spec.wanted_metadata({GUEST_ATTRIBUTES: "TRUE"}))},
        "labels": {**spec.labels, **spec.owned_labels(), SLICE_LABEL: spec.name},
        "scheduling": _scheduling(shape),
    }
    if spec.service_account:
        # Without the field a machine has no account, and no process on it gets a token.
        body["serviceAccounts"] = [{"email": spec.service_account, "scopes": [SCOPE]}]
    affinity = _affinity(spec, shape)
    if affinity:
        body["reservationAffinity"] = affinity
    if spec.tags:
        body["tags"] = {"items": list(spec.tags)}
    if kind.threads_per_core:
        body["advancedMachineFeatures"] = {"threadsPerCore": kind.threads_per_core}
    return body


def _network(spec: NodeSpec, kind: MachineType) -> Body:
    network: Body = {"nicType": kind.nic_type} if kind.nic_type else {}
    if spec.network or not spec.subnetwork:
        network["network"] = _path(spec.network or "default", "global/networks")
    if spec.subnetwork:
        network["subnetwork"] = _path(
            spec.subnetwork, f"regions/{region_of(spec.zone)}/subnetworks"
        )
    if spec.external_ips is not False:
        network["accessConfigs"] = [{"name": "external-nat", "type": "ONE_TO_ONE_NAT"}]
    return network


def _path(name: str, collection: str) -> str:
    return name if "/" in name else f"{collection}/{name}"


def _scheduling(shape: Shape) -> Body:
    """Return how the machines are provided, and what ends them; they never move while they run."""
    scheduling: Body = {"onHostMaintenance": "TERMINATE", "automaticRestart": True}
    if shape.tier == "spot":
        # A machine that was taken back stays, so that one sees what became of it.
        scheduling |= {
            "provisioningModel": "SPOT",
            "preemptible": True,
            "automaticRestart": False,
            "instanceTerminationAction": "STOP",
        }
    elif shape.tier == "flex_start":
        scheduling |= {
            "provisioningModel": "FLEX_START",
            "automaticRestart": False,
            "instanceTerminationAction": "DELETE",
        }
    elif shape.tier in RESERVED:
        scheduling |= {
            "provisioningModel": "RESERVATION_BOUND",
            "instanceTerminationAction": "DELETE",
        }
    run = _run_seconds(shape)
    if run is not None:
        scheduling["maxRunDuration"] = duration(run)
        scheduling.setdefault("instanceTerminationAction", "STOP")
    return scheduling


def _run_seconds(shape: Shape) -> int | None:
    if shape.max_run_duration is None:
        return LONGEST_RUN if shape.tier == "flex_start" else None
    return seconds_of("max_run_duration", shape.max_run_duration)


def _affinity(spec: NodeSpec, shape: Shape) -> Body:
    if shape.tier == "flex_start":
        return {"consumeReservationType": "NO_RESERVATION"}
    if shape.tier not in RESERVED:
        return {}
    return {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": RESERVATION_KEY,
        "values": [_reservation(shape.reservation or "", spec.project)],
    }


def _reservation(name: str, project: str) -> str:
    """Return a reservation as an instance names it: one of another project with its project."""
    parts = name.split("/")
    if parts[0] != "projects" or len(parts) < 2 or parts[1] == project:
        return parts[-1]
    return f"projects/{parts[1]}/reservations/{parts[-1]}"


def _check(shape: Shape) -> None:
    """Raise BadRequest for what every zone would refuse."""
    if shape.tier not in TIERS:
        raise BadRequest(
            f"tier is {shape.tier!r}, which Compute Engine does not have.",
            remedy=f"Use one of {', '.join(TIERS)}.",
        )
    if (shape.tier in RESERVED) != bool(shape.reservation):
        raise BadRequest(
            f"tier is {shape.tier!r}, and reservation is {shape.reservation!r}.",
            remedy="Set both tier: reserved and the reservation's name, or neither.",
        )
    run = _run_seconds(shape)
    if shape.tier == "flex_start" and not SHORTEST_RUN <= (run or 0) <= LONGEST_RUN:
        raise BadRequest(
            f"max_run_duration is {shape.max_run_duration!r}.",
            remedy="Flex-start takes 10 minutes to 7 days, for example 4h.",
        )


def _marked(spec: NodeSpec, body: Mapping[str, Any]) -> str:
    """Return the description that names a part's owner and what it was made from."""
    text = json.dumps(body, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return str(Mark(spec.name, spec.zone, digest, spec.owner or DEFAULT_OWNER))
