"""The effects of each kind of task on a node and its machines.

The work may take long and runs without the cloud's lock. An ApiError becomes the operation's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from ..errors import ApiError
from ..machines import MachineSpec
from .compute import boot_disks
from .compute import machines as compute_machines
from .compute import steps as compute_steps
from .compute.records import publishes
from .shared import attachments
from .shared.history import caused_by
from .shared.ledger import Ledger
from .shared.records import NodeRecord, Task
from .shared.without_machines import make_up_guest_attributes
from .tpu.maintenance import notice_over, window

log = logging.getLogger(__name__)

# Seconds for which a new node waits until its machines have published their host keys.
HOST_KEYS_LIMIT = 20.0
LOOK_EVERY = 0.1


def create(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Create the machines; if one fails, the node leaves nothing behind."""
    try:
        _each_machine(ledger, node, ledger.backend.create)
    except Exception:
        for machine in node.machines:
            ledger.backend.delete(machine["machine_id"])
        if node.is_group:
            log.exception("the instances of %s could not be created", node.name)
            with ledger.lock:
                ledger.finish(task)
                compute_steps.creation_failed(ledger, node, ledger.failure("stock_out", node))
            return
        ledger.forget(node)
        raise
    _await_host_keys(ledger, task, node)
    if task.id not in ledger.tasks:
        # Preempted or reset while the machines were starting: nothing else would remove them.
        _each_machine(ledger, node, lambda spec: ledger.backend.delete(spec.machine_id))
        return
    if ledger.backend.name == "none":
        make_up_guest_attributes(node)
    ledger.finish(task, node, state="READY", health="HEALTHY")


def delete(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Remove the machines, then the node."""
    _each_machine(ledger, node, lambda spec: ledger.backend.delete(spec.machine_id))
    ledger.forget(node)
    attachments.delete_own(ledger, node)
    boot_disks.keep(ledger, node)
    ledger.finish(task)


def stop(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Shut the machines down; they lose their external addresses."""
    _each_machine(ledger, node, lambda spec: ledger.backend.power_off(spec.machine_id))
    _change_external(ledger, node, range(len(node.machines)), None)
    ledger.finish(task, node, state="STOPPED", health="")


def start(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Boot the machines under new external addresses."""
    if node.external_ips:
        _change_external(ledger, node, range(len(node.machines)), True)
    _each_machine(ledger, node, ledger.backend.power_on)
    ledger.finish(task, node, state="READY", health="HEALTHY")


def update(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Replace fields; change the machines if external addresses are added or removed."""
    with ledger.lock:
        # Another node may have attached a disk since the request.
        disks = task.options["fields"].get("dataDisks") or []
        attachments.check(ledger, node.zone, node.name, disks, len(node.machines))
        before = node.external_ips
        for name, value in task.options["fields"].items():
            if name == "networkConfig":
                node.body["networkConfig"] = {
                    **node.body.get("networkConfig", {}),
                    "enableExternalIps": bool((value or {}).get("enableExternalIps")),
                }
            elif value is None:
                node.body.pop(name, None)
            else:
                node.body[name] = value
        after = node.external_ips
    if before != after:
        _change_external(ledger, node, range(len(node.machines)), True if after else None)
        _each_machine(ledger, node, ledger.backend.set_external_ip)
    if "dataDisks" in task.options["fields"]:
        _each_machine(ledger, node, ledger.backend.set_disks)
    ledger.note("updated", node)
    ledger.finish(task, node)


def maintain(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Reboot workers, with another external address if the task says so."""
    workers, address = task.options["workers"], task.options["address"]
    ledger.change(node, state="RESTARTING")
    if address and node.external_ips:
        _change_external(ledger, node, workers, address)
    if ledger.backend.name != "none":
        # Only what the machine publishes after the reboot counts.
        for worker in workers:
            node.guest[worker].pop("hostkeys", None)
    for worker in workers:
        ledger.backend.reboot(attachments.machine_spec(ledger, node, worker))
    _await_host_keys(ledger, task, node)
    ledger.finish(
        task, node, state="READY", health="HEALTHY", maintenance_event="NONE", maintenance={}
    )


def fail(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """End an operation with its planned error; the node stays as it was."""
    operation = ledger.operations.get(task.operation or "")
    with caused_by("service"):
        if task.kind == "create" and node.is_group:
            ledger.finish(task)
            compute_steps.creation_failed(ledger, node, ApiError(**task.options["failure"]))
            return
        if task.kind == "create":
            ledger.forget(node)
        elif operation:
            ledger.change(node, **operation.before)
            if node.state == "CREATING":
                # The deletion had cancelled its creation, which will not continue.
                ledger.change(node, state="UNKNOWN")
        ledger.finish(task, error=ApiError(**task.options["failure"]))


TRANSITIONS: dict[str, Callable[[Ledger, Task, NodeRecord], None]] = {
    "create": create,
    "delete": delete,
    "stop": stop,
    "start": start,
    "update": update,
    "maintain": maintain,
    "maintenance_window": window,
    "notice_over": notice_over,
    **compute_machines.TRANSITIONS,
}


def _await_host_keys(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Wait until every worker has published its host keys, or the limit has passed."""
    if ledger.backend.metadata_address() is None or not _publishes(ledger, node):
        return  # these machines have nowhere to publish
    deadline = time.monotonic() + HOST_KEYS_LIMIT
    while not all("hostkeys" in published for published in node.guest):
        # It was preempted or reset meanwhile, or the server stops.
        if task.id not in ledger.tasks or time.monotonic() >= deadline:
            return
        if ledger.closing.wait(LOOK_EVERY):
            return


def _publishes(ledger: Ledger, node: NodeRecord) -> bool:
    """Return whether all its machines publish; instances do so only if their metadata says so."""
    return node.api == "tpu" or all(
        publishes(node, worker, ledger.project_metadata) for worker in range(len(node.machines))
    )


def _change_external(
    ledger: Ledger, node: NodeRecord, workers: Iterable[int], address: str | bool | None
) -> None:
    with ledger.lock:
        ledger.addresses.change_external(node, workers, address)
        ledger.change(node)


def _each_machine(ledger: Ledger, node: NodeRecord, work: Callable[[MachineSpec], None]) -> None:
    """Do the same with all machines of a node, several at a time; raise the first failure."""
    specs = [attachments.machine_spec(ledger, node, worker) for worker in range(len(node.machines))]
    if ledger.backend.name == "none" or len(specs) == 1:
        for spec in specs:
            work(spec)
        return
    # A small machine mostly waits for the agent that serves all of them.
    at_once = 8 if specs[0].small else 4
    with ThreadPoolExecutor(min(at_once, len(specs))) as pool:
        list(pool.map(work, specs))
