"""Changes of queued resources over time and with their nodes.

Callers hold the cloud's lock. The same transitions create and delete the machines of these nodes
and of nodes that were created directly.

Winding a queued resource down has a target: its nodes are deleted, and after the last one it
becomes SUSPENDED or FAILED, is created again (RESET), waits again (WAIT) or is deleted (GONE).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ... import errors
from ...errors import ApiError
from ...tables._schema.accelerators import parse
from ..shared.clock import timestamp
from ..shared.ledger import Ledger
from ..shared.queue_records import WAITING, QueueRecord
from ..shared.records import NodeRecord, Task
from ..shared.waiting import next_look
from . import admission, reservations
from .queue_request import FLEX_GENERATIONS


def nodes_of(cloud: Ledger, record: QueueRecord) -> list[NodeRecord]:
    """Return the nodes of a queued resource that exist, in the order of the request."""
    found = (cloud.nodes.get(f"{record.zone}/{order.name}") for order in record.orders)
    return [node for node in found if node and node.queued_resource == record.name]


# The queue --------------------------------------------------------------------------------------


def accept(cloud: Ledger, task: Task, record: QueueRecord) -> None:
    """Put the request into the queue, or refuse it for good."""
    refusal = _refusal(cloud, record)
    if refusal:
        cloud.forget_queued(record)
        raise refusal
    now = cloud.clock.now()
    cloud.change_queued(record, state="WAITING_FOR_RESOURCES", waits_since=now)
    cloud.finish(task, record)
    wait(cloud, record)


def wait(cloud: Ledger, record: QueueRecord) -> None:
    """Plan when a waiting queued resource checks for capacity, and when it gives up."""
    if record.not_after is not None:
        cloud.plan("queue_expire", record, record.not_after)
    first = cloud.clock.due(cloud.delays["queue_grant"])
    cloud.plan("queue_look", record, max(first, record.not_before or first))


def _refusal(cloud: Ledger, record: QueueRecord) -> ApiError | None:
    """Return the error of the create operation, if any."""
    now = cloud.clock.now()
    if cloud.faults.hit("queue_denied", now, **record.place):
        return errors.queue_closed(record.orders[0].accelerator_type, record.zone)
    for order in record.orders:
        kind = parse(order.accelerator_type)
        if record.tier == "flex_start" and (
            kind is None or kind.generation not in FLEX_GENERATIONS
        ):
            return errors.flex_start_not_supported(order.accelerator_type, record.zone)
    missing = cloud.faults.hit("reservation_missing", now, **record.place)
    if missing or reservations.asked_for(cloud, record) == []:
        return errors.reservation_not_found()
    if cloud.faults.hit("operation_internal", now, **record.place, verb="create"):
        return errors.internal()
    return None


def look(cloud: Ledger, task: Task, record: QueueRecord) -> None:
    """Begin to provision if there is capacity; otherwise check again later."""
    cloud.finish(task)
    if record.state not in WAITING:
        return
    if not record.granted and (record.held or not _has_capacity(cloud, record)):
        cloud.plan("queue_look", record, next_look(cloud, record.waits_since))
        return
    for order in record.orders:
        if f"{record.zone}/{order.name}" in cloud.nodes:
            taken = errors.already_exists(cloud.resource(record.zone, order.name))
            fail(cloud, record, taken)
            return
    provision(cloud, record)


def _has_capacity(cloud: Ledger, record: QueueRecord) -> bool:
    for kind in ("stock_out", "reservation_full"):
        if cloud.faults.hit(kind, cloud.clock.now(), **record.place):
            return False
    if reservations.asked_for(cloud, record) is None:
        return True
    source = reservations.with_room(cloud, record)
    record.reservation = source.key if source else ""
    return source is not None


def expire(cloud: Ledger, task: Task, record: QueueRecord) -> None:
    """Give up a request that has waited for as long as it may."""
    cloud.finish(task)
    if record.state in WAITING:
        fail(cloud, record, errors.not_in_time())


def provision(cloud: Ledger, record: QueueRecord) -> None:
    """Begin to provision; the nodes are created after a delay."""
    _drop_tasks(cloud, record)
    cloud.change_queued(record, state="PROVISIONING", fate="", held=False)
    cloud.plan("queue_provision", record, cloud.clock.due(cloud.delays["provision"]))


def new_nodes(cloud: Ledger, record: QueueRecord) -> Iterator[NodeRecord]:
    """Yield the records of the nodes that a queued resource orders; none exists yet."""
    for order in record.orders:
        body = record.node_body(order)
        kind = admission.requested_type(record.zone, body)
        node = cloud.new_node(record.zone, order.name, body, kind, record.api_version)
        node.queued_resource, node.multislice = record.name, order.multislice
        yield node


def make_nodes(cloud: Ledger, task: Task, record: QueueRecord) -> None:
    """Create all the nodes together."""
    cloud.finish(task)
    for node in new_nodes(cloud, record):
        cloud.enter(node)
        if record.granted:
            # Capacity that the cloud's owner granted is not lost meanwhile.
            cloud.plan("create", node, cloud.clock.due(cloud.delay("create", node)))
            cloud.change(node)
        else:
            cloud.schedule("create", node, cloud.delay("create", node), None)


def _activate(cloud: Ledger, record: QueueRecord) -> None:
    ends = record.ends
    if record.run_seconds is not None:
        ends = cloud.clock.now() + record.run_seconds
    cloud.change_queued(record, state="ACTIVE", ends=ends, granted=False)
    if ends is not None:
        for node in nodes_of(cloud, record):
            node.body.setdefault("schedulingConfig", {})["terminationTimestamp"] = timestamp(ends)
            cloud.change(node)
        cloud.plan("queue_run_out", record, ends)
    _conclude(cloud, record)


def _conclude(cloud: Ledger, record: QueueRecord, error: ApiError | None = None) -> None:
    """End the operation that has waited for the queued resource."""
    name, record.operation = record.operation, ""
    cloud.change_queued(record)
    cloud.conclude(name, record, error)


# Winding down -----------------------------------------------------------------------------------


def fail(cloud: Ledger, record: QueueRecord, error: ApiError) -> None:
    """Make a queued resource fail, after its nodes are deleted if it has any."""
    record.error = error.rpc_status()
    if nodes_of(cloud, record):
        wind_down(cloud, record, "SUSPENDING", "FAILED", "SERVICE", cloud.delays["suspend"])
    else:
        _drop_tasks(cloud, record)
        cloud.change_queued(record, state="FAILED", initiator="SERVICE", fate="")
        _conclude(cloud, record, error)


def wind_down(
    cloud: Ledger, record: QueueRecord, state: str, fate: str, initiator: str, grace: float = 0.0
) -> None:
    """Begin to wind down; its nodes stay visible for the time of grace."""
    _drop_tasks(cloud, record)
    cloud.change_queued(record, state=state, fate=fate, initiator=initiator)
    if grace:
        cloud.plan("queue_clear", record, cloud.clock.due(grace))
    else:
        _clear(cloud, record)


def clear(cloud: Ledger, task: Task, record: QueueRecord) -> None:
    """Delete the remaining nodes."""
    cloud.finish(task)
    _clear(cloud, record)


def _clear(cloud: Ledger, record: QueueRecord) -> None:
    left = nodes_of(cloud, record)
    for node in left:
        _take_down(cloud, node)
    if not left:
        _settle(cloud, record)


def _take_down(cloud: Ledger, node: NodeRecord) -> None:
    # Work on its machines ends first; then node_changed handles it.
    if node.state != "DELETING" and not any(task.started for task in cloud.tasks_of(node)):
        cloud.take_down(node)


def _settle(cloud: Ledger, record: QueueRecord) -> None:
    """Enter the final state, after the last node was deleted."""
    if record.fate == "RESET":
        provision(cloud, record)
    elif record.fate == "WAIT":
        now = cloud.clock.now()
        cloud.change_queued(record, state="WAITING_FOR_RESOURCES", fate="", waits_since=now)
        wait(cloud, record)
    elif record.fate == "GONE":
        due = cloud.clock.due(cloud.delays["queue_delete"])
        cloud.plan("queue_delete", record, due, record.operation)
    else:
        cloud.change_queued(record, state=record.fate, fate="")
        _conclude(cloud, record, errors.queued_internal() if record.error else None)


def vanish(cloud: Ledger, task: Task, record: QueueRecord) -> None:
    """Forget a deleted queued resource; in v2 the operation ends with nothing, in alpha with it."""
    cloud.forget_queued(record)
    operation = cloud.operations.get(task.operation or "")
    shown = operation is not None and operation.api_version == "v2alpha1"
    cloud.finish(task, record if shown else None)


def run_out(cloud: Ledger, task: Task, record: QueueRecord) -> None:
    """Delete the nodes when they have run for the requested duration."""
    cloud.finish(task)
    wind_down(cloud, record, "SUSPENDING", "SUSPENDED", "SERVICE", cloud.delays["suspend"])


def _drop_tasks(cloud: Ledger, record: QueueRecord) -> None:
    for task in cloud.tasks_of(record):
        cloud.finish(task, error=errors.cancelled())


STEPS: dict[str, Callable[[Ledger, Task, QueueRecord], None]] = {
    "queue_accept": accept,
    "queue_look": look,
    "queue_expire": expire,
    "queue_provision": make_nodes,
    "queue_run_out": run_out,
    "queue_clear": clear,
    "queue_delete": vanish,
}


# The nodes --------------------------------------------------------------------------------------


def node_changed(cloud: Ledger, node: NodeRecord) -> None:
    """Update a queued resource after a change of one of its nodes.

    Google documents what follows when the last node is deleted or one is preempted. It does not
    document that a multislice keeps its other nodes when a user deletes one, and loses them when
    one is preempted.
    """
    record = cloud.queued.get(f"{node.zone}/queuedResources/{node.queued_resource}")
    if not node.queued_resource or record is None:
        return
    exists = cloud.nodes.get(node.key) is node
    _note_maintained(cloud, record, node, exists)
    left = nodes_of(cloud, record)
    if record.fate:
        if any(task.kind == "queue_clear" for task in cloud.tasks_of(record)):
            return
        if exists:
            _take_down(cloud, node)
        elif not left and not cloud.tasks_of(record):
            _settle(cloud, record)
    elif not exists and node.state == "CREATING":
        _follow_failure(cloud, record, node)
    elif exists and node.state in ("PREEMPTED", "TERMINATED"):
        wind_down(cloud, record, "SUSPENDING", "SUSPENDED", "SERVICE", cloud.delays["suspend"])
    elif all(other.state == "DELETING" for other in left):
        wind_down(cloud, record, "SUSPENDING", "SUSPENDED", "USER")
    elif record.state == "PROVISIONING" and all(other.state == "READY" for other in left):
        _activate(cloud, record)


def _follow_failure(cloud: Ledger, record: QueueRecord, node: NodeRecord) -> None:
    """Handle a node that could not be created."""
    found = [task.options["failure"] for task in cloud.tasks_of(node) if "failure" in task.options]
    status = found[0]["status"] if found else "INTERNAL"
    if status == "RESOURCE_EXHAUSTED":
        # The capacity was lost: back to the queue, as at Google.
        wind_down(cloud, record, "PROVISIONING", "WAIT", "SERVICE")
    else:
        known = status != "INTERNAL"
        fail(cloud, record, ApiError(**found[0]) if known else errors.queued_internal())


def _note_maintained(cloud: Ledger, record: QueueRecord, node: NodeRecord, exists: bool) -> None:
    """End the maintenance of a queued resource when the last of the nodes is back."""
    back = node.state == "READY" and node.health == "HEALTHY"
    under_way = any(task.kind == "maintain" for task in cloud.tasks_of(node))
    if not record.maintenance or (exists and (under_way or not back)):
        return
    for operation, names in list(record.maintenance.items()):
        if node.name in names:
            names.remove(node.name)
        if not names:
            del record.maintenance[operation]
            cloud.conclude(operation, record)
    cloud.change_queued(record)
