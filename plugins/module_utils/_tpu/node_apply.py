# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps of a decision about a node, one API call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from .._core.errors import AlreadyExists, BadRequest, NotFound, PermissionDenied
from .._core.wait import Backoff, Clock
from .client import Client
from .model import Node, Operation
from .node_plan import CHANGING, Decision, Difference, Step
from .node_spec import SPEC_LABEL, NodeSpec
from .nodes import NODE_POLL

S = TypeVar("S")


class StepApplier(Generic[S]):
    """Carries out decisions about one node, within one time limit for all steps.

    An S is what there is of the node. A subclass has a method `_<kind>` for each kind of step. It
    takes the decision and what there is; it returns what there is then, and whether it changed it.
    """

    def __init__(self, clock: Clock, timeout: float, poll: Backoff) -> None:
        self.poll = poll
        self._clock = clock
        self._deadline = clock.now() + timeout
        self._operation: Operation | None = None

    def apply(self, decision: Decision, seen: S) -> tuple[S, list[Step]]:
        """Carry out the steps; return what there is then, and the steps that changed something."""
        done: list[Step] = []
        for step in decision.steps:
            seen, changed = getattr(self, f"_{step.kind}")(decision, seen)
            if changed:
                done.append(step)
        return seen, done

    def _left(self) -> float:
        return max(0.0, self._deadline - self._clock.now())


class Applier(StepApplier["Node | None"]):
    """Carries out decisions about one node of the Cloud TPU API."""

    def __init__(
        self, client: Client, spec: NodeSpec, timeout: float = 1800.0, poll: Backoff = NODE_POLL
    ) -> None:
        super().__init__(client.clock, timeout, poll)
        self.client = client
        self._nodes = client.nodes
        self._spec = spec
        self._place = (spec.zone, spec.name)

    def _create(self, _decision: Decision, _node: Node | None) -> tuple[Node | None, bool]:
        body = self._spec.create_body()
        try:
            self._operation = self._nodes.create(*self._place, body)
        except AlreadyExists:
            # A creation that was requested a moment ago may not be visible yet.
            node = self._nodes.appearing(*self._place, self.poll)
            if node is None or node.labels.get(SPEC_LABEL) != body["labels"][SPEC_LABEL]:
                raise
            return node, False
        return self._nodes.find(*self._place) or as_requested(self._spec), True

    def _delete(self, _decision: Decision, node: Node | None) -> tuple[Node | None, bool]:
        try:
            self._operation = self._nodes.delete(*self._place, node.uid if node else None)
        except NotFound:
            # Another process has already deleted it, which was the aim.
            return None, False
        return node, True

    def _patch(self, decision: Decision, _node: Node | None) -> tuple[Node, bool]:
        body, mask = patch_body(decision.differences)
        operation = self._nodes.patch(*self._place, body, mask)
        # The next step builds on its result.
        self.client.operations.wait(operation, self._left(), self.poll)
        return self._nodes.get(*self._place), True

    def _start(self, _decision: Decision, _node: Node | None) -> tuple[Node, bool]:
        self._operation = self._nodes.start(*self._place)
        return self._nodes.get(*self._place), True

    def _stop(self, _decision: Decision, _node: Node | None) -> tuple[Node, bool]:
        self._operation = self._nodes.stop(*self._place)
        return self._nodes.get(*self._place), True

    def _wait_ready(self, _decision: Decision, _node: Node | None) -> tuple[Node, bool]:
        operation = self._operation or self.client.operations.latest(*self._place)
        return self._nodes.wait_ready(*self._place, operation, self._left(), self.poll), False

    def _wait_stopped(self, _decision: Decision, _node: Node | None) -> tuple[Node, bool]:
        wait = self._nodes.wait_state
        return wait(*self._place, "STOPPED", self._operation, self._left(), self.poll), False

    def _wait_gone(self, _decision: Decision, node: Node | None) -> tuple[None, bool]:
        uid = node.uid if node else None
        self._nodes.wait_gone(*self._place, self._operation, uid, self._left(), self.poll)
        self._operation = None
        return None, False


def result_of(
    decision: Decision, done: Sequence[Step], before: Node | None, after: Node | None
) -> dict[str, Any]:
    """Return a module's result for the steps that changed something, without the node's facts."""
    return {
        "changed": bool(done),
        "actions": [{"action": step.kind, "reason": step.why} for step in done],
        "diff": diff_of(decision if done else Decision(), before, after),
    }


def check_offer(client: Client, spec: NodeSpec) -> None:
    """Raise the error that a creation would fail with, without creating anything."""
    if not spec.accelerator_type:
        return
    try:
        client.accelerator_types.get(spec.zone, spec.accelerator_type)
    except NotFound as error:
        raise BadRequest(
            f"The zone {spec.zone} does not offer the accelerator type {spec.accelerator_type}.",
            remedy="Run: gcloud compute tpus accelerator-types list "
            f"--zone={spec.zone} --project={spec.project}",
            http_status=error.http_status,
            eid=error.eid,
        ) from error
    except PermissionDenied as error:
        # Permission to create nodes does not include permission to read the catalogue.
        if error.flavour != "iam":
            raise


def patch_body(differences: Sequence[Difference]) -> tuple[dict[str, Any], list[str]]:
    """Return the body and the update mask of the patch that removes the differences."""
    body: dict[str, Any] = {}
    for item in differences:
        if item.field == "external_ips":
            body["networkConfig"] = {"enableExternalIps": item.want}
        elif item.field == "data_disks":
            body["dataDisks"] = item.want
        else:
            body[item.field] = item.want
    return body, [item.mask for item in differences if item.mask]


def as_requested(spec: NodeSpec) -> Node:
    """Return the node as the request describes it, for when the API does not show it yet."""
    path = f"projects/{spec.project}/locations/{spec.zone}/nodes/{spec.name}"
    return Node.from_api({**spec.create_body(), "name": path, "state": "CREATING"})


def outcome(
    decision: Decision, spec: NodeSpec, node: Node | None, requested: Node | None = None
) -> Node | None:
    """Return the node as the steps would leave it; a new one as `requested`, if that is given."""
    for step in decision.steps:
        if step.kind == "create":
            node = requested or as_requested(spec)
        elif step.kind == "delete" or step.kind == "wait_gone":
            node = None
        elif step.kind == "patch" and node is not None:
            body, _mask = patch_body(decision.differences)
            network = {**(node.raw.get("networkConfig") or {}), **body.pop("networkConfig", {})}
            node = Node.from_api({**node.raw, "networkConfig": network, **body})
        elif step.kind in ("start", "stop") and node is not None:
            state = "READY" if step.kind == "start" else "STOPPED"
            node = Node.from_api({**node.raw, "state": state})
    return node


def diff_of(decision: Decision, before: Node | None, after: Node | None) -> dict[str, Any]:
    """Return the changes as --diff shows them: only the fields and keys that differ."""
    kinds = {step.kind for step in decision.steps if step.kind in CHANGING}
    if not kinds:
        return {"before": {}, "after": {}}
    if kinds & {"create", "delete"}:
        return {"before": _summary(before), "after": _summary(after)}
    old: dict[str, Any] = {}
    new: dict[str, Any] = {}
    for item in decision.differences:
        old[item.field], new[item.field] = only_changed(item.have, item.want)
    if before is not None and after is not None and before.state != after.state:
        old["state"], new["state"] = before.state, after.state
    return {"before": old, "after": new}


def only_changed(have: Any, want: Any) -> tuple[Any, Any]:
    """Return both values, reduced to the keys that differ if both are maps."""
    if not (isinstance(have, dict) and isinstance(want, dict)):
        return have, want
    keys = [key for key in {**have, **want} if have.get(key) != want.get(key)]
    return (
        {key: have[key] for key in keys if key in have},
        {key: want[key] for key in keys if key in want},
    )


def _summary(node: Node | None) -> dict[str, Any]:
    if node is None:
        return {}
    return {
        "name": node.name,
        "zone": node.zone,
        "accelerator_type": node.accelerator_type,
        **({"machine_type": node.machine_type} if node.machine_type else {}),
        "topology": node.topology,
        "runtime_version": node.runtime_version,
        "tier": node.tier,
        "labels": node.labels,
        "metadata": node.metadata,
        "tags": node.tags,
        "data_disks": node.data_disks,
        "description": node.description,
        "external_ips": node.external_ips,
        "state": node.state,
    }
