"""The cloud itself: requests of its clients and its owner, and the passing of time.

Requests run in many threads. The lock guards the records; work on machines is done outside it.
"""

from __future__ import annotations

import functools
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .. import errors
from ..errors import ApiError
from ..machines import MachineBackend
from .compute.engine import ComputeEngine
from .compute.steps import STEPS as COMPUTE_STEPS
from .compute.steps import node_changed as compute_changed
from .shared import attachments
from .shared.clock import Clock
from .shared.history import caused_by
from .shared.ledger import Ledger
from .shared.records import NodeRecord, OperationRecord, Task
from .shared.schema import UPDATABLE
from .shared.store import Store
from .shared.without_machines import make_up_guest_attributes, note_running
from .storage.buckets import Buckets
from .storage.uploads import Uploads
from .tpu import admission, maintenance, node_values, reservations
from .tpu.queue import Queue
from .tpu.queue_steps import STEPS, node_changed
from .transitions import TRANSITIONS, fail

log = logging.getLogger(__name__)

# Seconds that a transition takes, about as at Google; `fail`: until an operation fails that would
# take longer.
DELAYS = {
    "create": 90.0,
    "delete": 40.0,
    "start": 60.0,
    "stop": 30.0,
    "update": 5.0,
    "maintain": 240.0,
    "fail": 45.0,
}
# The same for queued resources: until one is queued, until it gets capacity or checks again, until
# its nodes appear, how long they stay visible after a suspension, until it is deleted.
QUEUE_DELAYS = {
    "queue_accept": 5.0,
    "queue_grant": 60.0,
    "queue_look": 60.0,
    "provision": 20.0,
    "suspend": 120.0,
    "queue_delete": 10.0,
}
# These tasks only change records.
_AT_ONCE = {*STEPS, *COMPUTE_STEPS}
# Fields of a node that a test may set directly.
SETTABLE = (
    "state", "health", "guest", "uid", "api_version", "health_description", "symptoms"
)  # fmt: skip
# In these states a node is changing, and cannot be updated.
CHANGING = ("CREATING", "STARTING", "RESTARTING", "REPAIRING", "STOPPING", "DELETING")


class Cloud(Ledger):
    """One project's TPUs."""

    def __init__(
        self,
        backend: MachineBackend,
        store: Store,
        clock: Clock,
        project: str = "local-project",
        number: str = "123456789012",
        delays: dict[str, float] | None = None,
        buckets: Path | None = None,
    ) -> None:
        """Begin with what the store has.

        buckets: the folder of the buckets; without one they end with the process.
        """
        super().__init__(backend, store, clock, project, number)
        self.buckets = Buckets(buckets, clock, self.faults, number)
        self.uploads = Uploads(self.buckets)
        self.require_auth = False
        self.delays = {**DELAYS, **QUEUE_DELAYS}
        self._time(delays or {})
        for document in store.load("delays"):
            self.delays.update(document)
        self.queue = Queue(self, self.maintain)
        self.compute = ComputeEngine(self)
        self.on_node = self._note_change
        self.on_attachment = functools.partial(attachments.note, self)
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="machine")
        for node in self.nodes.values():
            if node.state == "READY":
                note_running(self, node)

    def _note_change(self, node: NodeRecord) -> None:
        (node_changed if node.api == "tpu" else compute_changed)(self, node)

    def close(self) -> None:
        """Finish running work on machines, and stop."""
        self.closing.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.save_published()
        self.store.close()
        self.buckets.close()

    # Reading ----------------------------------------------------------------------------------

    def node(self, zone: str, name: str) -> NodeRecord:
        """Return a node, or raise not found."""
        self.advance()
        node = self.nodes.get(f"{zone}/{name}")
        if node is None or node.api != "tpu":
            raise errors.not_found(self.resource(zone, name))
        return node

    def machines_at(self, zone: str, name: str) -> tuple[NodeRecord, list[int]]:
        """Return the record of a node, an instance or a group, and which machines are meant."""
        self.advance()
        with self.lock:
            found = self.nodes.get(f"{zone}/{name}")
            groups = (n for n in self.compute.records(zone) if n.is_group and n.name == name)
            group = next(groups, None)
            node = found if found and found.api == "tpu" else group
            if node is not None:
                return node, list(range(len(node.machines)))
            instance = self.compute.find(zone, name)
        if instance is None:
            raise errors.not_found(self.resource(zone, name))
        return instance[0], [instance[1]]

    def operation(self, zone: str, name: str) -> OperationRecord:
        """Return an operation, or raise not found."""
        self.advance()
        operation = self.operations.get(name)
        if operation is None or operation.zone != zone or operation.api != "tpu":
            raise errors.not_found(f"projects/{self.project}/locations/{zone}/operations/{name}")
        return operation

    def nodes_in(self, zone: str) -> list[NodeRecord]:
        """Return the nodes of a zone, or of all for `-`, in the order of their full names."""
        self.advance()
        with self.lock:
            found = [n for n in self.nodes.values() if n.api == "tpu" and zone in ("-", n.zone)]
        return sorted(found, key=lambda node: (node.zone, node.name))

    # Requests of clients ----------------------------------------------------------------------

    def create(
        self, zone: str, name: str, body: dict[str, Any], version: str, request_id: str = ""
    ) -> OperationRecord:
        """Begin to create a node; a repeated request begins nothing new."""
        self.advance()
        with self.changing():
            earlier = self.begun(request_id, "create", self.resource(zone, name))
            if earlier:
                return earlier
            kind = admission.check(self, zone, name, body)
            key = f"{zone}/{name}"
            if key in self.nodes:
                raise errors.already_exists(self.resource(zone, name))
            node = self.new_node(zone, name, body, kind, version)
            refusal = reservations.claim(self, node)
            operation = self.begin("create", node, version, request_id)
            self.schedule("create", node, self.delay("create", node), operation, refusal)
            return operation

    def delete(self, zone: str, name: str, version: str, request_id: str = "") -> OperationRecord:
        """Begin to delete a node; a repeated request begins nothing new."""
        self.advance()
        with self.changing():
            earlier = self.begun(request_id, "delete", self.resource(zone, name))
            if earlier:
                return earlier
            node = self.node(zone, name)
            self.refuse_if_busy(node, "delete", but_allow=("create", "maintain"))
            operation = self.begin("delete", node, version, request_id)
            self.take_down(node, operation)
            return operation

    def stop(self, zone: str, name: str, version: str) -> OperationRecord:
        """Begin to stop a node."""
        node = self.node(zone, name)
        with self.changing():
            self.refuse_if_busy(node, "stop")
            if node.queued_resource:
                raise errors.belongs_to_queued("stop")
            if len(node.machines) > 1:
                raise errors.single_host_only()
            if node.state != "READY":
                raise errors.wrong_state("stop", node.state)
            operation = self.begin("stop", node, version)
            self.change(node, state="STOPPING")
            self.schedule("stop", node, self.delay("stop", node), operation)
            return operation

    def start(self, zone: str, name: str, version: str) -> OperationRecord:
        """Begin to start a stopped node."""
        node = self.node(zone, name)
        with self.changing():
            self.refuse_if_busy(node, "start")
            if node.queued_resource:
                raise errors.belongs_to_queued("start")
            if node.spot:
                raise errors.cannot_restart(node.tier == "spot")
            if node.state != "STOPPED":
                raise errors.wrong_state("start", node.state)
            operation = self.begin("start", node, version)
            self.change(node, state="STARTING")
            self.schedule("start", node, self.delay("start", node), operation)
            return operation

    def update(
        self, zone: str, name: str, body: dict[str, Any], mask: list[str], version: str
    ) -> OperationRecord:
        """Begin to replace the fields that the mask names; the rest of the body is ignored."""
        node = self.node(zone, name)
        if not mask or any(field not in UPDATABLE for field in mask):
            raise errors.invalid_mask()
        with self.changing():
            self.refuse_if_busy(node, "update")
            if node.state in CHANGING or node.state in ("PREEMPTED", "TERMINATED"):
                raise errors.wrong_state("update", node.state)
            fields = {UPDATABLE[field]: body.get(UPDATABLE[field]) for field in mask}
            node_values.check(self, zone, fields)
            disks = fields.get("dataDisks") or []
            attachments.check(self, zone, name, disks, len(node.machines))
            operation = self.begin("update", node, version)
            self.schedule("update", node, self.delay("update", node), operation, fields=fields)
            return operation

    def maintain(
        self,
        zone: str,
        name: str,
        workers: list[int],
        version: str,
        address: str | bool = True,
        verb: str = "simulateMaintenanceEvent",
    ) -> OperationRecord:
        """Begin a maintenance: the workers reboot; with address, under another external one."""
        return self.maintain_machines(self.node(zone, name), workers, version, address, verb)

    def maintain_machines(
        self,
        node: NodeRecord,
        workers: list[int],
        version: str,
        address: str | bool = True,
        verb: str = "simulateMaintenanceEvent",
    ) -> OperationRecord:
        """Begin a maintenance of a node, an instance or a group."""
        with self.changing():
            self.refuse_if_busy(node, verb)
            if node.state != "READY":
                raise errors.wrong_state("maintenance", node.state)
            if any(worker not in range(len(node.machines)) for worker in workers):
                raise errors.bad_request(f"worker {workers} is not one of the node's.")
            if isinstance(address, str) and self.addresses.has_external(address):
                raise errors.bad_request(f"the external address {address} is in use.")
            if verb == "performMaintenance":
                maintenance.check_performable(node)
            operation = self.begin(verb, node, version)
            if verb == "performMaintenance":
                maintenance.mark_begun(self, node)
            else:
                event = "TERMINATE_ON_HOST_MAINTENANCE"
                self.change(node, health="UNHEALTHY_MAINTENANCE", maintenance_event=event)
            self.schedule(
                "maintain",
                node,
                self.delay("maintain", node),
                operation,
                workers=workers or [0],
                address=address,
            )
            return operation

    def cancel(self, zone: str, name: str) -> None:
        """Cancel an operation as far as possible: cancelling a creation removes the node."""
        operation = self.operation(zone, name)
        with self.lock:
            operation.cancelled = True
            for task in [t for t in self.tasks.values() if t.operation == name and not t.started]:
                if task.kind == "queue_delete":
                    continue  # the nodes are gone already
                self.finish(task, error=errors.cancelled())
                if task.kind == "create" and task.node in self.nodes:
                    self.forget(self.nodes[task.node])
                if task.kind == "queue_accept" and task.node in self.queued:
                    self.forget_queued(self.queued[task.node])
            self.store.save("operation", operation.name, operation.to_dict())

    def forget_operation(self, zone: str, name: str) -> None:
        """Delete the record of an operation."""
        operation = self.operation(zone, name)
        with self.lock:
            del self.operations[operation.name]
            self.store.delete("operation", operation.name)

    # Requests of the cloud's owner alone ------------------------------------------------------

    def preempt(self, zone: str, name: str, state: str = "PREEMPTED", notice: float = 0.0) -> None:
        """Preempt a node in any state: its machines are removed, the node stays to be deleted.

        With notice, the machines' metadata announce it for so many seconds before, and their power
        buttons are pressed; they are removed when all are off, or those seconds are over.
        """
        node, workers = self.machines_at(zone, name)
        if state not in maintenance.TAKEN:
            raise ValueError(f"state {state!r} is none of {', '.join(maintenance.TAKEN)}")
        if notice:
            with self.lock, caused_by("service"):
                self.change(node, preempted=True)
                until = self.clock.now() + notice
                # What has no operating system is not off before.
                due = until if self.backend.name == "none" else self.clock.now()
                self.plan("notice_over", node, due, state=state, workers=workers, until=until)
        elif node.api == "compute":
            self.compute.preempt(node, workers, True if state == "TERMINATED" else None)
        else:
            maintenance.take_back(self, node, state)

    def lose(self, zone: str, name: str) -> None:
        """Have the service forget a node whose machines run on until the cloud is reset.

        So a slice looks whose machines were cut off while Google took it for lost: created again
        under the same name, it has two machines that write to its buckets.
        """
        node = self.machines_at(zone, name)[0]
        if node.api != "tpu" or node.state != "READY" or node.queued_resource:
            raise ValueError("only a node of the Cloud TPU API that is READY, and was not queued")
        with self.lock, caused_by("service"):
            for task in self.tasks_of(node):
                self.finish(task, error=errors.wrong_state(task.kind, "PREEMPTED"))
            self.let_run_on(node)

    def announce_maintenance(self, zone: str, name: str, seconds: float, **more: Any) -> None:
        """Plan a maintenance that begins by itself after so many seconds."""
        with caused_by("service"):
            maintenance.announce(self, self.machines_at(zone, name)[0], seconds, **more)

    def reboot(self, zone: str, name: str, worker: int) -> None:
        """Reboot one machine without an operation of the API."""
        node, workers = self.machines_at(zone, name)
        if worker not in range(len(node.machines)):
            raise errors.bad_request(f"worker {worker} is not one of the node's.")
        worker = workers[0] if len(workers) == 1 else worker
        self.backend.reboot(attachments.machine_spec(self, node, worker))

    def set_fields(self, zone: str, name: str, fields: dict[str, Any]) -> None:
        """Set a node's state, health or other fields for a test."""
        node = self.machines_at(zone, name)[0]
        with self.lock:
            for key in fields:
                if key not in SETTABLE:
                    raise ValueError(f"{key!r} cannot be set; {', '.join(SETTABLE)} can")
            with caused_by("service"):
                self.change(node, **fields)

    def populate(self, nodes: list[tuple[str, str, dict[str, Any]]]) -> None:
        """Add many READY nodes together, as (zone, name, body); for fleets without machines."""
        if self.backend.name != "none":
            raise ValueError("nodes can only be added in bulk to a cloud without machines")
        added = []
        with self.lock:
            for zone, name, body in nodes:
                kind = admission.requested_type(zone, body)
                own = {**self._completed(zone, body), "acceleratorType": kind.name}
                node = NodeRecord(zone, name, own)
                node.state, node.health = "READY", "HEALTHY"
                self.addresses.equip(node, kind.workers)
                make_up_guest_attributes(node)
                note_running(self, node)
                with caused_by("service"):
                    self.enter(node)
                added.append((node.key, node.to_dict()))
        self.store.save_all("node", added)

    def reset(self) -> None:
        """Delete everything."""
        with self.lock, caused_by("service"):
            nodes = [*self.nodes.values(), *(node for node, _worker in self.lost.values())]
            machines = list(dict.fromkeys(m["machine_id"] for node in nodes for m in node.machines))
            disks = [(disk["zone"], disk["name"]) for disk in self.around.disks]
            self.clear()
        self.buckets.clear()
        for machine_id in machines:
            self.backend.delete(machine_id)
        for zone, name in disks:
            self.backend.delete_disk(zone, name)

    # Time -------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        """Return whether there is anything that `advance` would do now, without the lock."""
        now = self.clock.now()
        tasks = [*self.tasks.values()]
        due = any(not task.started and task.due <= now for task in tasks)
        return due or self.faults.has_ended(now) or self.has_published()

    def advance(self) -> None:
        """Run everything that is due, in order, with its consequences.

        Without machines everything happens as of the moment at which it was due, however long ago.
        Work on real machines runs in threads and takes real time.
        """
        self.save_published()
        with self.lock:
            while True:
                now = self.clock.now()
                due = [t for t in self.tasks.values() if not t.started and t.due <= now]
                if not due:
                    self.faults.expire(now)
                    return
                for task in sorted(due, key=lambda t: t.due):
                    known = len(self.tasks)
                    task.started = True
                    if self.backend.name != "none" and task.kind not in _AT_ONCE:
                        self._pool.submit(self._run, task)
                        continue
                    with self.clock.at(task.due):
                        self._run(task)
                    if len(self.tasks) >= known:
                        break  # it caused another task, which may be due before the next

    def _run(self, task: Task) -> None:
        with caused_by("client" if task.operation else "service"):
            self._perform(task)

    def _perform(self, task: Task) -> None:
        node, queued = self.nodes.get(task.node), self.queued.get(task.node)
        try:
            if queued is not None:
                with self.lock:
                    STEPS[task.kind](self, task, queued)
                return
            if node is None:
                self.finish(task)
                return
            if task.kind == "notice_over" and node.api == "compute":
                if not maintenance.shuts_down(self, task, node):
                    return
                self.finish(task)
                stop = True if task.options["state"] == "TERMINATED" else None
                self.compute.preempt(node, task.options["workers"], stop)
                return
            if task.kind in COMPUTE_STEPS:
                with self.lock:
                    COMPUTE_STEPS[task.kind](self, task, node)
                return
            step = fail if "failure" in task.options else TRANSITIONS[task.kind]
            step(self, task, node)
        except ApiError as error:
            self.finish(task, error=error)
        except Exception:
            log.exception("%s of %s failed", task.kind, task.node)
            # Google's word for a node whose repair failed; it can be deleted.
            self.finish(task, node, error=errors.internal(), state="UNKNOWN", health="")
