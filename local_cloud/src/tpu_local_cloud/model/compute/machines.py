"""Work on single machines of a group of instances; it may take long and runs without the lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..shared import attachments
from ..shared.ledger import Ledger
from ..shared.records import NodeRecord, Task
from . import reservations
from .records import GONE, access, status
from .steps import instances_lost


def delete(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Remove instances with their boot disks."""
    for worker in task.options["workers"]:
        ledger.backend.delete(node.machines[worker]["machine_id"])
    _end(ledger, task, node, GONE)


def stop(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Shut instances down; they lose their external addresses."""
    for worker in task.options["workers"]:
        ledger.backend.power_off(node.machines[worker]["machine_id"])
    with ledger.lock:
        ledger.addresses.change_external(node, task.options["workers"], None)
    _end(ledger, task, node, "TERMINATED")


def start(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Boot stopped instances."""
    _renew_external(ledger, task, node)
    for worker in task.options["workers"]:
        ledger.backend.power_on(attachments.machine_spec(ledger, node, worker))
    _end(ledger, task, node, "")


def make(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Make lost instances again, each from a new boot disk."""
    for worker in task.options["workers"]:
        # It is made from the template again.
        for key in ("access", "tags"):
            node.machines[worker].pop(key, None)
    _renew_external(ledger, task, node)
    for worker in task.options["workers"]:
        node.guest[worker].clear()
        ledger.backend.delete(node.machines[worker]["machine_id"])
        ledger.backend.create(attachments.machine_spec(ledger, node, worker))
    if task.id not in ledger.tasks:
        # The group was deleted meanwhile: nothing else would remove them.
        for worker in task.options["workers"]:
            ledger.backend.delete(node.machines[worker]["machine_id"])
    _end(ledger, task, node, "")


def reset(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Reboot instances without asking what runs there."""
    for worker in task.options["workers"]:
        ledger.backend.reboot(attachments.machine_spec(ledger, node, worker))
    ledger.finish(task, node)


def change_access(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Give running instances an external address, or take it away; others get it at their start."""
    name, workers = task.options["access"], task.options["workers"]
    with ledger.lock:
        for worker in workers:
            node.machines[worker]["access"] = name
        if not node.is_group:
            config = node.body.get("networkConfig", {})
            node.body["networkConfig"] = {**config, "enableExternalIps": bool(name)}
        running = [worker for worker in workers if status(node, worker) == "RUNNING"]
        ledger.addresses.change_external(node, running, True if name else None)
        ledger.change(node)
    for worker in running:
        ledger.backend.set_external_ip(attachments.machine_spec(ledger, node, worker))
    ledger.finish(task, node)


def attach(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Attach a disk to instances."""
    disk = task.options["disk"]
    _change_disks(ledger, task, node, lambda worker: attachments.attached(node, worker, disk))


def detach(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Detach a disk from instances."""
    source = task.options["source"]
    _change_disks(ledger, task, node, lambda worker: attachments.detached(node, worker, source))


def _change_disks(
    ledger: Ledger, task: Task, node: NodeRecord, change: Callable[[int], list[dict[str, Any]]]
) -> None:
    with ledger.lock:
        for worker in task.options["workers"]:
            # Another instance may have attached a disk since the request.
            disks = change(worker)
            attachments.check(ledger, node.zone, node.name, disks, len(node.machines))
            node.body["dataDisks"] = disks
    for worker in task.options["workers"]:
        ledger.backend.set_disks(attachments.machine_spec(ledger, node, worker))
    ledger.note("updated", node)
    ledger.finish(task, node)


def empty(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Remove all instances of a group that shall have none."""
    for machine in node.machines:
        ledger.backend.delete(machine["machine_id"])
    with ledger.lock:
        reservations.release(ledger, node)
        ledger.addresses.release(node)
        ledger.finish(task, node, state="EMPTY", health="", machines=[], guest=[], extra_nics=[])


def _renew_external(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    with ledger.lock:
        workers = [k for k in task.options["workers"] if access(node, k)]
        lacking = [k for k in workers if not node.machines[k]["external_ip"]]
        ledger.addresses.change_external(node, lacking, True)


def _end(ledger: Ledger, task: Task, node: NodeRecord, status: str) -> None:
    with ledger.lock:
        if task.id not in ledger.tasks:
            return
        for worker in task.options["workers"]:
            node.machines[worker]["status"] = status
        back = not status and node.state in ("STOPPED", "TERMINATED")
        ledger.finish(task, node)
        if back:
            ledger.change(node, state="READY", preempted=False)
        instances_lost(ledger, node)


TRANSITIONS: dict[str, Callable[[Ledger, Task, NodeRecord], None]] = {
    "vm_delete": delete,
    "vm_stop": stop,
    "vm_start": start,
    "vm_make": make,
    "vm_reset": reset,
    "vm_access": change_access,
    "vm_attach": attach,
    "vm_detach": detach,
    "compute_empty": empty,
}
