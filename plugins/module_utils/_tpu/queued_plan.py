# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what to do with a queued resource: (wanted, seen) to differences and steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._core.errors import BadRequest, Refused
from .._core.ownership import OWNER_LABEL, require_owned
from .model import Node, basename, parse_time
from .node_plan import Decision, Difference, Step, changeable, fixed
from .node_spec import TIERS, NodeSpec
from .queued_resources import QueuedResource, failure_of
from .queued_spec import queued_body, seconds_of
from .versions import api_version_of

QUEUED_CHANGING = frozenset({"create", "delete", "delete_node", "reset"})
TIMES = (
    "valid_until_duration",
    "valid_until_time",
    "valid_after_duration",
    "valid_after_time",
    "valid_interval",
)
# Options that a queued resource is requested with, beside its nodes.
CONDITIONS = (*TIMES, "reservation", "min_duration", "max_run_duration")


@dataclass(frozen=True)
class QueuedWant:
    """A wanted queued resource: nodes of one kind, with times and conditions."""

    name: str
    zone: str
    project: str
    node: NodeSpec
    node_ids: tuple[str, ...]
    # Whether options name the nodes; otherwise they are named after the queued resource.
    named: bool
    node_count: int | None
    node_prefix: str | None
    tier: str | None
    conditions: Mapping[str, Any]

    @classmethod
    def from_params(cls, params: Mapping[str, Any], project: str) -> QueuedWant:
        """Return what a module's options describe; raise BadRequest for wrong options."""
        name, count, prefix = params["name"], params.get("node_count"), params.get("node_prefix")
        tier = params.get("tier") or ("reserved" if params.get("reservation") else None)
        ids = tuple(params.get("nodes") or ())
        if count is not None:
            ids = tuple(f"{prefix or name}-{index}" for index in range(count))
        named = bool(ids)
        ids = ids or (name,)
        doubles = sorted({node_id for node_id in ids if ids.count(node_id) > 1})
        if doubles:
            raise BadRequest(
                f"nodes names {', '.join(doubles)} more than once.",
                remedy="Give each node a different name.",
            )
        node_params = {**params, "tier": tier if tier in TIERS else None}
        specs = [NodeSpec.from_params({**node_params, "name": each}, project) for each in ids]
        NodeSpec.from_params({**node_params, "name": name}, project)  # its name has the same form
        want = cls(
            name=name,
            zone=params["zone"],
            project=project,
            node=specs[0],
            node_ids=ids,
            named=named,
            node_count=count,
            node_prefix=prefix,
            tier=tier,
            conditions={key: params.get(key) for key in CONDITIONS},
        )
        want.body()  # raises BadRequest for what every zone would refuse
        return want

    @property
    def api_version(self) -> str:
        """Return the version of the API that knows all fields of the request."""
        return api_version_of(self.body())

    def body(self) -> dict[str, Any]:
        """Return the body of the request that creates it."""
        node = self.node.create_body()
        return queued_body(
            self.project,
            self.zone,
            {self.name: node}
            if self.node_count is not None
            else dict.fromkeys(self.node_ids, node),
            tier=self.tier or "on_demand",
            node_count=self.node_count,
            node_prefix=self.node_prefix,
            **self.conditions,
        )

    def as_requested(self) -> QueuedResource:
        """Return it as the request describes it, for when the API does not show it yet."""
        path = f"projects/{self.project}/locations/{self.zone}/queuedResources/{self.name}"
        return QueuedResource.from_api(
            {**self.body(), "name": path, "state": {"state": "CREATING"}}
        )


def differences_of(want: QueuedWant, queued: QueuedResource) -> list[Difference]:
    """Return the differences from the request; values that are not set or not shown are equal.

    Once it is active, its nodes are managed as nodes: fields that change in place do not count.
    """
    found = []
    if want.tier is not None and want.tier != queued.tier:
        found.append(Difference("tier", queued.tier, want.tier))
    if want.named and sorted(want.node_ids) != sorted(node.name for node in queued.nodes):
        names = [node.name for node in queued.nodes]
        found.append(Difference("nodes", names, list(want.node_ids)))
    found += _conditions(want, queued)
    spec = replace(want.node, tier=None)
    for node in queued.nodes:
        found += fixed(spec, node)
        if queued.is_waiting:
            found += [replace(item, mask=None) for item in changeable(spec, node)]
    return list({item.field: item for item in reversed(found)}.values())[::-1]


def decide(
    state: str,
    want: QueuedWant,
    queued: QueuedResource | None,
    nodes: Sequence[Node] = (),
    *,
    adopt: bool = False,
    recreate: bool = False,
    force: bool = False,
    wait: bool = True,
) -> Decision:
    """Return the steps from the seen to the wanted state, or refuse with the remedy.

    `nodes` are the zone's nodes that belong to it or have the name of one that it will create.
    """
    if queued is not None and queued.state == "DELETING":
        last = [Step("wait_gone", "it is being deleted")]
        if state == "absent":
            return Decision(last if wait else [])
        left = [node for node in nodes if node.queued_resource != want.name]
        return Decision([*last, *decide(state, want, None, left, wait=wait).steps])
    if queued is None:
        return Decision(_creation(state, want, nodes, wait))
    own = [node for node in nodes if node.queued_resource == queued.name]
    what = f"queued resource {queued.name} in {queued.zone}"
    things = [(what, queued.labels)]
    things += [(f"node {node.name} of the {what}", node.labels) for node in own]
    for each, labels in things:
        require_owned(each, labels.get(OWNER_LABEL), want.node.owner, adopt, queued.name)
    if state == "absent":
        return Decision(_removal(queued, own, "it is no longer wanted", force, wait))
    if state == "reset":
        return Decision(_reset(queued, wait))
    if queued.is_dead or queued.state == "SUSPENDING":
        if not recreate:
            raise failure_of(queued)
        why = f"it is {queued.in_words}"
        return Decision(
            [
                *_removal(queued, own, why, force, wait=True),
                *_asking(wait, f"the last one {why[3:]}"),
            ]
        )
    differences = differences_of(want, queued)
    if differences:
        if not recreate:
            raise _cannot_change(queued, differences)
        fields = ", ".join(item.field for item in differences)
        steps = _removal(queued, own, f"{fields} differ", force, wait=True)
        return Decision([*steps, *_asking(wait, f"{fields} differ")], differences)
    if wait and not queued.is_active:
        return Decision([Step("wait_active", f"it is {queued.in_words}")])
    return Decision()


def _creation(state: str, want: QueuedWant, nodes: Sequence[Node], wait: bool) -> list[Step]:
    if state == "absent":
        return []
    if state == "reset":
        raise Refused(
            f"There is no queued resource {want.name} in {want.zone} to reset.",
            remedy="Create it with state: present.",
        )
    if not want.node.has_hardware:
        raise Refused(
            f"There is no queued resource {want.name} in {want.zone}, and no option says what to "
            "request.",
            remedy="Set accelerator_type, or accelerator_config.",
        )
    there = [node for node in nodes if node.name in want.node_ids]
    taken = [f"{node.name} ({node.state})" for node in there if node.state != "DELETING"]
    if taken:
        raise Refused(
            f"The queued resource {want.name} cannot make nodes that exist: {', '.join(taken)} in "
            f"{want.zone}.",
            remedy="Choose other names with nodes or node_prefix, or delete these nodes.",
            resource=want.name,
        )
    gone = [Step("wait_node_gone", "its name is in use until then", node.name) for node in there]
    return [*gone, *_asking(wait, "there is no such queued resource")]


def _asking(wait: bool, why: str) -> list[Step]:
    steps = [Step("create", why)]
    if wait:
        steps.append(Step("wait_active", "capacity may take long"))
    return steps


def _removal(
    queued: QueuedResource, own: Sequence[Node], why: str, force: bool, wait: bool
) -> list[Step]:
    """Return the steps of its deletion; nodes that are not lost are deleted only with force."""
    living = [
        f"{node.name} ({node.state})"
        for node in own
        if not node.is_lost and node.state != "DELETING"
    ]
    if queued.state == "PROVISIONING":
        # Google may create them between this look and the deletion.
        living = living or [f"{node.name} (about to come)" for node in queued.nodes]
    if living and not force and not queued.is_going:
        raise Refused(
            f"The queued resource {queued.name} in {queued.zone} has nodes: {', '.join(living)}.",
            remedy="Delete them with it by force: true (their boot disks and what runs on them are "
            "lost).",
            resource=queued.name,
        )
    steps = []
    if queued.is_going:
        steps.append(Step("wait_dead", "its nodes are being deleted"))
    if queued.is_dead:
        gone = [node for node in own if node.state != "DELETING"]
        steps += [Step("delete_node", f"it is {node.state}", node.name) for node in gone]
        if wait:
            steps += [Step("wait_node_gone", "it is deleted first", node.name) for node in own]
    steps.append(Step("delete", why))
    if wait:
        steps.append(Step("wait_gone", "its name and quota are free only then"))
    return steps


def _reset(queued: QueuedResource, wait: bool) -> list[Step]:
    if not queued.is_active:
        raise Refused(
            f"The queued resource {queued.name} in {queued.zone} is {queued.in_words}; only one "
            "that is ACTIVE can be reset.",
            remedy="Use state: present with recreate: true to request it again.",
            resource=queued.name,
        )
    steps = [Step("reset", "its nodes must be created again")]
    if wait:
        steps.append(Step("wait_reset", "new nodes take minutes"))
    return steps


def _cannot_change(queued: QueuedResource, differences: Sequence[Difference]) -> Refused:
    listed = "; ".join(
        f"{item.field} is {item.have!r}, wanted {item.want!r}" for item in differences
    )
    lost = "its place in the queue is lost" if queued.is_waiting else "its nodes are lost"
    return Refused(
        f"The queued resource {queued.name} in {queued.zone} cannot be changed: {listed}.",
        remedy=f"Correct the options, or have it requested again with recreate: true ({lost}).",
        resource=queued.name,
    )


def _conditions(want: QueuedWant, queued: QueuedResource) -> list[Difference]:
    raw, found = queued.raw, []
    reservation = want.conditions.get("reservation")
    if reservation and basename(reservation) != basename(queued.reservation):
        found.append(Difference("reservation", basename(queued.reservation), reservation))
    for option, path in (
        ("min_duration", ("guaranteed", "minDuration")),
        ("max_run_duration", ("runDuration", "maxRunDuration")),
    ):
        found += _time_difference(option, want.conditions.get(option), _at(raw, *path))
    if not queued.is_waiting:
        return found
    # Once it no longer waits, the times of the request do not matter.
    wanted = want.body().get("queueingPolicy") or {}
    shown = raw.get("queueingPolicy") or {}
    for key, value in wanted.items():
        found += _time_difference(f"queueing_policy.{key}", value, shown.get(key))
    return found


def _time_difference(field: str, wanted: Any, shown: Any) -> list[Difference]:
    if wanted is None or shown is None or _comparable(field, wanted) == _comparable(field, shown):
        return []
    return [Difference(field, shown, wanted)]


def _comparable(field: str, value: Any) -> Any:
    """Return a time or a duration in a form that does not depend on its spelling."""
    if isinstance(value, Mapping):
        return {key: _comparable(field, item) for key, item in value.items()}
    return parse_time(str(value)) or seconds_of(field, value)


def _at(raw: Mapping[str, Any], *path: str) -> Any:
    value: Any = raw
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
