"""Changes of instances and groups over time: they wait for capacity, run for a while, and end.

Callers hold the cloud's lock. Machines are made and removed by transitions.py and
machines.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import errors
from ...errors import ApiError
from ..shared.ledger import Ledger
from ..shared.records import NodeRecord, OperationRecord, Task
from ..shared.waiting import next_look
from . import quota, reservations
from .records import GONE, is_deleted_at_end, repairs, run_seconds

# How many of a group's errors are kept.
ERRORS = 100
# Seconds until a deletion that met work on the machines tries again.
RETRY = 1.0
_MAKING = ("create", "start", "maintain", "vm_make", "vm_start", "vm_reset")
_CAPACITY = ("stock_out", "reservation_full", "reservation_missing")


def wait(cloud: Ledger, node: NodeRecord) -> None:
    """Plan when a waiting instance or group checks for capacity, and when it gives up."""
    not_after = node.compute.get("not_after")
    if not_after is not None:
        cloud.plan("compute_expire", node, not_after)
    cloud.plan("compute_look", node, cloud.clock.due(cloud.delays["queue_grant"]))


def look(cloud: Ledger, task: Task, node: NodeRecord) -> None:
    """Begin to create what has waited if there is capacity; otherwise check again later."""
    cloud.finish(task)
    if node.state != "PENDING":
        return
    lacking = None if node.compute.get("granted") else lack(cloud, node)
    if lacking is None:
        begin_creation(cloud, node)
        return
    note_error(cloud, node, lacking)
    since = node.compute.get("waits_since", cloud.clock.now())
    cloud.plan("compute_look", node, next_look(cloud, since))


def lack(cloud: Ledger, node: NodeRecord) -> ApiError | None:
    """Return why a record cannot be created now, if so."""
    if node.compute.get("held"):
        return cloud.failure("stock_out", node)
    where = {**cloud.place(node), "verb": "create"}
    for kind in _CAPACITY:
        if cloud.faults.hit(kind, cloud.clock.now(), **where):
            return cloud.failure(kind, node)
    return reservations.lack(cloud, node) or quota.refusal(cloud, node)


def begin_creation(cloud: Ledger, node: NodeRecord) -> None:
    """Begin to create the machines of an instance or a group."""
    drop_tasks(cloud, node, "compute_look", "compute_expire")
    operation = cloud.operations.get(str(node.compute.pop("operation", "")))
    granted = node.compute.pop("granted", False)
    node.compute.pop("not_after", None)
    reservations.hold(cloud, node)
    cloud.change(node, state="CREATING")
    delay = cloud.delay("create", node)
    if granted:
        # Capacity that the cloud's owner granted is not lost meanwhile.
        name = operation.name if operation else ""
        cloud.plan("create", node, cloud.clock.due(delay), name)
    else:
        cloud.schedule("create", node, delay, operation)


def expire(cloud: Ledger, task: Task, node: NodeRecord) -> None:
    """Remove an instance that was not granted in time; only its operation has the reason."""
    cloud.finish(task)
    if node.state == "PENDING":
        fail_insertion(cloud, node, cloud.failure("stock_out", node))


def fail_insertion(cloud: Ledger, node: NodeRecord, error: ApiError) -> None:
    """Remove an instance that could not be created."""
    end_insertion(cloud, node, error)
    drop_tasks(cloud, node)
    cloud.forget(node)


def creation_failed(cloud: Ledger, node: NodeRecord, error: ApiError) -> None:
    """Let a group wait again, because its machines could not be created together."""
    note_error(cloud, node, error)
    cloud.change(node, state="PENDING")
    now = node.compute["waits_since"] = cloud.clock.now()
    cloud.plan("compute_look", node, next_look(cloud, now))


def note_error(cloud: Ledger, node: NodeRecord, error: ApiError) -> None:
    """Record for a group why its machines are not created."""
    group = node.compute.get("group")
    if group is None:
        return
    told = {**shown_error(error), "timestamp": cloud.clock.timestamp()}
    group["progress"] = told
    known = group.setdefault("errors", [])
    if not known or known[-1]["message"] != told["message"]:
        names = [machine["name"] for machine in node.machines[:1]]
        known.append({**told, "instance": names[0] if names else ""})
        del known[:-ERRORS]
    cloud.change(node)


def shown_error(error: ApiError) -> dict[str, Any]:
    """Return an error as the entry of a list of errors, without what is about HTTP."""
    detail: dict[str, Any] = next(
        (item["compute"] for item in error.details if "compute" in item), {}
    )
    entry = {"code": detail.get("code", error.status), "message": error.message}
    if "errorDetails" in detail:
        entry["errorDetails"] = detail["errorDetails"]
    return entry


def end_insertion(cloud: Ledger, node: NodeRecord, error: ApiError) -> None:
    """End the operation of an instance that has waited."""
    cloud.conclude(str(node.compute.pop("operation", "")), error=error)


def drop_tasks(cloud: Ledger, node: NodeRecord, *kinds: str) -> None:
    """End the tasks of these kinds, or all."""
    for task in cloud.tasks_of(node):
        if not kinds or task.kind in kinds:
            cloud.finish(task, error=errors.cancelled())


def done(cloud: Ledger, task: Task, node: NodeRecord) -> None:
    """End an operation whose work is done."""
    cloud.finish(task, node)


def run_out(cloud: Ledger, task: Task, node: NodeRecord) -> None:
    """End an instance at the end of its run duration or reservation, by its own action."""
    cloud.finish(task)
    if node.state not in ("READY", "RESTARTING", "STARTING"):
        return
    if node.is_group:
        workers = list(range(len(node.machines)))
        remove_instances(cloud, node, workers, "delete" if is_deleted_at_end(node) else "stop")
    elif is_deleted_at_end(node):
        take_down(cloud, node, None)
    else:
        drop_tasks(cloud, node)
        cloud.change(node, state="STOPPING")
        cloud.schedule("stop", node, cloud.delay("stop", node), None)


def take_down(cloud: Ledger, node: NodeRecord, operation: OperationRecord | None) -> None:
    """Begin to delete an instance or a group, once no started task makes its machines.

    Machines have the names of instances, so a new instance must not meet what is left of an old
    one.
    """
    end_insertion(cloud, node, errors.cancelled())
    if any(task.started and task.kind in _MAKING for task in cloud.tasks_of(node)):
        name = operation.name if operation else ""
        cloud.plan("compute_take_down", node, cloud.clock.now() + RETRY, name)
    else:
        cloud.take_down(node, operation)


def take_down_later(cloud: Ledger, task: Task, node: NodeRecord) -> None:
    """Try again to delete an instance or a group."""
    operation = cloud.operations.get(task.operation or "")
    task.operation = None
    cloud.finish(task)
    take_down(cloud, node, operation)


def remove_instances(
    cloud: Ledger, node: NodeRecord, workers: list[int], how: str, operation: str = ""
) -> None:
    """Begin to stop or delete instances of a group, which notices it afterwards."""
    for worker in workers:
        node.machines[worker]["status"] = "STOPPING"
    cloud.change(node)
    due = cloud.clock.due(cloud.delay(how, node))
    cloud.plan(f"vm_{how}", node, due, operation, workers=workers)


def instances_lost(cloud: Ledger, node: NodeRecord) -> None:
    """Let a group make its lost instances again if it repairs them."""
    own = [str(machine.get("status", "")) for machine in node.machines]
    lost = [worker for worker, status in enumerate(own) if status in (GONE, "TERMINATED")]
    if lost and repairs(node) and node.state == "READY":
        begin_repair(cloud, node, lost)
    elif len(lost) == len(own) and node.state == "READY":
        cloud.change(node, state="TERMINATED" if set(own) == {GONE} else "STOPPED", health="")


def begin_repair(cloud: Ledger, node: NodeRecord, workers: list[int]) -> None:
    """Begin to make instances of a group again, under the same names with new boot disks."""
    for worker in workers:
        node.machines[worker]["status"] = "PROVISIONING"
        note_operation(cloud, node, "compute.instances.repair.recreateInstance", worker)
    cloud.change(node)
    cloud.plan("vm_make", node, cloud.clock.due(cloud.delay("create", node)), workers=workers)


def note_operation(cloud: Ledger, node: NodeRecord, verb: str, worker: int) -> OperationRecord:
    """Add an operation of the service on an instance, which is done at once."""
    operation = cloud.begin(verb, node, "v1")
    aim_at(cloud, operation, node, worker)
    cloud.conclude(operation.name)
    return operation


def aim_at(cloud: Ledger, operation: OperationRecord, node: NodeRecord, worker: int) -> None:
    """Make an instance the target of an operation on its group."""
    machine = node.machines[worker]
    operation.target = f"projects/{cloud.project}/zones/{node.zone}/instances/{machine['name']}"
    operation.target_id = machine["id"]
    cloud.store.save("operation", operation.name, operation.to_dict())


def node_changed(cloud: Ledger, node: NodeRecord) -> None:
    """Plan the end of an instance or a group that has come up, if it has one."""
    if cloud.nodes.get(node.key) is not node:
        reservations.release(cloud, node)
        return
    compute, now = node.compute, cloud.clock.now()
    if node.state == "READY" and "up" not in compute:
        compute |= {"up": True, "started": now}
        compute.get("group", {}).pop("progress", None)
        duration = run_seconds(node)
        ends = (duration and now + duration, reservations.end_of(cloud, node))
        known = [moment for moment in ends if moment is not None]
        if known:
            compute["ends"] = min(known)
            cloud.plan("compute_run_out", node, min(known))
        cloud.change(node)
    elif node.state in ("STOPPED", "TERMINATED", "EMPTY", "PENDING") and compute.pop("up", None):
        compute.pop("ends", None)
        compute["stopped"] = now
        reservations.release(cloud, node)
        drop_tasks(cloud, node, "compute_run_out")
        cloud.change(node)


STEPS: dict[str, Callable[[Ledger, Task, NodeRecord], None]] = {
    "compute_look": look,
    "compute_expire": expire,
    "compute_done": done,
    "compute_run_out": run_out,
    "compute_take_down": take_down_later,
}
