"""Work on single machines of a group of instances; it may take long and runs without the lock."""

from __future__ import annotations

from collections.abc import Callable

from . import attachments, compute_reservations
from .compute_records import GONE
from .compute_steps import instances_lost
from .ledger import Ledger
from .records import NodeRecord, Task


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


def empty(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Remove all instances of a group that shall have none."""
    for machine in node.machines:
        ledger.backend.delete(machine["machine_id"])
    with ledger.lock:
        compute_reservations.release(ledger, node)
        ledger.addresses.release(node)
        ledger.finish(task, node, state="EMPTY", health="", machines=[], guest=[], extra_nics=[])


def _renew_external(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    with ledger.lock:
        if node.external_ips:
            lacking = [k for k in task.options["workers"] if not node.machines[k]["external_ip"]]
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
    "compute_empty": empty,
}
