"""The boot disks of Compute Engine's instances: made with an instance, deleted or kept with it.

Nothing but what a client changed of one is stored, as `boot_disk` of its machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..shared.ledger import Ledger
from ..shared.records import NodeRecord
from .records import status

# The size of a boot disk in GB if the request names none: that of the image.
BOOT_GB = "10"
# An instance that waits for capacity has no disk.
_WITHOUT = ("", "PENDING")
Found = tuple[NodeRecord, int]
Document = dict[str, Any]


def asked_of(node: NodeRecord) -> Document | None:
    """Return what the request says of the boot disk."""
    disks = node.compute.get("properties", {}).get("disks") or []
    return next((disk for disk in disks if disk.get("boot")), None)


def name_of(node: NodeRecord, worker: int) -> str:
    """Return the name of an instance's boot disk, which is by default its own."""
    asked = asked_of(node) or {}
    source = str(asked.get("source") or "").rpartition("/")[2]
    named = (asked.get("initializeParams") or {}).get("diskName")
    return source or str(named or node.machines[worker]["name"])


def made(ledger: Ledger) -> Iterator[Found]:
    """Iterate over the instances whose boot disk was made with them."""
    for node in list(ledger.nodes.values()):
        asked = asked_of(node) if node.api == "compute" else None
        if asked is None or asked.get("source"):
            continue
        for worker in range(len(node.machines)):
            if status(node, worker) not in _WITHOUT:
                yield node, worker


def find(ledger: Ledger, zone: str, name: str) -> Found | None:
    """Return the instance whose boot disk has a name."""
    return next(((n, w) for n, w in made(ledger) if n.zone == zone and name_of(n, w) == name), None)


def document(ledger: Ledger, node: NodeRecord, worker: int) -> Document:
    """Return a boot disk in the form of a stored disk."""
    asked = asked_of(node) or {}
    params = asked.get("initializeParams") or {}
    machine = node.machines[worker]
    size = params.get("diskSizeGb") or asked.get("diskSizeGb") or BOOT_GB
    kind = str(params.get("diskType") or node.compute.get("boot_type") or "pd-balanced")
    return {
        "name": name_of(node, worker),
        # A disk has another number than its instance.
        "id": str(int(machine["id"]) ^ 1),
        "creationTimestamp": node.created,
        "lastAttachTimestamp": node.created,
        "zone": node.zone,
        "type": kind.rpartition("/")[2],
        "sizeGb": str(size),
        "labels": params.get("labels") or {},
        **{k: node.compute[f] for k, f in (("sourceImage", "boot_image"),) if f in node.compute},
        **machine.get("boot_disk", {}),
    }


def change(ledger: Ledger, node: NodeRecord, worker: int, **fields: Any) -> None:
    """Change fields of a boot disk."""
    machine = node.machines[worker]
    machine["boot_disk"] = {**machine.get("boot_disk", {}), **fields}
    ledger.change(node)


def keep(ledger: Ledger, node: NodeRecord) -> None:
    """Keep the boot disks of instances that are gone, unless they are deleted with them."""
    asked = asked_of(node)
    if asked is None or asked.get("autoDelete") or asked.get("source") or node.is_group:
        return
    for worker in range(len(node.machines)):
        kept = document(ledger, node, worker)
        kept["lastDetachTimestamp"] = ledger.clock.timestamp()
        ledger.around.disks.put(f"{node.zone}/{kept['name']}", kept)
