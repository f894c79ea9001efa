"""Actions of the service on nodes: it announces and does maintenance, and preempts nodes.

Callers hold the cloud's lock, except for work on machines.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from ... import errors
from ...machines import SHUTDOWN_LIMIT, MachineError
from ...tables._schema.accelerators import parse
from ..shared.history import caused_by
from ..shared.ledger import Ledger
from ..shared.records import NodeRecord, Task

# v5e and v6e nodes smaller than 2x4 cannot choose the time.
SMALLEST = 8
# Seconds until a maintenance that met another operation tries again.
RETRY = 5.0
TAKEN = ("PREEMPTED", "TERMINATED")


def announce(
    ledger: Ledger,
    node: NodeRecord,
    seconds: float,
    length: float = 4 * 3600.0,
    latest: float = 0.0,
    kind: str = "SCHEDULED",
    can_reschedule: bool = True,
) -> None:
    """Plan a maintenance that begins by itself; it replaces an earlier plan."""
    now = ledger.clock.now()
    with ledger.lock, ledger.clock.at(now):
        forget_plan(ledger, node)
        stamp = ledger.clock.timestamp
        upcoming = {
            "type": kind,
            "canReschedule": can_reschedule,
            "windowStartTime": stamp(seconds),
            "windowEndTime": stamp(seconds + length),
            "latestWindowStartTime": stamp(max(latest, seconds)),
            "maintenanceStatus": "PENDING",
        }
        ledger.change(node, maintenance=upcoming)
        ledger.plan("maintenance_window", node, now + seconds)


def forget_plan(ledger: Ledger, node: NodeRecord) -> None:
    """Drop the planned maintenance."""
    for task in ledger.tasks_of(node):
        if task.kind == "maintenance_window":
            ledger.finish(task)


def check_performable(node: NodeRecord) -> None:
    """Raise if a node's user cannot choose when its maintenance is done. The wordings are ours."""
    kind = parse(node.accelerator_type) if node.api == "tpu" else None
    if kind and (
        kind.generation in ("v2", "v3")
        or (kind.generation in ("v5e", "v6e") and kind.chips < SMALLEST)
    ):
        raise errors.bad_request(
            f"performMaintenance is not supported for accelerator type {kind.name}."
        )
    if node.maintenance and not node.maintenance.get("canReschedule"):
        raise errors.bad_request("the upcoming maintenance cannot be rescheduled.")


def mark_begun(ledger: Ledger, node: NodeRecord) -> None:
    """Show the running maintenance in the API and in the machines' metadata."""
    forget_plan(ledger, node)
    ledger.change(
        node,
        health="UNHEALTHY_MAINTENANCE",
        maintenance_event="TERMINATE_ON_HOST_MAINTENANCE",
        maintenance={**node.maintenance, "maintenanceStatus": "ONGOING"}
        if node.maintenance
        else {},
    )


def take_back(ledger: Ledger, node: NodeRecord, state: str = "PREEMPTED") -> None:
    """Remove a node's machines, whatever it is doing; the node stays to be deleted."""
    with ledger.lock, caused_by("service"):
        for task in ledger.tasks_of(node):
            # Google reports this also for a node that it was still creating.
            verb = "update" if task.kind == "create" else task.kind
            ledger.finish(task, error=errors.wrong_state(verb, state))
        preempted = node.preempted or state == "PREEMPTED"
        ledger.change(node, state=state, health="", preempted=preempted, maintenance={})
        machines = [machine["machine_id"] for machine in node.machines]
    for machine_id in machines:
        ledger.backend.delete(machine_id)


def window(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Begin a maintenance that is due; a node that does not run needs none."""
    with ledger.lock:
        ledger.finish(task)
        if node.state in ("READY", "CREATING") and ledger.tasks_of(node):
            ledger.plan("maintenance_window", node, ledger.clock.now() + RETRY)
        elif node.state == "READY":
            mark_begun(ledger, node)
            # An instance keeps its address, as far as is known.
            workers: dict[str, Any] = {
                "workers": list(range(len(node.machines))),
                "address": node.api == "tpu",
            }
            ledger.schedule("maintain", node, ledger.delay("maintain", node), None, **workers)
        else:
            ledger.change(node, maintenance={})


def shuts_down(ledger: Ledger, task: Task, node: NodeRecord) -> bool:
    """Shut the machines of a preemption down; return whether it is still to be carried out.

    The machines have as long as the notice lasts, and at most as long as Google gives them.
    """
    left = ledger.clock.real_seconds(task.options["until"] - ledger.clock.now())
    seconds = min(SHUTDOWN_LIMIT, max(0.0, left))
    ids = [node.machines[worker]["machine_id"] for worker in task.options["workers"]]

    def end(machine_id: str) -> None:
        with suppress(MachineError):  # one that is not there yet
            ledger.backend.power_off(machine_id, seconds)

    if ledger.backend.name != "none":
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(end, ids))
    return task.id in ledger.tasks


def notice_over(ledger: Ledger, task: Task, node: NodeRecord) -> None:
    """Preempt a node after its notice."""
    if not shuts_down(ledger, task, node):
        return
    ledger.finish(task)
    take_back(ledger, node, task.options["state"])
