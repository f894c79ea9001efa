# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps of a decision about a node, one API call each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._core.errors import AlreadyExists, BadRequest, NotFound, PermissionDenied, TpuError
from .._core.wait import Backoff
from .client import Client
from .model import Node, Operation
from .node_plan import CHANGING, Decision, Difference, Step
from .node_spec import SPEC_LABEL, NodeSpec
from .nodes import NODE_POLL


@dataclass
class Applier:
    """Carries out decisions about one node, within one time limit for all steps."""

    client: Client
    spec: NodeSpec
    timeout: float = 1800.0
    poll: Backoff = NODE_POLL

    def __post_init__(self) -> None:
        self._deadline = self.client.clock.now() + self.timeout
        self._operation: Operation | None = None

    def apply(self, decision: Decision, node: Node | None) -> tuple[Node | None, list[Step]]:
        """Carry out the steps; return the resulting node and the steps that changed something."""
        done: list[Step] = []
        for step in decision.steps:
            node, changed = self._take(step, decision.differences, node)
            if changed:
                done.append(step)
        return node, done

    def _take(
        self, step: Step, differences: Sequence[Difference], node: Node | None
    ) -> tuple[Node | None, bool]:
        nodes, zone, name = self.client.nodes, self.spec.zone, self.spec.name
        if step.kind == "create":
            return self._create()
        if step.kind == "delete":
            return self._delete(node)
        if step.kind == "patch":
            body, mask = patch_body(differences)
            return self._finish(nodes.patch(zone, name, body, mask)), True
        if step.kind == "start":
            self._operation = nodes.start(zone, name)
            return nodes.get(zone, name), True
        if step.kind == "stop":
            self._operation = nodes.stop(zone, name)
            return nodes.get(zone, name), True
        if step.kind == "wait_ready":
            operation = self._operation or self.client.operations.latest(zone, name)
            return nodes.wait_ready(zone, name, operation, self._left(), self.poll), False
        if step.kind == "wait_stopped":
            operation = self._operation
            node = nodes.wait_state(zone, name, "STOPPED", operation, self._left(), self.poll)
            return node, False
        if step.kind == "wait_gone":
            uid = node.uid if node else None
            nodes.wait_gone(zone, name, self._operation, uid, self._left(), self.poll)
            self._operation = None
            return None, False
        raise TpuError(f"Unknown step {step.kind} for a node.")

    def _create(self) -> tuple[Node | None, bool]:
        nodes, zone, name = self.client.nodes, self.spec.zone, self.spec.name
        body = self.spec.create_body()
        try:
            self._operation = nodes.create(zone, name, body)
        except AlreadyExists:
            # A creation that was requested a moment ago may not be visible yet.
            node = nodes.appearing(zone, name, self.poll)
            if node is None or node.labels.get(SPEC_LABEL) != body["labels"][SPEC_LABEL]:
                raise
            return node, False
        return nodes.find(zone, name) or as_requested(self.spec), True

    def _delete(self, node: Node | None) -> tuple[Node | None, bool]:
        try:
            self._operation = self.client.nodes.delete(
                self.spec.zone, self.spec.name, node.uid if node else None
            )
        except NotFound:
            # Another process has already deleted it, which was the aim.
            return None, False
        return node, True

    def _finish(self, operation: Operation) -> Node:
        """Wait for a short operation, because the next step builds on its result."""
        self.client.operations.wait(operation, self._left(), self.poll)
        return self.client.nodes.get(self.spec.zone, self.spec.name)

    def _left(self) -> float:
        return max(0.0, self._deadline - self.client.clock.now())


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
