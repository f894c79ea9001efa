"""Attachments of disks: recorded only in nodes, checked when a node requests disks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ... import errors
from ...compute_errors import in_use, not_found
from ...errors import ApiError
from ...machines import DataDisk, MachineSpec
from .ledger import Ledger
from .records import NodeRecord

# The machines of such a node are removed, and their disks are free.
GONE = ("PREEMPTED", "TERMINATED")


@dataclass(frozen=True)
class Attachment:
    """One disk at one node."""

    zone: str
    disk: str
    writes: bool
    node: str
    instances: tuple[str, ...]


def check(ledger: Ledger, zone: str, node: str, disks: list[dict[str, Any]], workers: int) -> None:
    """Raise if a node with so many workers cannot have these disks."""
    others = [item for item in _attachments(ledger) if (item.zone, item.node) != (zone, node)]
    seen = set()
    for disk in disks:
        of, name = _place(disk.get("sourceDisk", ""))
        resource = f"projects/{ledger.project}/zones/{of or zone}/disks/{name}"
        if not of:
            raise errors.bad_request(
                f'The data disk "{disk.get("sourceDisk", "")}" is not of the form '
                "projects/PROJECT/zones/ZONE/disks/DISK."
            )
        if of != zone:
            raise errors.bad_request(
                f"The data disk '{resource}' is not in the zone of the node, {zone}."
            )
        if f"{of}/{name}" not in ledger.around.disks:
            raise ApiError("NOT_FOUND", not_found(resource).message)
        if name in seen:
            raise errors.bad_request(f"The data disk '{resource}' is given more than once.")
        seen.add(name)
        writes = _writes(disk)
        if writes and len(disk.get("workerIds") or range(workers)) > 1:
            raise errors.bad_request(
                f"The data disk '{resource}' can only be attached to a multi-host node in "
                "READ_ONLY mode."
            )
        for other in others:
            if (other.zone, other.disk) == (of, name) and (writes or other.writes):
                held = in_use("disk", resource, _instance(ledger, other))
                raise ApiError("FAILED_PRECONDITION", held.message)


def attached(node: NodeRecord, worker: int, disk: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the disks of a slice once one worker more has a disk, which others may read, too."""
    disks = [dict(each) for each in node.body.get("dataDisks") or []]
    if len(node.machines) == 1:
        return [*disks, disk]
    for each in disks:
        like = (each["sourceDisk"], _writes(each)) == (disk["sourceDisk"], _writes(disk))
        if like and not _writes(disk) and worker not in _workers(node, each):
            each["workerIds"] = [str(k) for k in sorted({*_workers(node, each), worker})]
            return disks
    return [*disks, {**disk, "workerIds": [str(worker)]}]


def detached(node: NodeRecord, worker: int, source: str) -> list[dict[str, Any]]:
    """Return the disks of a slice once one worker has a disk no longer."""
    disks = []
    for each in node.body.get("dataDisks") or []:
        others = [k for k in _workers(node, each) if k != worker]
        if each["sourceDisk"] != source or len(others) == len(_workers(node, each)):
            disks.append(each)
        elif others:
            disks.append({**each, "workerIds": [str(k) for k in others]})
    return disks


def machine_spec(ledger: Ledger, node: NodeRecord, worker: int) -> MachineSpec:
    """Describe a worker with its disks to the machine backend."""
    disks = []
    for disk in node.body.get("dataDisks") or []:
        zone, name = _place(disk.get("sourceDisk", ""))
        known = ledger.around.disks.get(f"{zone}/{name}")
        if known and worker in _workers(node, disk):
            disks.append(DataDisk(zone, name, int(known["sizeGb"]), _writes(disk)))
    return replace(node.spec(worker), disks=tuple(disks))


def delete_own(ledger: Ledger, node: NodeRecord) -> None:
    """Delete the disks that end with an instance, which is gone."""
    for disk in node.body.get("dataDisks") or []:
        zone, name = _place(disk.get("sourceDisk", ""))
        if disk.get("autoDelete") and not users_of(ledger, zone, name):
            ledger.around.disks.drop(f"{zone}/{name}")
            ledger.backend.delete_disk(zone, name)


def note(ledger: Ledger) -> None:
    """Record for each disk when it was first attached, and when it was last detached."""
    with ledger.lock:
        used = {(item.zone, item.disk) for item in _attachments(ledger)}
        for disk in ledger.around.disks:
            is_used = (disk["zone"], disk["name"]) in used
            was_used = disk.get("lastAttachTimestamp", "") > disk.get("lastDetachTimestamp", "")
            if is_used != was_used:
                stamp = "lastAttachTimestamp" if is_used else "lastDetachTimestamp"
                key = f"{disk['zone']}/{disk['name']}"
                ledger.around.disks.put(key, {**disk, stamp: ledger.clock.timestamp()})


def users_of(ledger: Ledger, zone: str, name: str) -> list[str]:
    """Return the links of the machines that use a disk."""
    return [
        f"https://www.googleapis.com/compute/v1/projects/{ledger.project}/zones/{zone}"
        f"/instances/{instance}"
        for item in _attachments(ledger)
        if (item.zone, item.disk) == (zone, name)
        for instance in item.instances
    ]


def _attachments(ledger: Ledger) -> Iterator[Attachment]:
    for node in list(ledger.nodes.values()):
        if node.state in GONE:
            continue
        for disk in node.body.get("dataDisks") or []:
            zone, name = _place(disk.get("sourceDisk", ""))
            instances = tuple(_name(node, worker) for worker in _workers(node, disk))
            yield Attachment(zone, name, _writes(disk), node.name, instances)


def _name(node: NodeRecord, worker: int) -> str:
    """Return the name of the instance that a worker is."""
    machine = node.machines[worker]
    return str(machine.get("name") or machine["machine_id"])


def _writes(disk: dict[str, Any]) -> bool:
    return bool(disk.get("mode", "READ_WRITE") != "READ_ONLY")


def _workers(node: NodeRecord, disk: dict[str, Any]) -> list[int]:
    """Return the workers of a node that have a disk."""
    named = [int(worker) for worker in disk.get("workerIds") or [] if str(worker).isdigit()]
    return [worker for worker in range(len(node.machines)) if not named or worker in named]


def _instance(ledger: Ledger, held: Attachment) -> str:
    instance = held.instances[0] if held.instances else held.node
    return f"projects/{ledger.project}/zones/{held.zone}/instances/{instance}"


def _place(source: str) -> tuple[str, str]:
    """Return zone and name of a disk's full name; no zone for anything else."""
    parts = source.split("/")[-6:]
    if len(parts) == 6 and parts[0::2] == ["projects", "zones", "disks"]:
        return parts[3], parts[5]
    return "", source
