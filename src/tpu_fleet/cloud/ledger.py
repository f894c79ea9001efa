"""The records of the local cloud: nodes, operations and tasks, each written down as it changes.

Requests and work on machines come from many threads; the lock guards what is here.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._accelerators import parse

from . import errors
from .addresses import AddressBook
from .clock import Clock
from .errors import ApiError
from .faults import Faults
from .google import attachments
from .google.state import Surroundings
from .history import Event, History, Kind, actor
from .machines import MachineBackend
from .records import NodeRecord, OperationRecord, Task, operation_name
from .store import Store

# Seconds after which an operation fails late, if the fault does not say.
LATE = 120.0
_EMPTY = {"@type": "type.googleapis.com/google.protobuf.Empty"}


class Ledger:
    """What one project's cloud knows, and the only ways in which that changes."""

    def __init__(
        self,
        backend: MachineBackend,
        store: Store,
        clock: Clock,
        project: str,
        number: str,
        cidr: str,
    ) -> None:
        self.backend = backend
        self.store = store
        self.clock = clock
        self.project = project
        self.number = number
        self.cidr = cidr
        self.faults = Faults()
        self.history = History()
        self.requests: Counter[str] = Counter()
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.nodes: dict[str, NodeRecord] = {}
        self.operations: dict[str, OperationRecord] = {}
        self.tasks: dict[str, Task] = {}
        self.project_metadata: dict[str, str] = {}
        self.around = Surroundings(store)
        self.addresses = AddressBook(backend)
        self._load()

    def _load(self) -> None:
        for document in self.store.load("clock"):
            self.clock.restore(document)
        self.clock.on_change = self._save_clock
        self._save_clock()
        for document in self.store.load("node"):
            node = NodeRecord(**document)
            self.nodes[node.key] = node
            self.addresses.enter(node)
            self.note("found", node)
        for document in self.store.load("operation"):
            operation = OperationRecord(**document)
            self.operations[operation.name] = operation
        for document in self.store.load("task"):
            task = Task(**document)
            self.tasks[task.id] = task
        for document in self.store.load("project"):
            self.project_metadata = document

    def _save_clock(self) -> None:
        self.store.save("clock", "clock", self.clock.to_dict())

    def clear(self) -> None:
        """Forget everything but the time."""
        with self.lock:
            for node in self.nodes.values():
                self.note("gone", node)
            self.nodes.clear()
            self.operations.clear()
            self.tasks.clear()
            self.addresses.clear()
            self.faults.clear()
            self.project_metadata = {}
            self.store.clear()
            self.around.clear()
            self._save_clock()

    # Reading ----------------------------------------------------------------------------------

    @property
    def shown_project(self) -> str:
        """Return what stands for the project in the names of answers."""
        return self.number if self.faults.hit("project_number", self.clock.now()) else self.project

    def resource(self, zone: str, name: str) -> str:
        """Return the full name of a node."""
        return f"projects/{self.project}/locations/{zone}/nodes/{name}"

    def render(self, node: NodeRecord, version: str = "v2") -> dict[str, Any]:
        """Return a node as a version of the API shows it."""
        shown = node.render(self.shown_project, self.cidr, version)
        if self.faults.hit("unknown_fields", self.clock.now(), node=node.name, zone=node.zone):
            shown |= {"bootDisk": {}, "useTpuVm": True, "health": "HEALTH_OF_TOMORROW"}
        return shown

    def worker_at(self, address: str) -> tuple[NodeRecord, int] | None:
        """Return the worker that has this internal address."""
        found = self.addresses.worker_at(address)
        node = self.nodes.get(found[0]) if found else None
        return (node, found[1]) if found and node else None

    # Nodes ------------------------------------------------------------------------------------

    def note(self, kind: Kind, node: NodeRecord) -> None:
        """Write into the history what has become of a node."""
        known = parse(node.accelerator_type)
        self.history.append(
            Event(
                at=self.clock.now(),
                kind=kind,
                zone=node.zone,
                name=node.name,
                what="node",
                state=node.state,
                chips=known.chips if known else 0,
                tier=node.tier,
                accelerator_type=node.accelerator_type,
                labels=dict(node.body.get("labels", {})),
                by=actor(),
                uid=node.uid,
            )
        )

    def enter(self, node: NodeRecord) -> None:
        """Let a new node exist."""
        with self.lock:
            node.created = self.clock.timestamp()
            self.nodes[node.key] = node
            self.note("created", node)

    def change(self, node: NodeRecord, **fields: Any) -> None:
        """Give a node's record these values."""
        with self.lock:
            before = node.state
            for key, value in fields.items():
                setattr(node, key, value)
            node.revision += 1
            if self.nodes.get(node.key) is node:
                if node.state != before:
                    self.note("changed", node)
                self.store.save("node", node.key, node.to_dict())
                attachments.note(self)

    def forget(self, node: NodeRecord) -> None:
        """Delete a node's record; its addresses are free again."""
        with self.lock:
            if self.nodes.pop(node.key, None):
                self.note("gone", node)
            self.addresses.release(node)
            self.store.delete("node", node.key)
            attachments.note(self)

    def publish(self, node: NodeRecord, worker: int, namespace: str, key: str, value: str) -> None:
        """Set a guest attribute."""
        with self.lock:
            node.guest[worker].setdefault(namespace, {})[key] = value
            self.store.save("node", node.key, node.to_dict())

    def set_project_metadata(self, items: dict[str, str]) -> None:
        """Replace the project's common instance metadata."""
        with self.lock:
            self.project_metadata = items
            self.store.save("project", "metadata", items)

    # Operations and their tasks ---------------------------------------------------------------

    def tasks_of(self, node: NodeRecord) -> list[Task]:
        """Return what is being done to a node, or will be."""
        return [task for task in self.tasks.values() if task.node == node.key]

    def place(self, node: NodeRecord) -> dict[str, str]:
        """Return what a fault can tell a node by."""
        return {
            "zone": node.zone,
            "node": node.name,
            "accelerator_type": node.accelerator_type,
            "tier": node.tier,
        }

    def refuse_if_busy(self, node: NodeRecord, but_allow: tuple[str, ...] = ()) -> None:
        """Raise if something is done to the node already."""
        if self.faults.hit("busy", self.clock.now(), **self.place(node)) or any(
            task.kind not in but_allow or (task.kind == "create" and task.started)
            for task in self.tasks_of(node)
        ):
            raise errors.busy()

    def begun(self, request_id: str, verb: str, resource: str) -> OperationRecord | None:
        """Return the operation that the same request began earlier, if it has an id."""
        wanted = (request_id, verb, resource)
        found = (o for o in self.operations.values() if (o.request_id, o.verb, o.target) == wanted)
        return next(found, None) if request_id else None

    def begin(
        self, verb: str, node: NodeRecord, version: str, request_id: str = ""
    ) -> OperationRecord:
        """Open an operation on a node."""
        target = node.resource(self.project)
        operation = OperationRecord(node.zone, verb, target, version, request_id=request_id)
        operation.name = operation_name(self.clock.now())
        operation.created = self.clock.timestamp()
        kept = ("state", "health", "maintenance_event")
        operation.before = {name: getattr(node, name) for name in kept}
        where = {**self.place(node), "verb": verb}
        operation.stuck = bool(self.faults.hit("stuck_operation", self.clock.now(), **where))
        self.operations[operation.name] = operation
        self.store.save("operation", operation.name, operation.to_dict())
        if node.key not in self.nodes:
            self.enter(node)
        return operation

    def schedule(
        self, kind: str, node: NodeRecord, delay: float, operation: OperationRecord, **options: Any
    ) -> None:
        """Plan the transition that an operation stands for, or its failure."""
        failure, seconds = self._failure(kind, node)
        if failure:
            delay = delay if seconds is None else seconds
            options["failure"] = {"status": failure.status, "message": failure.message}
        task = Task(kind, node.key, self.clock.due(delay), operation.name, options)
        self.tasks[task.id] = task
        self.store.save("task", task.id, task.to_dict())
        self.store.save("node", node.key, node.to_dict())

    def _failure(self, verb: str, node: NodeRecord) -> tuple[ApiError | None, float | None]:
        """Return what an operation on a node is going to fail with, and after how long."""
        now, where = self.clock.now(), {**self.place(node), "verb": verb}
        for kind, make in errors.OPERATION_FAILURES.items():
            # Nobody needs capacity to delete.
            needed = ("create", "start") if kind != "operation_internal" else (verb,)
            if verb in needed and self.faults.hit(kind, now, **where):
                return make(node.zone), None
        late = self.faults.hit("late_failure", now, **where)
        if late:
            make = errors.OPERATION_FAILURES[str(late.options.get("error", "operation_internal"))]
            return make(node.zone), float(late.options.get("seconds", LATE))
        return None, None

    def finish(
        self,
        task: Task,
        node: NodeRecord | None = None,
        error: ApiError | None = None,
        **fields: Any,
    ) -> None:
        """End a task: the node takes on the fields, the operation is done."""
        with self.lock:
            if self.tasks.pop(task.id, None) is None:
                return  # somebody else ended it while it ran
            self.store.delete("task", task.id)
            if node is not None:
                self.change(node, **fields)
            operation = self.operations.get(task.operation or "")
            if operation is None or operation.done:
                return
            operation.ended = self.clock.timestamp()
            if error:
                operation.error = error.rpc_status()
            elif node is not None:
                version = operation.api_version
                shown = node.render(self.project, self.cidr, version)
                kind = f"type.googleapis.com/google.cloud.tpu.{version}.Node"
                operation.response = {"@type": kind, **shown}
            else:
                operation.response = dict(_EMPTY)
            self.store.save("operation", operation.name, operation.to_dict())
