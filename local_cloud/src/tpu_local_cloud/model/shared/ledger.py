"""The records of the local cloud: nodes, operations and tasks, each saved when it changes.

Requests and work on machines run in many threads; the lock guards these records.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ... import errors
from ...compute_errors import FAILURES
from ...errors import ApiError
from ...machines import MachineBackend
from ...tables._schema.accelerators import API_ENUM, AcceleratorType, parse
from .addresses import AddressBook
from .clock import Clock
from .faults import Faults
from .history import Event, History, Kind, actor
from .queue_records import QueueRecord, ReservationRecord
from .records import NodeRecord, OperationRecord, Task, operation_name
from .schema import output_only
from .store import Store
from .surroundings import Surroundings

# Default seconds until an operation fails late.
LATE = 120.0
# Planned tasks that do not block other operations on the node.
PLANS = (
    "maintenance_window",
    "notice_over",
    "compute_look",
    "compute_expire",
    "compute_run_out",
    "compute_done",
)
# Default seconds for which a new resource is invisible.
INVISIBLE = 60.0
# Tasks that never happen are planned this many seconds ahead: ten years.
NEVER = 3.2e8
_EMPTY = {"@type": "type.googleapis.com/google.protobuf.Empty"}


class Ledger:
    """The state of one project's cloud, and the only ways to change it."""

    def __init__(
        self,
        backend: MachineBackend,
        store: Store,
        clock: Clock,
        project: str,
        number: str,
    ) -> None:
        self.backend = backend
        self.store = store
        self.clock = clock
        self.project = project
        self.number = number
        self.faults = Faults(lambda faults: store.save("faults", "faults", {"faults": faults}))
        self.history = History()
        self.requests: Counter[str] = Counter()
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.nodes: dict[str, NodeRecord] = {}
        # The workers whose node is gone and whose machines run on, by internal address.
        self.lost: dict[str, tuple[NodeRecord, int]] = {}
        self.operations: dict[str, OperationRecord] = {}
        self.tasks: dict[str, Task] = {}
        self.queued: dict[str, QueueRecord] = {}
        self.reservations: dict[str, ReservationRecord] = {}
        # Called, under the lock, for each changed or deleted node.
        self.on_node: Callable[[NodeRecord], None] = lambda _node: None
        # The nodes' disks may have changed.
        self.on_attachment: Callable[[], None] = lambda: None
        self._published: set[str] = set()
        self.project_metadata: dict[str, str] = {}
        self.delays: dict[str, float] = {}
        self.around = Surroundings(store)
        self.addresses = AddressBook(backend)
        self._load()

    def _load(self) -> None:
        for document in self.store.load("clock"):
            self.clock.restore(document)
        for document in self.store.load("faults"):
            self.faults.restore(document["faults"])
        self.clock.on_change = self._save_clock
        self._save_clock()
        for document in self.store.load("node"):
            node = NodeRecord(**document)
            self.nodes[node.key] = node
            self.addresses.enter(node)
            self.note("found", node)
        for document in self.store.load("queued"):
            queued = QueueRecord.from_dict(document)
            self.queued[queued.key] = queued
            self.note_queued("found", queued)
        for document in self.store.load("reservation"):
            reservation = ReservationRecord(**document)
            self.reservations[reservation.key] = reservation
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
        """Delete everything but the time."""
        with self.lock:
            for node in self.nodes.values():
                self.note("gone", node)
            for queued in self.queued.values():
                self.note_queued("gone", queued)
            self.queued.clear()
            self.reservations.clear()
            self.nodes.clear()
            self.lost.clear()
            self.operations.clear()
            self.tasks.clear()
            self.addresses.clear()
            self.faults.clear()
            self.project_metadata = {}
            self.store.clear()
            self.around.clear()
            self._save_clock()
            self.store.save("delays", "delays", self.delays)

    # Reading ----------------------------------------------------------------------------------

    def advance(self) -> None:
        """Carry out what is due; the cloud knows how."""
        raise NotImplementedError

    @contextmanager
    def changing(self) -> Iterator[Ledger]:
        """Hold the lock; carry out what is due when a request has changed something."""
        with self.lock:
            yield self
        self.advance()

    def resource(self, zone: str, name: str) -> str:
        """Return the full name of a node."""
        return f"projects/{self.project}/locations/{zone}/nodes/{name}"

    def render(self, node: NodeRecord, version: str = "v2") -> dict[str, Any]:
        """Return a node as a version of the API shows it."""
        shown = node.render(self.project, version)
        odd = self.faults.hit("unknown_fields", self.clock.now(), **self.place(node))
        if odd:
            shown |= {"bootDisk": {}, "useTpuVm": True}
            shown["health"] = odd.options.get("health", "HEALTH_OF_TOMORROW")
            shown["state"] = odd.options.get("state", shown["state"])
        return shown

    def render_queued(self, queued: QueueRecord, version: str = "v2") -> dict[str, Any]:
        """Return a queued resource as a version of the API shows it."""
        shown = queued.render(self.project, version)
        odd = self.faults.hit("unknown_fields", self.clock.now(), **queued.place)
        if odd:
            shown["provisioningEstimate"] = {}
            shown["state"]["state"] = odd.options.get("state", shown["state"]["state"])
        return shown

    def worker_at(self, address: str) -> tuple[NodeRecord, int] | None:
        """Return the worker that has this internal address."""
        if address in self.lost:  # another node may have its name by now
            return self.lost[address]
        found = self.addresses.worker_at(address)
        node = self.nodes.get(found[0]) if found else None
        return (node, found[1]) if found and node else None

    # Nodes ------------------------------------------------------------------------------------

    def note(self, kind: Kind, node: NodeRecord) -> None:
        """Record a node's change in the history."""
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
                queued=node.queued_resource,
                api=node.api,
            )
        )

    def enter(self, node: NodeRecord) -> None:
        """Add a new node."""
        with self.lock:
            node.created = self.clock.timestamp()
            node.visible_from = self._visible_from(self.place(node))
            self.nodes[node.key] = node
            self.note("created", node)

    def _visible_from(self, place: dict[str, Any]) -> float:
        now = self.clock.now()
        hidden = self.faults.hit("invisible", now, **place)
        return now + float(hidden.options.get("seconds", INVISIBLE)) if hidden else 0.0

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
                self.on_node(node)
                self.on_attachment()

    def forget(self, node: NodeRecord) -> None:
        """Delete a node's record; its addresses are free again."""
        with self.lock:
            self.addresses.release(node)
            self._leave(node)

    def let_run_on(self, node: NodeRecord) -> None:
        """Delete a node's record alone: its machines run on, and keep their addresses."""
        with self.lock:
            for worker, machine in enumerate(node.machines):
                self.lost[machine["internal_ip"]] = (node, worker)
            self._leave(node)

    def _leave(self, node: NodeRecord) -> None:
        if self.nodes.pop(node.key, None):
            self.note("gone", node)
        self.store.delete("node", node.key)
        self.on_attachment()
        self.on_node(node)

    def publish(self, node: NodeRecord, worker: int, namespace: str, key: str, value: str) -> None:
        """Set a guest attribute."""
        with self.lock:
            node.guest[worker].setdefault(namespace, {})[key] = value
            self._published.add(node.key)

    def has_published(self) -> bool:
        """Return whether there is something for `save_published` to save."""
        return bool(self._published)

    def save_published(self) -> None:
        """Save what machines published since the last call, because a thousand may publish at once.

        If the server is killed before, they notice the loss and publish again.
        """
        with self.lock:
            found = [self.nodes[key] for key in self._published if key in self.nodes]
            self._published.clear()
            if found:
                self.store.save_all("node", [(node.key, node.to_dict()) for node in found])

    def set_project_metadata(self, items: dict[str, str]) -> None:
        """Replace the project's common instance metadata."""
        with self.lock:
            self.project_metadata = items
            self.store.save("project", "metadata", items)

    def new_node(
        self, zone: str, name: str, body: dict[str, Any], kind: AcceleratorType, version: str
    ) -> NodeRecord:
        """Return the record of a node that does not exist yet; its addresses are taken."""
        given = {k: v for k, v in body.items() if k not in output_only("v2", "Node")}
        own = self._completed(zone, given)
        own["acceleratorType"] = kind.name
        own["acceleratorConfig"] = {"type": API_ENUM[kind.generation], "topology": kind.topology}
        node = NodeRecord(zone, name, own, api_version=version.upper().replace("ALPHA", "_ALPHA"))
        self.addresses.equip(node, kind.workers)
        return node

    def _completed(self, zone: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return a node's body with the defaults."""
        region = f"projects/{self.project}/regions/{errors.region_of(zone)}"
        network = {
            "network": f"projects/{self.project}/global/networks/default",
            "subnetwork": f"{region}/subnetworks/default",
        }
        account = {
            "email": f"{self.number}-compute@developer.gserviceaccount.com",
            "scope": ["https://www.googleapis.com/auth/cloud-platform"],
        }
        own = {k: v for k, v in body.get("serviceAccount", {}).items() if v}
        completed = {**body, "serviceAccount": {**account, **own}}
        if body.get("networkConfigs"):
            completed["networkConfigs"] = [{**network, **card} for card in body["networkConfigs"]]
        else:
            completed["networkConfig"] = {**network, **body.get("networkConfig", {})}
        return completed

    def take_down(self, node: NodeRecord, operation: OperationRecord | None = None) -> None:
        """Begin to delete a node; other operations on it fail as cancelled."""
        for task in self.tasks_of(node):
            self.finish(task, error=errors.cancelled())
        self.change(node, state="DELETING")
        self.schedule("delete", node, self.delay("delete", node), operation)

    # Queued resources -------------------------------------------------------------------------

    def note_queued(self, kind: Kind, queued: QueueRecord) -> None:
        """Record a queued resource's change in the history."""
        self.history.append(
            Event(
                at=self.clock.now(),
                kind=kind,
                zone=queued.zone,
                name=queued.name,
                what="queued",
                state=queued.state,
                chips=queued.chips,
                tier=queued.tier,
                accelerator_type=queued.orders[0].accelerator_type if queued.orders else "",
                labels=queued.labels,
                by=actor(),
            )
        )

    def enter_queued(self, queued: QueueRecord) -> None:
        """Add a new queued resource."""
        with self.lock:
            queued.created = self.clock.timestamp()
            queued.visible_from = self._visible_from(queued.place)
            self.queued[queued.key] = queued
            self.store.save("queued", queued.key, queued.to_dict())
            self.note_queued("created", queued)

    def change_queued(self, queued: QueueRecord, **fields: Any) -> None:
        """Give a queued resource's record these values."""
        with self.lock:
            before = queued.state
            for key, value in fields.items():
                setattr(queued, key, value)
            if self.queued.get(queued.key) is queued:
                if queued.state != before:
                    self.note_queued("changed", queued)
                self.store.save("queued", queued.key, queued.to_dict())

    def forget_queued(self, queued: QueueRecord) -> None:
        """Delete a queued resource's record."""
        with self.lock:
            if self.queued.pop(queued.key, None):
                self.note_queued("gone", queued)
            self.store.delete("queued", queued.key)

    # Operations and their tasks ---------------------------------------------------------------

    def tasks_of(self, node: NodeRecord | QueueRecord) -> list[Task]:
        """Return the running and planned tasks of a node or a queued resource."""
        return [task for task in self.tasks.values() if task.node == node.key]

    def claims(self) -> Iterator[tuple[str, str, str]]:
        """Iterate over all that uses the TPU API's quota, dead or alive, as (zone, type, tier)."""
        for node in self.nodes.values():
            if node.api == "tpu":
                yield node.zone, node.accelerator_type, node.tier
        for queued in self.queued.values():
            for order in queued.orders:
                made = self.nodes.get(f"{queued.zone}/{order.name}")
                if made is None or made.queued_resource != queued.name:
                    yield queued.zone, order.accelerator_type, queued.tier

    def place(self, node: NodeRecord) -> dict[str, str]:
        """Return the properties by which a fault matches a node."""
        return {
            "zone": node.zone,
            "node": node.name,
            "accelerator_type": node.accelerator_type,
            "tier": node.tier,
            "service": node.api,
        }

    def refuse_if_busy(self, node: NodeRecord, verb: str, but_allow: tuple[str, ...] = ()) -> None:
        """Raise if another operation on the node runs."""
        where = {**self.place(node), "verb": verb}
        if self.faults.hit("busy", self.clock.now(), **where) or any(
            task.kind not in but_allow or (task.kind == "create" and task.started)
            for task in self.tasks_of(node)
            if task.kind not in PLANS
        ):
            raise errors.busy()

    def begun(self, request_id: str, verb: str, resource: str) -> OperationRecord | None:
        """Return the operation that the same request began earlier, if it has an id."""
        wanted = (request_id, verb, resource)
        found = (o for o in self.operations.values() if (o.request_id, o.verb, o.target) == wanted)
        return next(found, None) if request_id else None

    def replayed(self, request_id: str, request: str) -> OperationRecord | None:
        """Return the operation of the same request; refuse an id that another request had."""
        if not request_id:
            return None
        for operation in self.operations.values():
            if operation.request_id == request_id and operation.api == "tpu":
                if operation.request != request:
                    raise errors.incompatible_request_id()
                return operation
        return None

    def open_operation(
        self, verb: str, target: NodeRecord | QueueRecord, version: str, **more: str
    ) -> OperationRecord:
        """Add an operation on a node or a queued resource."""
        full = target.resource(self.project)
        operation = OperationRecord(target.zone, verb, full, version, **more)  # type: ignore[arg-type]
        operation.name = operation_name(self.clock.now())
        operation.created = self.clock.timestamp()
        self.operations[operation.name] = operation
        self.store.save("operation", operation.name, operation.to_dict())
        return operation

    def begin(
        self, verb: str, node: NodeRecord, version: str, request_id: str = ""
    ) -> OperationRecord:
        """Open an operation on a node."""
        operation = self.open_operation(verb, node, version, request_id=request_id)
        kept = ("state", "health", "maintenance_event", "maintenance")
        operation.before = {name: getattr(node, name) for name in kept}
        operation.api, operation.target_id = node.api, node.uid
        where = {**self.place(node), "verb": verb}
        stuck = self.faults.hit("stuck_operation", self.clock.now(), **where)
        operation.stuck = stuck is not None
        operation.held = str(stuck and stuck.options.get("hold")).lower() == "true"
        self.store.save("operation", operation.name, operation.to_dict())
        if node.key not in self.nodes:
            self.enter(node)
        return operation

    def schedule(
        self,
        kind: str,
        node: NodeRecord,
        delay: float,
        operation: OperationRecord | None,
        refusal: ApiError | None = None,
        **options: Any,
    ) -> None:
        """Plan the transition of an operation, or its failure."""
        failure, seconds = self._failure(kind, node)
        failure = failure or refusal
        # The service's own deletions would stay incomplete, because no client repeats them.
        if failure and not (kind == "delete" and operation is None):
            delay = min(delay, self.delays["fail"]) if seconds is None else seconds
            options["failure"] = {"status": failure.status, "message": failure.message}
            if node.api == "compute":
                options["failure"]["details"] = failure.details
        held = operation is not None and operation.held
        due = self.clock.now() + NEVER if held else self.clock.due(delay)
        self.plan(kind, node, due, operation.name if operation else "", **options)
        self.store.save("node", node.key, node.to_dict())

    def set_delays(self, wanted: dict[str, Any]) -> None:
        """Change how long transitions take, also after a restart."""
        self._time(wanted)
        if wanted:
            self.store.save("delays", "delays", self.delays)

    def _time(self, wanted: dict[str, Any]) -> None:
        """Change how long transitions take; a name is a verb, or verb:type, or verb:generation.

        `all` stands for all of them except those that are also named.
        """
        seconds = {name: float(value) for name, value in wanted.items()}
        for name, value in seconds.items():
            verb = name.partition(":")[0]
            if name != "all" and verb not in self.delays:
                known = ", ".join(["all", *sorted(n for n in self.delays if ":" not in n)])
                raise ValueError(f"there is no delay {name!r}; there are: {known}")
            if not 0 <= value < NEVER:
                raise ValueError(f"the delay {name} cannot be {value:g} seconds")
        if "all" in seconds:
            self.delays = dict.fromkeys(self.delays, seconds.pop("all"))
        self.delays.update(seconds)

    def delay(self, verb: str, node: NodeRecord) -> float:
        """Return how long a transition takes: by the type, the generation, or the default."""
        known = parse(node.accelerator_type)
        names = (f"{verb}:{node.accelerator_type}", f"{verb}:{known.generation if known else ''}")
        return next((self.delays[n] for n in names if n in self.delays), self.delays[verb])

    def plan(
        self,
        kind: str,
        target: NodeRecord | QueueRecord,
        due: float,
        operation: str = "",
        **options: Any,
    ) -> None:
        """Schedule a task."""
        task = Task(kind, target.key, due, operation or None, options)
        self.tasks[task.id] = task
        self.store.save("task", task.id, task.to_dict())

    def _failure(self, verb: str, node: NodeRecord) -> tuple[ApiError | None, float | None]:
        """Return the error with which an operation on a node will fail, and after how long."""
        now, where = self.clock.now(), {**self.place(node), "verb": verb}
        for kind in errors.OPERATION_FAILURES:
            # Deleting needs no capacity.
            needed = ("create", "start") if kind != "operation_internal" else (verb,)
            struck = self.faults.hit(kind, now, **where) if verb in needed else None
            if struck:
                return self.failure(kind, node, **struck.options), None
        late = self.faults.hit("late_failure", now, **where)
        if late:
            error = self.failure(str(late.options.get("error", "operation_internal")), node)
            return error, float(late.options.get("seconds", LATE))
        return None, None

    def failure(self, kind: str, node: NodeRecord, **options: Any) -> ApiError:
        """Return the error with which the fault of this kind ends an operation on a node."""
        if node.api == "compute":
            where = f"projects/{self.project}/zones/{node.zone}"
            machine_type = str(node.compute.get("machineType", ""))
            return FAILURES[kind](where, machine_type, node.tier)
        return errors.OPERATION_FAILURES[kind](node.zone, **options)

    def finish(
        self,
        task: Task,
        node: NodeRecord | QueueRecord | None = None,
        error: ApiError | None = None,
        **fields: Any,
    ) -> None:
        """End a task: set the node's fields, and mark the operation as done."""
        with self.lock:
            if self.tasks.pop(task.id, None) is None:
                return  # it was ended while it ran
            self.store.delete("task", task.id)
            if isinstance(node, NodeRecord):
                self.change(node, **fields)
            self.conclude(task.operation or "", node, error)

    def conclude(
        self,
        name: str,
        target: NodeRecord | QueueRecord | None = None,
        error: ApiError | None = None,
    ) -> None:
        """End an operation, if it exists and runs: with an error, a resource, or nothing."""
        with self.lock:
            operation = self.operations.get(name)
            if operation is None or operation.done:
                return
            operation.ended = self.clock.timestamp()
            if error:
                operation.error = error.rpc_status()
            elif target is not None and operation.api == "tpu":
                version = operation.api_version
                shown = target.render(self.project, version)
                message = "Node" if isinstance(target, NodeRecord) else "QueuedResource"
                kind = f"type.googleapis.com/google.cloud.tpu.{version}.{message}"
                operation.response = {"@type": kind, **shown}
            else:
                operation.response = dict(_EMPTY)
            self.store.save("operation", operation.name, operation.to_dict())
