"""The queue of the cloud: requests of clients and of the cloud's owner about queued resources."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from ... import errors
from ...errors import RPC_CODE, ApiError
from ..shared.history import caused_by
from ..shared.ledger import Ledger
from ..shared.queue_records import STATES, WAITING, QueueRecord
from ..shared.records import OperationRecord
from ..shared.without_machines import make_up_guest_attributes, note_running
from . import admission, maintenance, quota
from .queue_request import check_request_id, read
from .queue_steps import fail, new_nodes, nodes_of, wait, wind_down

# In these states the nodes count as running, even while they are invisible.
_WITH_NODES = ("PROVISIONING", "ACTIVE")
_NODE_STATE = {"PROVISIONING": "CREATING", "ACTIVE": "READY", "SUSPENDING": "PREEMPTED"}
# In these states the service can suspend it.
_LIVING = ("CREATING", *WAITING, *_WITH_NODES)


def _digest(*request: Any) -> str:
    """Return a hash that identifies a repeated request; its metadata may be secret."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


class Queue:
    """The queued resources of one cloud."""

    def __init__(
        self,
        cloud: Ledger,
        maintain: Callable[..., OperationRecord],
    ) -> None:
        self._cloud = cloud
        self._maintain = maintain

    def get(self, zone: str, name: str) -> QueueRecord:
        """Return a queued resource, or raise not found."""
        cloud = self._cloud
        self._cloud.advance()
        record = cloud.queued.get(f"{zone}/queuedResources/{name}")
        if record is None:
            full = f"projects/{cloud.project}/locations/{zone}/queuedResources/{name}"
            raise errors.not_found(full)
        return record

    def within(self, zone: str) -> list[QueueRecord]:
        """Return the queued resources of a zone, or of all for `-`, in the order of their names."""
        cloud = self._cloud
        self._cloud.advance()
        with cloud.lock:
            found = [record for record in cloud.queued.values() if zone in ("-", record.zone)]
        return sorted(found, key=lambda record: (record.zone, record.name))

    # Requests of clients --------------------------------------------------------------------

    def create(
        self, zone: str, name: str, body: dict[str, Any], version: str, request_id: str = ""
    ) -> OperationRecord:
        """Put a request into the queue; a repeated request is queued once."""
        check_request_id(request_id)
        self._cloud.advance()
        with self._cloud.changing() as cloud:
            request = _digest("create", zone, name, body)
            earlier = cloud.replayed(request_id, request)
            if earlier:
                return earlier
            name = name or f"qr-{uuid4().hex[:12]}"
            projects = (cloud.project, cloud.number)
            record = read(zone, name, body, version, projects, cloud.clock.now())
            if record.key in cloud.queued:
                raise errors.already_exists(record.resource(cloud.project))
            self._admit(record)
            cloud.enter_queued(record)
            operation = self._begin("create", record, version, request_id, request)
            due = cloud.clock.due(cloud.delays["queue_accept"])
            cloud.plan("queue_accept", record, due, operation.name)
            return operation

    def _admit(self, record: QueueRecord) -> None:
        cloud, zone = self._cloud, record.zone
        kinds = []
        for order in record.orders:
            kind = admission.check_form(cloud, zone, order.name, order.body)
            order.accelerator_type = kind.name
            kinds.append(kind)
        for order in record.orders:
            if f"{zone}/{order.name}" in cloud.nodes:
                raise errors.already_exists(cloud.resource(zone, order.name))
        for kind, many in Counter(kinds).items():
            where = {"queued": record.name, "node": [order.name for order in record.orders]}
            quota.refuse(cloud, zone, kind, record.tier, many, **where)

    def _begin(
        self, verb: str, record: QueueRecord, version: str, request_id: str = "", request: str = ""
    ) -> OperationRecord:
        cloud = self._cloud
        operation = cloud.open_operation(
            verb, record, version, request_id=request_id, request=request
        )
        where = {**record.place, "verb": verb}
        operation.stuck = bool(cloud.faults.hit("stuck_operation", cloud.clock.now(), **where))
        cloud.store.save("operation", operation.name, operation.to_dict())
        return operation

    def _refuse_if_busy(self, record: QueueRecord, verb: str) -> None:
        cloud = self._cloud
        where = {**record.place, "verb": verb}
        if record.state == "DELETING" or cloud.faults.hit("busy", cloud.clock.now(), **where):
            raise errors.busy()

    def delete(
        self, zone: str, name: str, version: str, force: bool = False, request_id: str = ""
    ) -> OperationRecord:
        """Begin to delete a queued resource; with force, its nodes first."""
        check_request_id(request_id)
        self._cloud.advance()
        with self._cloud.changing() as cloud:
            request = _digest("delete", zone, name, force)
            earlier = cloud.replayed(request_id, request)
            if earlier:
                return earlier
            record = self.get(zone, name)
            self._refuse_if_busy(record, "delete")
            if not force and (record.state in _WITH_NODES or nodes_of(cloud, record)):
                raise errors.queued_has_nodes(record.resource(cloud.project), record.state)
            cloud.conclude(record.operation, error=errors.cancelled())
            operation = self._begin("delete", record, version, request_id, request)
            record.operation = operation.name
            wind_down(cloud, record, "DELETING", "GONE", "USER")
            return operation

    def reset(self, zone: str, name: str, version: str) -> OperationRecord:
        """Begin to recreate the nodes of a queued resource."""
        self._cloud.advance()
        with self._cloud.changing() as cloud:
            record = self.get(zone, name)
            self._refuse_if_busy(record, "reset")
            if record.state != "ACTIVE":
                raise errors.wrong_state("reset", record.state)
            operation = self._begin("reset", record, version)
            record.operation = operation.name
            wind_down(cloud, record, "PROVISIONING", "RESET", "USER")
            return operation

    def maintain(self, zone: str, name: str, names: list[str], version: str) -> OperationRecord:
        """Begin the maintenance of some nodes, with all their workers."""
        cloud = self._cloud
        self._cloud.advance()
        with cloud.lock:
            record = self.get(zone, name)
            self._refuse_if_busy(record, "performMaintenanceQueuedResource")
            nodes = {node.name: node for node in nodes_of(cloud, record)}
            if not names:
                raise errors.bad_request("node_names must be set.")
            for node in names:
                if node not in nodes:
                    raise errors.not_found(cloud.resource(zone, node))
                cloud.refuse_if_busy(nodes[node], "performMaintenanceQueuedResource")
                if nodes[node].state != "READY":
                    raise errors.wrong_state("maintenance", nodes[node].state)
                maintenance.check_performable(nodes[node])
            operation = self._begin("performMaintenanceQueuedResource", record, version)
            record.maintenance[operation.name] = list(dict.fromkeys(names))
            cloud.change_queued(record)
        for node in dict.fromkeys(names):
            workers = list(range(len(nodes[node].machines)))
            self._maintain(zone, node, workers, version, verb="performMaintenance")
        return operation

    # Requests of the cloud's owner alone ----------------------------------------------------

    def suspend(self, zone: str, name: str, initiator: str = "SERVICE") -> None:
        """Suspend a queued resource: spot nodes are preempted, others deleted."""
        cloud = self._cloud
        record = self.get(zone, name)
        if initiator not in ("USER", "SERVICE"):
            raise ValueError(f"initiator {initiator!r} is none of USER, SERVICE")
        with cloud.lock, caused_by("client" if initiator == "USER" else "service"):
            self._refuse_unless_living(record, "suspend")
            nodes = nodes_of(cloud, record)
            grace = cloud.delays["suspend"] if nodes else 0.0
            wind_down(cloud, record, "SUSPENDING", "SUSPENDED", initiator, grace)
        if record.tier in ("spot", "best_effort"):
            for node in nodes:
                maintenance.take_back(cloud, node)
        self._cloud.advance()

    def fail(self, zone: str, name: str, status: str = "INTERNAL", message: str = "") -> None:
        """Make a queued resource fail with an error of the service."""
        record = self.get(zone, name)
        if status not in RPC_CODE:
            raise ValueError(f"status {status!r} is none of {', '.join(RPC_CODE)}")
        error = ApiError(status, message) if message else errors.queued_internal()
        with self._cloud.changing() as cloud, caused_by("service"):
            self._refuse_unless_living(record, "fail")
            fail(cloud, record, error)

    def _refuse_unless_living(self, record: QueueRecord, verb: str) -> None:
        if record.state not in _LIVING or record.fate:
            raise errors.wrong_state(verb, record.state)

    def _refuse_unless_waiting(self, record: QueueRecord, verb: str) -> None:
        if record.state not in ("CREATING", *WAITING):
            raise errors.wrong_state(verb, record.state)

    def hold(self, zone: str, name: str) -> None:
        """Keep a queued resource waiting until it is granted."""
        record = self.get(zone, name)
        self._refuse_unless_waiting(record, "hold")
        self._cloud.change_queued(record, held=True, granted=False)

    def grant(self, zone: str, name: str) -> None:
        """Give a waiting queued resource capacity immediately."""
        record = self.get(zone, name)
        with self._cloud.changing() as cloud:
            self._refuse_unless_waiting(record, "grant")
            cloud.change_queued(record, held=False, granted=True)
            self.look()

    def look(self) -> None:
        """Make all waiting requests check for capacity now, because something has changed."""
        cloud, now = self._cloud, self._cloud.clock.now()
        with cloud.lock:
            for record in cloud.queued.values():
                for task in cloud.tasks_of(record):
                    early = record.not_before and record.not_before > now and not record.granted
                    if task.kind == "queue_look" and not early:
                        task.due = min(task.due, now)

    def put(
        self,
        zone: str,
        name: str,
        body: dict[str, Any],
        version: str = "v2",
        state: str = "ACTIVE",
        initiator: str = "",
        error: dict[str, Any] | None = None,
    ) -> QueueRecord:
        """Add a queued resource in any state, with its nodes."""
        cloud = self._cloud
        if state not in STATES:
            raise ValueError(f"state {state!r} is none of {', '.join(STATES)}")
        if cloud.backend.name != "none" and state in (*_WITH_NODES, "SUSPENDING"):
            raise ValueError(
                f"a queued resource can only be {state} after its machines were created"
            )
        self._cloud.advance()
        with cloud.lock, caused_by("service"):
            now = cloud.clock.now()
            record = read(zone, name, body, version, (cloud.project, cloud.number), now)
            if record.key in cloud.queued:
                raise errors.already_exists(record.resource(cloud.project))
            for order in record.orders:
                kind = admission.check_form(cloud, zone, order.name, order.body)
                order.accelerator_type = kind.name
            record.state, record.error = state, error
            if state in ("SUSPENDING", "SUSPENDED"):
                record.initiator = initiator or "SERVICE"
            if state == "FAILED" and error is None:
                record.error = errors.queued_internal().rpc_status()
            record.held = state in ("CREATING", *WAITING)
            record.waits_since = now
            cloud.enter_queued(record)
            if state in WAITING:
                wait(cloud, record)
            if state in (*_WITH_NODES, "SUSPENDING"):
                self._put_nodes(record)
        return record

    def _put_nodes(self, record: QueueRecord) -> None:
        cloud = self._cloud
        # A resource added this way does not change until a client deletes it.
        record.fate = "SUSPENDED" if record.state == "SUSPENDING" else ""
        for node in new_nodes(cloud, record):
            make_up_guest_attributes(node)
            note_running(cloud, node)
            cloud.enter(node)
            node.state = _NODE_STATE[record.state]
            node.health = "HEALTHY" if node.state == "READY" else ""
            cloud.store.save("node", node.key, node.to_dict())
        cloud.change_queued(record)
