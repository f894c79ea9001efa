"""The cloud itself: its nodes and operations, and what happens to them as time passes.

Requests come in on many threads. The lock guards the records; work on machines is done outside it.
"""

from __future__ import annotations

import logging
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._accelerators import (
    API_ENUM,
    AcceleratorType,
)

from . import catalog, errors
from .addresses import AddressBook
from .clock import Clock, timestamp
from .errors import ApiError
from .faults import Faults
from .machines import MachineBackend, MachineSpec
from .records import NODE_ID, NodeRecord, OperationRecord, Task, made_up_host_key
from .schema import OUTPUT_ONLY, UPDATABLE
from .store import Store

log = logging.getLogger(__name__)

# Seconds that a transition takes by the real clock: short, for people who wait.
DELAYS = {"create": 1.0, "delete": 0.5, "start": 0.5, "stop": 0.5, "update": 0.2, "maintain": 1.0}
# With any of these states a node is changing, and takes no update.
CHANGING = ("CREATING", "STARTING", "RESTARTING", "REPAIRING", "STOPPING", "DELETING")


class Cloud:
    """One project's TPUs."""

    def __init__(
        self,
        backend: MachineBackend,
        store: Store,
        clock: Clock,
        project: str = "local-project",
        number: str = "123456789012",
        delays: dict[str, float] | None = None,
        cidr: str = "10.128.0.0/9",
    ) -> None:
        self.backend = backend
        self.store = store
        self.clock = clock
        self.project = project
        self.number = number
        self.cidr = cidr
        self.faults = Faults()
        self.require_auth = False
        self.delays = {**DELAYS, **(delays or {})}
        self.lock = threading.RLock()
        self.nodes: dict[str, NodeRecord] = {}
        self.operations: dict[str, OperationRecord] = {}
        self.tasks: dict[str, Task] = {}
        self.project_metadata: dict[str, str] = {}
        self.addresses = AddressBook(backend)
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="machine")
        self._load()

    def _load(self) -> None:
        for document in self.store.load("node"):
            node = NodeRecord(**document)
            self.nodes[node.key] = node
            self.addresses.enter(node)
            if node.state == "READY":
                self._note_running(node)
        for document in self.store.load("operation"):
            operation = OperationRecord(**document)
            self.operations[operation.name] = operation
        for document in self.store.load("task"):
            task = Task(**document)
            task.due = self.clock.due(0)
            self.tasks[task.id] = task
        for document in self.store.load("project"):
            self.project_metadata = document

    def close(self) -> None:
        """Let running work on machines finish, and stop."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.store.close()

    # Reading ----------------------------------------------------------------------------------

    @property
    def shown_project(self) -> str:
        """Return what stands for the project in the names of answers."""
        return self.number if self.faults.hit("project_number", self.clock.now()) else self.project

    def render(self, node: NodeRecord, version: str = "v2") -> dict[str, Any]:
        """Return a node as a version of the API shows it."""
        shown = node.render(self.shown_project, self.cidr, version)
        if self.faults.hit("unknown_fields", self.clock.now(), node=node.name, zone=node.zone):
            shown |= {"bootDisk": {}, "useTpuVm": True, "health": "HEALTH_OF_TOMORROW"}
        return shown

    def node(self, zone: str, name: str) -> NodeRecord:
        """Return a node, or raise not found."""
        self.advance()
        node = self.nodes.get(f"{zone}/{name}")
        if node is None:
            raise errors.not_found(f"projects/{self.project}/locations/{zone}/nodes/{name}")
        return node

    def operation(self, zone: str, name: str) -> OperationRecord:
        """Return an operation, or raise not found."""
        self.advance()
        operation = self.operations.get(name)
        if operation is None or operation.zone != zone:
            raise errors.not_found(f"projects/{self.project}/locations/{zone}/operations/{name}")
        return operation

    def nodes_in(self, zone: str) -> list[NodeRecord]:
        """Return the nodes of a zone, or of all for `-`, in the order of their full names."""
        self.advance()
        with self.lock:
            found = [node for node in self.nodes.values() if zone in ("-", node.zone)]
        return sorted(found, key=lambda node: (node.zone, node.name))

    def worker_at(self, address: str) -> tuple[NodeRecord, int] | None:
        """Return the worker that has this internal address."""
        found = self.addresses.worker_at(address)
        node = self.nodes.get(found[0]) if found else None
        return (node, found[1]) if found and node else None

    # What clients ask for ---------------------------------------------------------------------

    def create(self, zone: str, name: str, body: dict[str, Any], version: str) -> OperationRecord:
        """Begin to make a node."""
        self.advance()
        if not NODE_ID.fullmatch(name):
            raise errors.malformed_name(f"projects/{self.project}/locations/{zone}/nodes/{name}")
        kind = self._requested_type(zone, body)
        if not body.get("runtimeVersion"):
            raise errors.bad_request("runtime version must be set.")
        if body["runtimeVersion"] not in catalog.runtimes_in(zone):
            raise errors.runtime_not_in_zone(body["runtimeVersion"], zone)
        if body.get("networkConfig") and body.get("networkConfigs"):
            raise errors.bad_request("network_config and network_configs cannot both be specified.")
        now = self.clock.now()
        fault = self.faults.hit("quota", now, zone=zone, node=name)
        if fault:
            scheduling = body.get("schedulingConfig", {})
            preemptible = bool(scheduling.get("preemptible") or scheduling.get("spot"))
            quota = errors.quota_id(kind.generation, kind.name, preemptible)
            raise errors.quota_exceeded(
                quota, int(fault.options.get("limit", 0)), zone, self.number
            )
        if self.faults.hit("queue_denied", now, zone=zone, node=name):
            raise errors.queue_denied(kind.name, zone)
        with self.lock:
            key = f"{zone}/{name}"
            if key in self.nodes:
                raise errors.already_exists(self.nodes[key].resource(self.project))
            own = {k: v for k, v in body.items() if k not in OUTPUT_ONLY}
            own["acceleratorType"] = kind.name
            own["acceleratorConfig"] = {
                "type": API_ENUM[kind.generation],
                "topology": kind.topology,
            }
            node = NodeRecord(
                zone, name, own, api_version=version.upper().replace("ALPHA", "_ALPHA")
            )
            self._equip(node, kind.workers)
            operation = self._begin("create", node, version)
            failure = None
            if self.faults.hit("stock_out", now, zone=zone, node=name):
                failure = "stock_out"
            elif self.faults.hit("operation_internal", now, zone=zone, node=name):
                failure = "internal"
            options = {"failure": failure} if failure else {}
            self._schedule("create", node, self.delays["create"], operation, **options)
        self.advance()
        return operation

    def delete(self, zone: str, name: str, version: str) -> OperationRecord:
        """Begin to delete a node."""
        node = self.node(zone, name)
        with self.lock:
            self._refuse_if_busy(node, but_allow=("create", "maintain"))
            # What is being done to the node ends here; its operation fails as cancelled.
            for task in [t for t in self.tasks.values() if t.node == node.key]:
                self._finish(task, error=errors.cancelled())
            operation = self._begin("delete", node, version)
            self._set(node, state="DELETING")
            self._schedule("delete", node, self.delays["delete"], operation)
        self.advance()
        return operation

    def stop(self, zone: str, name: str, version: str) -> OperationRecord:
        """Begin to stop a node."""
        node = self.node(zone, name)
        with self.lock:
            self._refuse_if_busy(node)
            if len(node.machines) > 1:
                raise errors.single_host_only()
            if node.state != "READY":
                raise errors.wrong_state("stop", node.state)
            operation = self._begin("stop", node, version)
            self._set(node, state="STOPPING")
            self._schedule("stop", node, self.delays["stop"], operation)
        self.advance()
        return operation

    def start(self, zone: str, name: str, version: str) -> OperationRecord:
        """Begin to start a stopped node."""
        node = self.node(zone, name)
        with self.lock:
            self._refuse_if_busy(node)
            if node.spot:
                raise errors.cannot_restart()
            if node.state != "STOPPED":
                raise errors.wrong_state("start", node.state)
            operation = self._begin("start", node, version)
            out = self.faults.hit("stock_out", self.clock.now(), zone=zone, node=name)
            self._set(node, state="STARTING")
            options = {"failure": "stock_out"} if out else {}
            self._schedule("start", node, self.delays["start"], operation, **options)
        self.advance()
        return operation

    def update(
        self, zone: str, name: str, body: dict[str, Any], mask: list[str], version: str
    ) -> OperationRecord:
        """Begin to replace the fields that the mask names; the rest of the body means nothing."""
        node = self.node(zone, name)
        if not mask or any(field not in UPDATABLE for field in mask):
            raise errors.invalid_mask()
        with self.lock:
            self._refuse_if_busy(node)
            if node.state in CHANGING or node.state in ("PREEMPTED", "TERMINATED"):
                raise errors.wrong_state("update", node.state)
            fields = {UPDATABLE[field]: body.get(UPDATABLE[field]) for field in mask}
            operation = self._begin("update", node, version)
            self._schedule("update", node, self.delays["update"], operation, fields=fields)
        self.advance()
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
        node = self.node(zone, name)
        with self.lock:
            self._refuse_if_busy(node)
            if node.state != "READY":
                raise errors.wrong_state("maintenance", node.state)
            if any(worker not in range(len(node.machines)) for worker in workers):
                raise errors.bad_request(f"worker {workers} is not one of the node's.")
            if isinstance(address, str) and self.addresses.has_external(address):
                raise errors.bad_request(f"the external address {address} is in use.")
            operation = self._begin(verb, node, version)
            self._set(
                node,
                health="UNHEALTHY_MAINTENANCE",
                maintenance_event="TERMINATE_ON_HOST_MAINTENANCE",
            )
            self._schedule(
                "maintain",
                node,
                self.delays["maintain"],
                operation,
                workers=workers or [0],
                address=address,
            )
        self.advance()
        return operation

    def cancel(self, zone: str, name: str) -> None:
        """Cancel an operation as far as that can be done: one that makes a node takes it away."""
        operation = self.operation(zone, name)
        with self.lock:
            operation.cancelled = True
            for task in [t for t in self.tasks.values() if t.operation == name and not t.started]:
                self._finish(task, error=errors.cancelled())
                if task.kind == "create" and task.node in self.nodes:
                    self._forget(self.nodes[task.node])
            self.store.save("operation", operation.name, operation.to_dict())

    def forget_operation(self, zone: str, name: str) -> None:
        """Delete the record of an operation."""
        operation = self.operation(zone, name)
        with self.lock:
            del self.operations[operation.name]
            self.store.delete("operation", operation.name)

    # What only the cloud's owner can do -------------------------------------------------------

    def preempt(self, zone: str, name: str) -> None:
        """Take a node back: its machines are gone at once, the node stays to be deleted."""
        node = self.node(zone, name)
        with self.lock:
            for task in [t for t in self.tasks.values() if t.node == node.key]:
                self._finish(task, error=errors.wrong_state(task.kind, "PREEMPTED"))
            self._set(node, state="PREEMPTED", health="")
            machines = [machine["machine_id"] for machine in node.machines]
        for machine_id in machines:
            self.backend.delete(machine_id)

    def reboot(self, zone: str, name: str, worker: int) -> None:
        """Reboot one machine behind the API's back."""
        node = self.node(zone, name)
        if worker not in range(len(node.machines)):
            raise errors.bad_request(f"worker {worker} is not one of the node's.")
        self.backend.reboot(node.spec(worker))

    def set_fields(self, zone: str, name: str, fields: dict[str, Any]) -> None:
        """Set state, health or whatever else a test wants to see."""
        node = self.node(zone, name)
        with self.lock:
            for key in fields:
                if key not in ("state", "health", "guest", "uid"):
                    raise ValueError(f"{key!r} cannot be set; state, health, guest, uid can")
            self._set(node, **fields)

    def populate(self, nodes: list[tuple[str, str, dict[str, Any]]]) -> None:
        """Add many READY nodes at once, as (zone, name, body); for fleets of addresses."""
        if self.backend.name != "none":
            raise ValueError("nodes can only be added in bulk to a cloud without machines")
        added = []
        with self.lock:
            for zone, name, body in nodes:
                kind = self._requested_type(zone, body)
                node = NodeRecord(zone, name, {**body, "acceleratorType": kind.name})
                node.state, node.health = "READY", "HEALTHY"
                self._equip(node, kind.workers)
                self._publish_made_up_attributes(node)
                self._note_running(node)
                self.nodes[node.key] = node
                added.append((node.key, node.to_dict()))
        self.store.save_all("node", added)

    def reset(self) -> None:
        """Delete everything."""
        with self.lock:
            machines = [m["machine_id"] for node in self.nodes.values() for m in node.machines]
            for collection in (self.nodes, self.operations, self.tasks):
                collection.clear()
            self.addresses.clear()
            self.faults.clear()
            self.project_metadata = {}
            self.store.clear()
        for machine_id in machines:
            self.backend.delete(machine_id)

    # What machines report ---------------------------------------------------------------------

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

    # Time -------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Let everything happen that is due; work on real machines goes on in threads."""
        with self.lock:
            now = self.clock.now()
            due = [t for t in self.tasks.values() if not t.started and t.due <= now]
            for task in sorted(due, key=lambda t: t.due):
                task.started = True
                if self.backend.name == "none":
                    self._run(task)
                else:
                    self._pool.submit(self._run, task)

    def _run(self, task: Task) -> None:
        node = self.nodes.get(task.node)
        try:
            if node is None:
                self._finish(task)
                return
            getattr(self, f"_do_{task.kind}")(task, node)
        except ApiError as error:
            self._finish(task, error=error)
        except Exception:
            log.exception("%s of %s failed", task.kind, task.node)
            # Google's word for a node whose repair failed; it can be deleted.
            self._finish(task, node, error=errors.internal(), state="UNKNOWN", health="")

    def _do_create(self, task: Task, node: NodeRecord) -> None:
        failure = task.options.get("failure")
        if failure:
            self._forget(node)
            raise errors.stock_out(node.zone) if failure == "stock_out" else errors.internal()
        try:
            self._each_machine(self.backend.create, node)
        except Exception:
            for machine in node.machines:
                self.backend.delete(machine["machine_id"])
            self._forget(node)
            raise
        if task.id not in self.tasks:
            # Preempted or reset while the machines came up: nobody would ever take them away.
            self._each_machine(lambda spec: self.backend.delete(spec.machine_id), node)
            return
        if self.backend.name == "none":
            self._publish_made_up_attributes(node)
        self._finish(task, node, state="READY", health="HEALTHY")

    def _do_delete(self, task: Task, node: NodeRecord) -> None:
        self._each_machine(lambda spec: self.backend.delete(spec.machine_id), node)
        self._forget(node)
        self._finish(task, response={"@type": "type.googleapis.com/google.protobuf.Empty"})

    def _do_stop(self, task: Task, node: NodeRecord) -> None:
        self._each_machine(lambda spec: self.backend.power_off(spec.machine_id), node)
        self._set_addresses(node, range(len(node.machines)), None)
        self._finish(task, node, state="STOPPED", health="")

    def _do_start(self, task: Task, node: NodeRecord) -> None:
        if task.options.get("failure"):
            self._set(node, state="STOPPED")
            raise errors.stock_out(node.zone)
        self._set_addresses(node, range(len(node.machines)), True)
        self._each_machine(self.backend.power_on, node)
        self._finish(task, node, state="READY", health="HEALTHY")

    def _do_update(self, task: Task, node: NodeRecord) -> None:
        with self.lock:
            before = bool(node.body.get("networkConfig", {}).get("enableExternalIps"))
            for name, value in task.options["fields"].items():
                if name == "networkConfig":
                    wanted = bool((value or {}).get("enableExternalIps"))
                    node.body["networkConfig"] = {
                        **node.body.get("networkConfig", {}),
                        "enableExternalIps": wanted,
                    }
                elif value is None:
                    node.body.pop(name, None)
                else:
                    node.body[name] = value
            after = bool(node.body.get("networkConfig", {}).get("enableExternalIps"))
        if before != after:
            self._set_addresses(node, range(len(node.machines)), True if after else None)
            self._each_machine(self.backend.set_external_ip, node)
        self._finish(task, node)

    def _do_maintain(self, task: Task, node: NodeRecord) -> None:
        workers, address = task.options["workers"], task.options["address"]
        self._set(node, state="RESTARTING")
        if address:
            self._set_addresses(node, workers, address)
        if self.backend.name != "none":
            # What the machine publishes after the reboot counts, not what it said before.
            for worker in workers:
                node.guest[worker].pop("hostkeys", None)
        for worker in workers:
            self.backend.reboot(node.spec(worker))
        self._finish(task, node, state="READY", health="HEALTHY", maintenance_event="NONE")

    # Parts ------------------------------------------------------------------------------------

    def _requested_type(self, zone: str, body: dict[str, Any]) -> AcceleratorType:
        name, config = body.get("acceleratorType"), body.get("acceleratorConfig")
        if name and config:
            raise errors.bad_request(
                "accelerator_type and accelerator_config cannot both be specified."
            )
        if config:
            enum, topology = config.get("type", ""), config.get("topology", "")
            kind = catalog.type_of_config(zone, enum, topology)
            asked = f"{enum} {topology}"
        else:
            asked = name or "v2-8"
            kind = catalog.type_in(zone, asked)
        if kind is None:
            raise errors.type_not_in_zone(asked, zone)
        return kind

    def _equip(self, node: NodeRecord, workers: int) -> None:
        """Give a new node its machines' names and addresses."""
        stem = f"t1v-n-{secrets.token_hex(4)}-w"
        networks = node.body.get("networkConfigs") or [node.body.get("networkConfig", {})]
        node.guest = [{} for _ in range(workers)]
        for worker in range(workers):
            external = None
            if networks[0].get("enableExternalIps"):
                external = self.addresses.take_external()
            node.machines.append(
                {
                    "machine_id": f"{stem}-{worker}",
                    "internal_ip": self.addresses.take_internal(),
                    "external_ip": external,
                }
            )
            if len(networks) > 1:
                node.extra_nics.append([self.addresses.take_internal() for _ in networks[1:]])
        self.addresses.enter(node)

    def _note_running(self, node: NodeRecord) -> None:
        """Tell a backend of mere addresses, which remembers nothing, what is on."""
        if self.backend.name == "none":
            for worker in range(len(node.machines)):
                self.backend.create(node.spec(worker))

    def _publish_made_up_attributes(self, node: NodeRecord) -> None:
        node.guest = [
            {
                "hostkeys": {"ssh-ed25519": made_up_host_key(machine["machine_id"])},
                "guestInventory": {"Hostname": machine["machine_id"]},
                "tpu": {"hostname": machine["machine_id"]},
            }
            for machine in node.machines
        ]

    def _each_machine(self, work: Any, node: NodeRecord) -> None:
        """Do the same with all machines of a node, several at a time; raise the first failure."""
        specs: list[MachineSpec] = [node.spec(worker) for worker in range(len(node.machines))]
        if self.backend.name == "none" or len(specs) == 1:
            for spec in specs:
                work(spec)
            return
        with ThreadPoolExecutor(min(4, len(specs))) as pool:
            list(pool.map(work, specs))

    def _set_addresses(self, node: NodeRecord, workers: Any, address: str | bool | None) -> None:
        """Give workers another external address: the given one, any other (True), or none."""
        with self.lock:
            self.addresses.change_external(node, workers, address)
            self._set(node)

    def _begin(self, verb: str, node: NodeRecord, version: str) -> OperationRecord:
        operation = OperationRecord(node.zone, verb, node.resource(self.project), version)
        where = {"zone": node.zone, "node": node.name, "verb": verb}
        operation.stuck = bool(self.faults.hit("stuck_operation", self.clock.now(), **where))
        self.operations[operation.name] = operation
        self.store.save("operation", operation.name, operation.to_dict())
        self.nodes[node.key] = node
        return operation

    def _schedule(
        self, kind: str, node: NodeRecord, delay: float, operation: OperationRecord, **options: Any
    ) -> None:
        task = Task(kind, node.key, self.clock.due(delay), operation.name, options)
        self.tasks[task.id] = task
        self.store.save("task", task.id, task.to_dict())
        self.store.save("node", node.key, node.to_dict())

    def _refuse_if_busy(self, node: NodeRecord, but_allow: tuple[str, ...] = ()) -> None:
        running = [t for t in self.tasks.values() if t.node == node.key]
        where = {"zone": node.zone, "node": node.name}
        if self.faults.hit("busy", self.clock.now(), **where) or any(
            task.kind not in but_allow or (task.kind == "create" and task.started)
            for task in running
        ):
            raise errors.busy()

    def _set(self, node: NodeRecord, **fields: Any) -> None:
        with self.lock:
            for key, value in fields.items():
                setattr(node, key, value)
            node.revision += 1
            if node.key in self.nodes:
                self.store.save("node", node.key, node.to_dict())

    def _forget(self, node: NodeRecord) -> None:
        with self.lock:
            self.nodes.pop(node.key, None)
            self.addresses.release(node)
            self.store.delete("node", node.key)

    def _finish(
        self,
        task: Task,
        node: NodeRecord | None = None,
        error: ApiError | None = None,
        response: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """End a task: the node takes on the fields, the operation is done."""
        with self.lock:
            if self.tasks.pop(task.id, None) is None:
                return  # somebody else ended it while it ran
            self.store.delete("task", task.id)
            if node is not None:
                self._set(node, **fields)
            operation = self.operations.get(task.operation or "")
            if operation is None or operation.done:
                return
            operation.ended = timestamp()
            if error:
                operation.error = error.rpc_status()
            elif response is not None:
                operation.response = response
            elif node is not None:
                version = operation.api_version
                shown = node.render(self.project, self.cidr, version)
                operation.response = {
                    "@type": f"type.googleapis.com/google.cloud.tpu.{version}.Node",
                    **shown,
                }
            else:
                operation.response = {"@type": "type.googleapis.com/google.protobuf.Empty"}
            self.store.save("operation", operation.name, operation.to_dict())
