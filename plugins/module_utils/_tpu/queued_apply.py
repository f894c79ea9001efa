# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a queued resource and carry out the steps of a decision, one API call each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._core.errors import AlreadyExists, NotFound, TpuError, Unavailable
from .._core.wait import Backoff
from .client import Client
from .model import Node, Operation
from .node_plan import Decision, Step
from .node_spec import SPEC_LABEL
from .queued_facts import queued_facts
from .queued_plan import QUEUED_CHANGING, QueuedWant
from .queued_resources import QUEUE_POLL, QueuedResource


def look(client: Client, want: QueuedWant) -> tuple[QueuedResource | None, list[Node]]:
    """Return the queued resource, and the nodes that belong to it or have names that it needs."""
    queued = client.queued_resources.find(want.zone, want.name, want.api_version)
    names = {*want.node_ids, *(node.name for node in (queued.nodes if queued else ()))}
    listing = client.nodes.list(want.zone)
    if listing.unreachable:
        raise Unavailable(f"The zone {want.zone} does not answer, so its nodes are unknown.")
    nodes = [
        node for node in listing.items if node.name in names or node.queued_resource == want.name
    ]
    return queued, nodes


@dataclass
class QueuedApplier:
    """Carries out decisions about one queued resource, within one time limit for all steps."""

    client: Client
    want: QueuedWant
    force: bool = False
    timeout: float = 1800.0
    poll: Backoff = QUEUE_POLL

    def __post_init__(self) -> None:
        self._deadline = self.client.clock.now() + self.timeout
        self._operation: Operation | None = None

    def apply(
        self, decision: Decision, queued: QueuedResource | None, nodes: list[Node]
    ) -> tuple[QueuedResource | None, list[Step]]:
        """Carry out the steps; return the result, and the steps that changed something."""
        uids = {node.name: node.uid for node in nodes}
        done: list[Step] = []
        for step in decision.steps:
            if step.kind in ("delete_node", "wait_node_gone"):
                changed = self._node_step(step, uids.get(step.name))
            else:
                queued, changed = self._take(step, queued)
            if changed:
                done.append(step)
        return queued, done

    def _take(
        self, step: Step, queued: QueuedResource | None
    ) -> tuple[QueuedResource | None, bool]:
        queue, zone, name = self.client.queued_resources, self.want.zone, self.want.name
        version = self.want.api_version
        if step.kind == "create":
            return self._create()
        if step.kind == "delete":
            return queued, self._delete(queued)
        if step.kind == "reset":
            self._operation = queue.reset(zone, name)
            return queue.get(zone, name, version), True
        if step.kind == "wait_reset" and self._operation is not None:
            # It may still be ACTIVE from before the reset.
            self.client.operations.wait(self._operation, self._left(), self.poll)
        if step.kind in ("wait_active", "wait_reset"):
            operation = self._operation if step.kind == "wait_active" else None
            args = (operation, self._left(), self.poll, version)
            return queue.wait_active(zone, name, *args), False
        if step.kind == "wait_dead":
            return queue.wait_dead(zone, name, self._left(), self.poll), False
        if step.kind == "wait_gone":
            created = queued.create_time if queued else None
            queue.wait_gone(zone, name, self._operation, created, self._left(), self.poll)
            self._operation = None
            return None, False
        raise TpuError(f"Unknown step {step.kind} for a queued resource.")

    def _create(self) -> tuple[QueuedResource | None, bool]:
        queue, zone, name = self.client.queued_resources, self.want.zone, self.want.name
        try:
            self._operation = queue.create(zone, name, self.want.body())
        except AlreadyExists:
            # A queued resource that was requested a moment ago may not be visible yet.
            queued = queue.appearing(zone, name, self.poll, self.want.api_version)
            ours = self.want.node.owned_labels()[SPEC_LABEL]
            if queued is None or queued.labels.get(SPEC_LABEL) != ours:
                raise
            return queued, False
        # Many requests that the queue refuses fail at once.
        self.client.operations.refresh(self._operation)
        there = queue.find(zone, name, self.want.api_version)
        return there or self.want.as_requested(), True

    def _delete(self, queued: QueuedResource | None) -> bool:
        # The plan has made sure that a dead queued resource has no nodes that are still used.
        force = self.force or (queued is not None and (queued.is_dead or queued.is_going))
        try:
            self._operation = self.client.queued_resources.delete(
                self.want.zone, self.want.name, force
            )
        except NotFound:
            # Another process has already deleted it, which was the aim.
            return False
        return True

    def _node_step(self, step: Step, uid: str | None) -> bool:
        nodes, zone = self.client.nodes, self.want.zone
        if step.kind == "wait_node_gone":
            nodes.wait_gone(zone, step.name, None, uid, self._left(), self.poll)
            return False
        try:
            nodes.delete(zone, step.name, uid)
        except NotFound:
            return False
        return True

    def _left(self) -> float:
        return max(0.0, self._deadline - self.client.clock.now())


def outcome(
    decision: Decision, want: QueuedWant, queued: QueuedResource | None
) -> QueuedResource | None:
    """Return the queued resource as the steps would leave it."""
    for step in decision.steps:
        if step.kind == "create":
            queued = want.as_requested()
        elif step.kind in ("delete", "wait_gone"):
            queued = None
        elif step.kind == "reset" and queued is not None:
            queued = QueuedResource.from_api({**queued.raw, "state": {"state": "PROVISIONING"}})
    return queued


def diff_of(
    decision: Decision, before: QueuedResource | None, after: QueuedResource | None
) -> dict[str, Any]:
    """Return what changes, as --diff shows it."""
    if not any(step.kind in QUEUED_CHANGING for step in decision.steps):
        return {"before": {}, "after": {}}
    return {"before": _summary(before), "after": _summary(after)}


def _summary(queued: QueuedResource | None) -> dict[str, Any]:
    if queued is None:
        return {}
    facts = queued_facts(queued)
    keys = ("name", "zone", "state", "tier", "reservation")
    asked = {"queueing_policy": "queueingPolicy", "run_duration": "runDuration"}
    shown = ("name", "accelerator_type", "topology", "runtime_version", "labels", "data_disks")
    return {
        **{key: facts[key] for key in keys},
        **{name: queued.raw[key] for name, key in asked.items() if key in queued.raw},
        "nodes": [
            {**{key: node[key] for key in shown}, "metadata": seen.metadata}
            for node, seen in zip(facts["nodes"], queued.nodes, strict=True)
        ],
    }
