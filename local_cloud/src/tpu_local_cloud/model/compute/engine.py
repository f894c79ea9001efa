"""Compute Engine's TPUs: requests of clients and of the cloud's owner about instances and groups.

One record stands for an instance or for a whole managed group of instances, which is one slice.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from ... import errors
from ...compute_errors import already_exists, bad, not_found, not_ready, not_reserved
from ...errors import ApiError
from ..shared import attachments
from ..shared.history import caused_by
from ..shared.ledger import Ledger
from ..shared.records import NodeRecord, OperationRecord
from ..shared.without_machines import make_up_guest_attributes, note_running
from . import boot_disks, metadata, quota, reservations
from .records import GONE, is_deleted_at_end, repairs, status
from .steps import (
    aim_at,
    begin_repair,
    creation_failed,
    drop_tasks,
    fail_insertion,
    lack,
    note_operation,
    remove_instances,
    take_down,
    wait,
)

# A shorter wait of a flex-start request is none: it fails at once without capacity.
SHORTEST_WAIT = 90.0
# In these states an instance has capacity that can be taken back.
_TAKEN_FROM = ("RUNNING", "REPAIRING", "STAGING", "STOPPING")
_LETTERS = string.ascii_lowercase + string.digits
Found = tuple[NodeRecord, int]


class ComputeEngine:
    """The instances and groups of one cloud."""

    def __init__(self, cloud: Ledger) -> None:
        self._cloud = cloud

    # Reading ----------------------------------------------------------------------------------

    def records(self, zone: str = "-") -> list[NodeRecord]:
        """Return the records of instances and groups in a zone, by zone and name."""
        with self._cloud.lock:
            found = [
                node
                for node in self._cloud.nodes.values()
                if node.api == "compute" and zone in ("-", node.zone)
            ]
        return sorted(found, key=lambda node: (node.zone, node.name, node.is_group))

    def groups(self, scope: str = "") -> list[NodeRecord]:
        """Return the groups of a zone or region, or all, that are visible."""
        now = self._cloud.clock.now()
        found = (n for n in self.records() if n.is_group and n.visible_from <= now)
        return [node for node in found if scope in ("", node.scope)]

    def instances(self, zone: str = "-") -> list[Found]:
        """Return the instances of a zone that exist and are visible, by zone and name."""
        now = self._cloud.clock.now()
        found = [
            (node, worker)
            for node in self.records(zone)
            if node.visible_from <= now
            for worker in range(len(node.machines))
            if status(node, worker)
        ]
        return sorted(found, key=lambda at: (at[0].zone, at[0].machines[at[1]]["name"]))

    def find(self, zone: str, name: str) -> Found | None:
        """Return an instance of this name, also one that its group has not created yet."""
        alone = self._cloud.nodes.get(f"{zone}/instances/{name}")
        if alone is not None:
            return alone, 0
        for node in self.records(zone):
            for worker, machine in enumerate(node.machines):
                if machine["name"] == name:
                    return node, worker
        return None

    def instance(self, zone: str, name: str) -> Found:
        """Return an instance, or raise not found."""
        found = self.find(zone, name)
        if found is None or not status(*found):
            raise not_found(f"projects/{self._cloud.project}/zones/{zone}/instances/{name}")
        return found

    def group(self, scope: str, name: str) -> NodeRecord:
        """Return a group of a zone or region, or raise not found."""
        found = self._cloud.nodes.get(f"{scope.partition('/')[2]}/instanceGroupManagers/{name}")
        if found is None:
            raise not_found(f"projects/{self._cloud.project}/{scope}/instanceGroupManagers/{name}")
        return found

    def staging(self, node: NodeRecord) -> bool:
        """Return whether machines that are being created have begun to boot."""
        now = self._cloud.clock.now()
        delay = self._cloud.delay("create", node)
        return any(
            task.kind == "create" and (task.started or task.due - now < delay / 2)
            for task in self._cloud.tasks_of(node)
        )

    def users_of(self, what: str, path: str) -> list[str]:
        """Return the full names of the groups that use a `template` or a workload `policy`."""
        return [
            node.resource(self._cloud.project)
            for node in self.records()
            if node.is_group and node.compute["group"].get(what, "").endswith(path)
        ]

    # Requests of clients ----------------------------------------------------------------------

    def insert(
        self, zone: str, name: str, body: dict[str, Any], compute: dict[str, Any], wait_for: float
    ) -> OperationRecord:
        """Begin to create an instance; `wait_for`: how long a flex-start request may wait."""
        self._cloud.advance()
        with self._cloud.changing() as cloud:
            if self.find(zone, name):
                raise already_exists(f"projects/{cloud.project}/zones/{zone}/instances/{name}")
            node = NodeRecord(zone, name, body, api="compute", compute=compute)
            self._check_disks(node, 1)
            self._equip(node, [name])
            operation = self._begin("create", node, "insert")
            if node.tier == "flex_start" and wait_for >= SHORTEST_WAIT:
                now = cloud.clock.now()
                compute |= {
                    "operation": operation.name,
                    "not_after": now + wait_for,
                    "waits_since": now,
                }
                cloud.change(node, state="PENDING")
                wait(cloud, node)
            else:
                refusal = lack(cloud, node) if node.tier == "flex_start" else None
                refusal = refusal or reservations.lack(cloud, node)
                refusal = refusal or quota.refusal(cloud, node)
                if refusal is None:
                    reservations.hold(cloud, node)
                cloud.schedule("create", node, cloud.delay("create", node), operation, refusal)
            return operation

    def insert_group(
        self, zone: str, name: str, body: dict[str, Any], compute: dict[str, Any], size: int
    ) -> OperationRecord:
        """Create a group, and begin to create its instances."""
        self._cloud.advance()
        with self._cloud.changing() as cloud:
            node = NodeRecord(zone, name, body, api="compute", compute=compute, state="EMPTY")
            if node.key in cloud.nodes:
                raise already_exists(node.resource(cloud.project))
            operation = self._begin("create", node, "insert")
            self._end_soon(node, operation)
            cloud.change(node)
            if size:
                self._grow(node, size)
            return operation

    def insert_several(
        self, zone: str, wanted: dict[str, tuple[dict[str, Any], dict[str, Any]]], least: int
    ) -> OperationRecord:
        """Begin to create instances, given as name -> (body, compute); none of them may exist.

        If it is known now that fewer than `least` can be created, none stays.
        """
        cloud = self._cloud
        here = f"projects/{cloud.project}/zones/{zone}/instances"
        with cloud.lock:
            for name in wanted:
                if self.find(zone, name):
                    raise already_exists(f"{here}/{name}")
            nothing = NodeRecord(zone, "", {}, api="compute")
            whole = cloud.open_operation("bulkInsert", nothing, "v1")
            whole.api, whole.target, whole.group = "compute", here, str(uuid4())
            cloud.store.save("operation", whole.name, whole.to_dict())
            for name, (body, compute) in wanted.items():
                one = self.insert(zone, name, body, compute, 0.0)
                one.group = whole.group
                cloud.store.save("operation", one.name, one.to_dict())
            alive = [
                node
                for node in (cloud.nodes.get(f"{zone}/instances/{name}") for name in wanted)
                if node and not any("failure" in task.options for task in cloud.tasks_of(node))
            ]
            if len(alive) < least:
                for node in alive:
                    self.delete(node, 0)
        return whole

    def resize(
        self,
        node: NodeRecord,
        size: int,
        names: Sequence[str] = (),
        shown: str = "resize",
    ) -> OperationRecord:
        """Begin to create the instances of an empty group, or to remove all."""
        with self._cloud.changing() as cloud:
            if node.state in ("DELETING", "EMPTYING"):
                raise not_ready(node.resource(cloud.project))
            for name in names:
                if self.find(node.zone, name):
                    full = f"projects/{cloud.project}/zones/{node.zone}/instances/{name}"
                    raise already_exists(full)
            operation = self._begin("update", node, shown)
            self._end_soon(node, operation)
            if size and not node.machines:
                self._grow(node, size, names)
            elif not size and node.machines:
                self._empty(node)
            return operation

    def _grow(self, node: NodeRecord, size: int, chosen: Sequence[str] = ()) -> None:
        cloud, group = self._cloud, node.compute["group"]
        self._check_disks(node, size)
        names = list(chosen)
        while len(names) < size:
            name = f"{group['base']}-{''.join(secrets.choice(_LETTERS) for _ in range(4))}"
            if name not in names and not self.find(node.zone, name):
                names.append(name)
        group["size"] = size
        self._equip(node, names)
        node.compute["waits_since"] = cloud.clock.now()
        cloud.change(node, state="PENDING")
        wait(cloud, node)

    def _empty(self, node: NodeRecord) -> None:
        cloud = self._cloud
        node.compute["group"]["size"] = 0
        for task in cloud.tasks_of(node):
            if task.kind != "compute_done":
                cloud.finish(task, error=errors.cancelled())
        cloud.change(node, state="EMPTYING")
        cloud.plan("compute_empty", node, cloud.clock.due(cloud.delay("delete", node)))

    def delete_group(self, node: NodeRecord) -> OperationRecord:
        """Begin to delete a group with its instances."""
        with self._cloud.changing() as cloud:
            if node.state == "DELETING":
                raise not_ready(node.resource(cloud.project))
            operation = self._begin("delete", node)
            take_down(cloud, node, operation)
            return operation

    def delete(self, node: NodeRecord, worker: int) -> OperationRecord:
        """Begin to delete an instance; one that waits loses its place."""
        with self._cloud.changing() as cloud:
            self._refuse_if(node, worker, "STOPPING", "PROVISIONING" if node.is_group else "")
            operation = self._begin_at("delete", node, worker)
            if node.is_group:
                remove_instances(cloud, node, [worker], "delete", operation.name)
            else:
                take_down(cloud, node, operation)
            return operation

    def stop(self, node: NodeRecord, worker: int) -> OperationRecord:
        """Begin to stop an instance."""
        with self._cloud.changing() as cloud:
            self._require(node, worker, "RUNNING", "TERMINATED")
            if cloud.faults.hit("stop_refused", cloud.clock.now(), **cloud.place(node)):
                raise bad("Stopping an instance with TPU is not supported.", "unsupportedOperation")
            operation = self._begin_at("stop", node, worker)
            if status(node, worker) == "TERMINATED":
                self._end_soon(node, operation)
            elif node.is_group:
                remove_instances(cloud, node, [worker], "stop", operation.name)
            else:
                cloud.change(node, state="STOPPING")
                cloud.schedule("stop", node, cloud.delay("stop", node), operation)
            return operation

    def start(self, node: NodeRecord, worker: int) -> OperationRecord:
        """Begin to start a stopped instance."""
        with self._cloud.changing() as cloud:
            self._require(node, worker, "RUNNING", "TERMINATED")
            operation = self._begin_at("start", node, worker)
            if status(node, worker) == "RUNNING":
                self._end_soon(node, operation)
            elif node.is_group and lack(cloud, node):
                cloud.conclude(operation.name, error=cloud.failure("stock_out", node))
            elif node.is_group:
                node.machines[worker]["status"] = "STAGING"
                cloud.change(node)
                due = cloud.clock.due(cloud.delay("start", node))
                cloud.plan("vm_start", node, due, operation.name, workers=[worker])
            else:
                cloud.change(node, state="STARTING", preempted=False)
                refusal = reservations.lack(cloud, node)
                refusal = refusal or quota.refusal(cloud, node)
                reservations.hold(cloud, node)
                cloud.schedule("start", node, cloud.delay("start", node), operation, refusal)
            return operation

    def reset(self, node: NodeRecord, worker: int) -> OperationRecord:
        """Begin to reboot an instance."""
        with self._cloud.changing() as cloud:
            self._require(node, worker, "RUNNING")
            operation = self._begin_at("reset", node, worker)
            due = cloud.clock.due(cloud.delays["update"])
            cloud.plan("vm_reset", node, due, operation.name, workers=[worker])
            return operation

    def set_labels(self, node: NodeRecord, worker: int, labels: dict[str, str]) -> OperationRecord:
        """Replace the labels of an instance."""
        cloud = self._cloud
        with cloud.lock:
            node.machines[worker]["labels"] = labels
            if not node.is_group:
                node.body["labels"] = labels
            cloud.change(node)
            cloud.note("updated", node)
            return self._ended_soon(node, worker, "setLabels")

    def set_own(self, node: NodeRecord, worker: int, verb: str, **own: Any) -> OperationRecord:
        """Replace the `metadata` or the `tags` of an instance."""
        cloud = self._cloud
        with cloud.lock:
            node.machines[worker].update(own)
            cloud.change(node)
            return self._ended_soon(node, worker, verb)

    def set_scheduling(
        self, node: NodeRecord, worker: int, scheduling: dict[str, Any], as_node: dict[str, Any]
    ) -> OperationRecord:
        """Replace how an instance is scheduled, which has to be stopped."""
        cloud = self._cloud
        with cloud.lock:
            self._require(node, worker, "TERMINATED")
            node.compute["properties"] = {**node.compute["properties"], "scheduling": scheduling}
            node.body["schedulingConfig"] = as_node
            cloud.change(node)
            return self._ended_soon(node, worker, "setScheduling")

    def refuse_report(self, node: NodeRecord, worker: int) -> OperationRecord:
        """Fail to report a host of what is bound to no reservation."""
        cloud = self._cloud
        with cloud.lock:
            operation = self._begin_at("reportHostAsFaulty", node, worker)
            cloud.conclude(operation.name, error=not_reserved())
        return operation

    def set_access(self, node: NodeRecord, worker: int, name: str, verb: str) -> OperationRecord:
        """Begin to give an instance an external address, or without a name to take it away."""
        return self._change(node, worker, verb, "vm_access", access=name)

    def attach_disk(self, node: NodeRecord, worker: int, disk: dict[str, Any]) -> OperationRecord:
        """Begin to attach a disk to an instance."""
        wanted = attachments.attached(node, worker, disk)
        self._check_disks(node, len(node.machines), wanted)
        return self._change(node, worker, "attachDisk", "vm_attach", disk=disk)

    def detach_disk(self, node: NodeRecord, worker: int, source: str) -> OperationRecord:
        """Begin to detach a disk from an instance."""
        return self._change(node, worker, "detachDisk", "vm_detach", source=source)

    def _change(
        self, node: NodeRecord, worker: int, verb: str, task: str, **options: Any
    ) -> OperationRecord:
        """Begin to change a machine."""
        with self._cloud.changing() as cloud:
            self._require(node, worker, "RUNNING", "TERMINATED")
            operation = self._begin("update", node, verb)
            aim_at(cloud, operation, node, worker)
            due = cloud.clock.due(cloud.delay("update", node))
            cloud.plan(task, node, due, operation.name, workers=[worker], **options)
            return operation

    def remake(self, node: NodeRecord, workers: list[int]) -> OperationRecord:
        """Begin to make instances of a group again."""
        with self._cloud.changing() as cloud:
            verb = "compute.instanceGroupManagers.recreateInstances"
            operation = self._end_soon(node, self._begin("update", node, verb))
            begin_repair(cloud, node, workers)
            return operation

    def _equip(self, node: NodeRecord, names: list[str]) -> None:
        """Name the machines of a record, and write the metadata of TPUs into them."""
        cloud = self._cloud
        cloud.addresses.equip(node, len(names), names)
        own = metadata.written(cloud.project, node.zone, node.compute, names)
        for machine, name, written in zip(node.machines, names, own, strict=True):
            machine["name"] = name
            machine["id"] = node.uid if not node.is_group else str(secrets.randbits(62) | 1 << 61)
            machine["labels"] = dict(node.body.get("labels", {}))
            own_keys = {**self._of_group(node), **written}
            machine["metadata"] = {**node.body.get("metadata", {}), **own_keys}

    def _of_group(self, node: NodeRecord) -> dict[str, str]:
        """Return the keys that name an instance's group and template."""
        if not node.is_group:
            return {}
        group = node.resource(self._cloud.number)
        return {"created-by": group, "instance-template": node.compute["group"]["template"]}

    def _check_disks(
        self, node: NodeRecord, workers: int, wanted: list[dict[str, Any]] | None = None
    ) -> None:
        disks = node.body.get("dataDisks") or [] if wanted is None else wanted
        try:
            attachments.check(self._cloud, node.zone, node.name, disks, workers)
        except ApiError as error:
            raise bad(error.message) from None

    def _begin(self, verb: str, node: NodeRecord, shown: str = "") -> OperationRecord:
        """Open an operation: faults know it by the verb, clients by what is shown."""
        cloud = self._cloud
        operation = cloud.begin(verb, node, "v1")
        operation.verb = shown or verb
        cloud.store.save("operation", operation.name, operation.to_dict())
        return operation

    def aim(self, operation: OperationRecord, node: NodeRecord, worker: int) -> None:
        """Make an instance the target of an operation on its record."""
        aim_at(self._cloud, operation, node, worker)

    def _begin_at(self, verb: str, node: NodeRecord, worker: int) -> OperationRecord:
        operation = self._begin(verb, node)
        aim_at(self._cloud, operation, node, worker)
        return operation

    def _end_soon(self, node: NodeRecord, operation: OperationRecord) -> OperationRecord:
        due = self._cloud.clock.due(self._cloud.delays["update"])
        self._cloud.plan("compute_done", node, due, operation.name)
        return operation

    def _ended_soon(self, node: NodeRecord, worker: int, verb: str) -> OperationRecord:
        """Return the operation of a change that is done; where time is immediate, so is it."""
        operation = self._end_soon(node, self._begin_at(verb, node, worker))
        self._cloud.advance()
        return operation

    def _refuse_if(self, node: NodeRecord, worker: int, *wrong: str) -> None:
        if status(node, worker) in wrong:
            name = node.machines[worker]["name"]
            full = f"projects/{self._cloud.project}/zones/{node.zone}/instances/{name}"
            raise not_ready(full)

    def _require(self, node: NodeRecord, worker: int, *right: str) -> None:
        if status(node, worker) not in right:
            self._refuse_if(node, worker, status(node, worker))

    # Requests of the cloud's owner alone ------------------------------------------------------

    def preempt(self, node: NodeRecord, workers: list[int], stop: bool | None = None) -> None:
        """Take instances back: they are stopped or deleted, as their scheduling says."""
        cloud = self._cloud
        with cloud.lock, caused_by("service"):
            if node.state in ("PENDING", "EMPTY", "DELETING", "EMPTYING"):
                return
            if node.state == "CREATING":
                self._lose(node)
                return
            # What is stopped already is not taken.
            workers = [worker for worker in workers if status(node, worker) in _TAKEN_FROM]
            if not workers:
                return
            ids = [node.machines[worker]["machine_id"] for worker in workers]
            deletes = is_deleted_at_end(node) if stop is None else not stop
            for worker in workers:
                note_operation(cloud, node, "compute.instances.preempted", worker)
            if node.is_group:
                self._take_instances(node, workers, deletes)
            else:
                drop_tasks(cloud, node)
                cloud.change(node, state="DELETING" if deletes else "STOPPED", preempted=True)
                cloud.change(node, health="", maintenance={})
        # As Google does, without waiting for what runs there.
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(cloud.backend.delete if deletes else cloud.backend.power_off, ids))
        if deletes and not node.is_group:
            cloud.forget(node)
            attachments.delete_own(cloud, node)
            boot_disks.keep(cloud, node)
        self._cloud.advance()

    def _take_instances(self, node: NodeRecord, workers: list[int], deletes: bool) -> None:
        cloud = self._cloud
        for worker in workers:
            node.machines[worker]["status"] = GONE if deletes else "TERMINATED"
        cloud.addresses.change_external(node, workers, None)
        cloud.change(node)
        if repairs(node):
            begin_repair(cloud, node, workers)
        elif len(workers) == len(node.machines):
            cloud.change(node, state="TERMINATED" if deletes else "STOPPED", health="")

    def _lose(self, node: NodeRecord) -> None:
        """Lose the capacity of machines that are being created."""
        cloud = self._cloud
        error = cloud.failure("stock_out", node)
        for task in cloud.tasks_of(node):
            if task.kind != "compute_done":
                cloud.finish(task, error=error)
        if node.is_group:
            creation_failed(cloud, node, error)
        else:
            fail_insertion(cloud, node, error)

    def add(self, zone: str, name: str, body: dict[str, Any], compute: dict[str, Any]) -> None:
        """Add an instance that runs, for fleets without machines."""
        cloud = self._cloud
        if cloud.backend.name != "none":
            raise ValueError("instances can only be added in bulk to a cloud without machines")
        with cloud.lock, caused_by("service"):
            node = NodeRecord(zone, name, body, api="compute", compute=compute)
            self._equip(node, [name])
            cloud.enter(node)
            make_up_guest_attributes(node)
            note_running(cloud, node)
            cloud.change(node, state="READY", health="HEALTHY")

    def hold(self, node: NodeRecord) -> None:
        """Keep what waits for capacity waiting until it is granted."""
        node.compute |= {"held": True, "granted": False}
        self._cloud.change(node)

    def grant(self, node: NodeRecord) -> None:
        """Give what waits capacity immediately."""
        with self._cloud.lock:
            node.compute |= {"held": False, "granted": True}
            self._cloud.change(node)
            self.look()
        self._cloud.advance()

    def look(self) -> None:
        """Make everything that waits check for capacity now, because something has changed."""
        cloud, now = self._cloud, self._cloud.clock.now()
        with cloud.lock:
            for task in cloud.tasks.values():
                if task.kind == "compute_look":
                    task.due = min(task.due, now)

    def refuse(self, node: NodeRecord, message: str = "") -> None:
        """Let an instance that waits fail: it is gone, and its operation has the reason."""
        with self._cloud.changing() as cloud, caused_by("service"):
            if node.is_group or node.state != "PENDING":
                raise ValueError(f"{node.name} is no instance that waits")
            error = cloud.failure("operation_internal", node)
            if message:
                error = ApiError(error.status, message, error.details)
            fail_insertion(cloud, node, error)
