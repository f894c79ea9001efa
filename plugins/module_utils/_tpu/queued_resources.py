# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queued resources: their typed form, calls that are safe to repeat, and waits."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from .._core.error_table import row_named
from .._core.errors import NodeLost, NotFound, TpuError, from_status
from .._core.wait import Backoff
from .model import TPU, Listing, Node, Operation, basename, map_in, parse_time, part_of
from .operations import ResourcesClient
from .versions import RENAMED, V2, api_version_of

DEAD_STATES = frozenset({"SUSPENDED", "FAILED"})
GOING_STATES = frozenset({"SUSPENDING", "DELETING"})

# Capacity may take days, so one request a minute is enough.
QUEUE_POLL = Backoff(first=2.0, factor=1.5, most=60.0)


@dataclass(frozen=True)
class QueuedResource:
    """A request for nodes that waits for capacity, and its result."""

    name: str
    project: str
    zone: str
    state: str
    initiator: str
    tier: str
    nodes: list[Node]
    error: dict[str, Any]
    reservation: str
    valid_until: str | None
    create_time: str | None
    raw: dict[str, Any] = field(repr=False)
    # Which API has it: on Compute Engine it is an instance or a group that waits for capacity.
    api: str = TPU

    @classmethod
    def from_api(cls, raw: Mapping[str, Any]) -> QueuedResource:
        """Return the queued resource that an API answer describes; every field may be absent."""
        path = str(raw.get("name") or "")
        status = map_in(raw, "state")
        initiator = str(status.get("stateInitiator") or "")
        nodes = _nodes(raw, path)
        tier = _tier(raw, nodes)
        return cls(
            name=basename(path),
            project=part_of(path, "projects"),
            zone=part_of(path, "locations"),
            state=str(status.get("state") or "STATE_UNSPECIFIED"),
            initiator="" if initiator == "STATE_INITIATOR_UNSPECIFIED" else initiator,
            tier=tier,
            nodes=[replace(node, tier=tier) for node in nodes],
            error=dict(map_in(map_in(status, "failedData"), "error")),
            reservation=str(raw.get("reservationName") or ""),
            valid_until=_valid_until(raw),
            create_time=str(raw["createTime"]) if raw.get("createTime") else None,
            raw=dict(raw),
        )

    @property
    def created(self) -> datetime | None:
        """Return when it was created."""
        return parse_time(self.create_time)

    @property
    def is_active(self) -> bool:
        """Return whether Google has created all its nodes."""
        return self.state == "ACTIVE"

    @property
    def is_dead(self) -> bool:
        """Return whether it will never provide nodes again; it still counts against the quota."""
        return self.state in DEAD_STATES

    @property
    def is_going(self) -> bool:
        """Return whether it is being suspended or deleted."""
        return self.state in GOING_STATES

    @property
    def is_waiting(self) -> bool:
        """Return whether it may still become active; an unknown state counts as waiting."""
        return not (self.is_active or self.is_dead or self.is_going)

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels that all its nodes have."""
        if not self.nodes:
            return {}
        first, *rest = self.nodes
        return {
            key: value
            for key, value in first.labels.items()
            if all(node.labels.get(key) == value for node in rest)
        }

    @property
    def in_words(self) -> str:
        """Return the state, and who caused it."""
        by = {"USER": " by a user", "SERVICE": " by the service"}.get(self.initiator, "")
        return f"{self.state}{by}"


def failure_of(queued: QueuedResource) -> TpuError:
    """Return the exception for a queued resource that has failed or was suspended."""
    where = f"the queued resource {queued.name} in {queued.zone} is {queued.in_words}"
    if not queued.error:
        by_user = "_by_user" if queued.initiator == "USER" else ""
        case = "queued_failed" if queued.state == "FAILED" else f"queued_suspended{by_user}"
        return NodeLost(f"{where[0].upper()}{where[1:]}.", case=case, resource=queued.name)
    error = from_status(queued.error, queued.name)
    # The API's message comes first, because users search for it.
    error.message = f"{error.message.rstrip('.')}: {where}."
    error.remedy = f"{error.remedy} {row_named('queued_failed').remedy}"
    return error


class QueuedResourcesClient(ResourcesClient[QueuedResource]):
    """The queued resources of a project.

    Answers of v2 omit what only v2alpha1 knows (the tiers best_effort and flex_start, a maximum
    duration): give `version` where these matter.
    """

    collection, noun = "queuedResources", "queued resource"
    late_remedy = "The request stays in the queue: run this again to continue waiting."

    def list(self, zone: str = "-", version: str = V2) -> Listing[QueuedResource]:
        """Return the queued resources of a zone, or of all zones that answer."""
        path = self._collection(zone, version)
        return self._connection.pages(path, self.collection, QueuedResource.from_api)

    def ask(self, zone: str, name: str, body: Mapping[str, Any]) -> Operation:
        """Request a queued resource once; after Unavailable the caller checks whether it exists."""
        path = self._collection(zone, api_version_of(body))
        query = {"queuedResourceId": name, "requestId": str(uuid.uuid4())}
        return Operation.from_api(self._connection.transport.send("POST", path, query, body))

    def ask_deletion(self, zone: str, name: str) -> Operation:
        """Request the deletion of a queued resource and its nodes once; the caller checks it."""
        query = {"requestId": str(uuid.uuid4()), "force": "true"}
        path = self._path(zone, name)
        return Operation.from_api(self._connection.transport.send("DELETE", path, query))

    def create(
        self, zone: str, name: str, body: Mapping[str, Any], request_id: str | None = None
    ) -> Operation:
        """Request a queued resource.

        After a lost answer the same request is sent again with the same id, which the API answers
        as before. If the API no longer knows the id, look who created the resource of that name.
        """
        transport = self._connection.transport
        path = self._collection(zone, api_version_of(body))
        query = {"queuedResourceId": name, "requestId": request_id or str(uuid.uuid4())}

        def made(_error: TpuError) -> Operation | None:
            is_made = self._made_by(self.find(zone, name), body)
            return self._lost_operation(zone, name, "create") if is_made else None

        return self._once(lambda: transport.send("POST", path, query, body), made, has_id=True)

    def delete(
        self, zone: str, name: str, force: bool = False, request_id: str | None = None
    ) -> Operation:
        """Request a queued resource's deletion; with `force` its nodes are deleted first.

        Raise NotFound if there was none at the beginning.
        """
        transport, path = self._connection.transport, self._path(zone, name)
        query = {
            "requestId": request_id or str(uuid.uuid4()),
            **({"force": "true"} if force else {}),
        }

        def gone(error: TpuError) -> Operation | None:
            there = None if isinstance(error, NotFound) else self.find(zone, name)
            is_going = there is None or there.state == "DELETING"
            done = there is None
            return self._lost_operation(zone, name, "delete", done) if is_going else None

        return self._once(lambda: transport.send("DELETE", path, query), gone, has_id=True)

    def reset(self, zone: str, name: str) -> Operation:
        """Request that an active queued resource creates its nodes again.

        The call is not repeatable: after a lost answer, look whether the reset has begun.
        """
        transport, path = self._connection.transport, f"{self._path(zone, name)}:reset"

        def begun(_error: TpuError) -> Operation | None:
            there = self.find(zone, name)
            is_so = there is not None and not there.is_active
            return self._lost_operation(zone, name, "reset") if is_so else None

        return self._once(lambda: transport.send("POST", path, body={}), begun, tries=1)

    def wait_active(
        self,
        zone: str,
        name: str,
        operation: Operation | None = None,
        timeout: float = 1800.0,
        backoff: Backoff = QUEUE_POLL,
        version: str = V2,
    ) -> QueuedResource:
        """Wait until all nodes were created; raise the error if the request fails."""
        return self.wait_state(zone, name, "ACTIVE", operation, timeout, backoff, version)

    def wait_state(
        self,
        zone: str,
        name: str,
        state: str,
        operation: Operation | None = None,
        timeout: float = 1800.0,
        backoff: Backoff = QUEUE_POLL,
        version: str = V2,
    ) -> QueuedResource:
        """Wait until a queued resource is in a state; raise if it never will be."""

        def is_so(queued: QueuedResource) -> bool:
            if queued.is_dead and queued.state != state:
                raise failure_of(queued)
            return queued.state == state

        return self._wait(
            zone, name, state, is_so, operation, timeout, backoff, version, is_new=True
        )

    def wait_dead(
        self,
        zone: str,
        name: str,
        timeout: float = 900.0,
        backoff: Backoff = QUEUE_POLL,
    ) -> QueuedResource:
        """Wait until a queued resource that is losing its nodes has lost them all."""

        def is_over(queued: QueuedResource) -> bool:
            return not queued.is_going

        return self._wait(zone, name, "SUSPENDED", is_over, None, timeout, backoff)

    def wait_gone(
        self,
        zone: str,
        name: str,
        operation: Operation | None = None,
        create_time: str | None = None,
        timeout: float = 900.0,
        backoff: Backoff = QUEUE_POLL,
    ) -> None:
        """Wait until the name is free again, or has a resource with another creation time."""

        def is_another(queued: QueuedResource) -> bool:
            return bool(create_time) and queued.create_time != create_time

        self._wait_gone(zone, name, is_another, operation, timeout, backoff)

    def _from_api(self, raw: Mapping[str, Any]) -> QueuedResource:
        return QueuedResource.from_api(raw)

    def _in_words(self, found: QueuedResource) -> str:
        return found.in_words

    @staticmethod
    def _made_by(queued: QueuedResource | None, body: Mapping[str, Any]) -> bool:
        """Return whether the request with this body created it, by the labels of its nodes."""
        if queued is None or not queued.nodes:
            return False
        labels = map_in(map_in(body["tpu"]["nodeSpec"][0], "node"), "labels")
        return all(queued.labels.get(key) == value for key, value in labels.items())


def _nodes(raw: Mapping[str, Any], path: str) -> list[Node]:
    """Return the requested nodes; an answer may omit the single nodes of a multislice."""
    home = path.partition("/queuedResources/")[0]
    nodes = []
    for spec in map_in(raw, "tpu").get("nodeSpec") or []:
        if not isinstance(spec, Mapping):
            continue
        parent = str(spec.get("parent") or home)
        node = {**map_in(spec, "node"), "queuedResource": path}
        for name in _node_names(spec, basename(path)):
            nodes.append(Node.from_api({**node, "name": f"{parent}/nodes/{name}"}))
    return nodes


def _node_names(spec: Mapping[str, Any], queued_name: str) -> list[str]:
    if spec.get("nodeId"):
        return [str(spec["nodeId"])]
    for key in (*RENAMED, *RENAMED.values()):
        params = map_in(spec, key)
        count = params.get("nodeCount")
        if count:
            prefix = params.get("nodeIdPrefix") or queued_name
            return [f"{prefix}-{index}" for index in range(int(count))]
    return [basename(str(map_in(spec, "node").get("name") or queued_name))]


def _tier(raw: Mapping[str, Any], nodes: list[Node]) -> str:
    model = raw.get("provisioningModel")
    if model == "FLEX_START":
        return "flex_start"
    if "bestEffort" in raw:
        return "best_effort"
    if "spot" in raw or model == "SPOT":
        return "spot"
    bound = model == "RESERVATION_BOUND" or map_in(raw, "guaranteed").get("reserved")
    if bound or raw.get("reservationName"):
        return "reserved"
    if "guaranteed" in raw:
        return "guaranteed"
    # v2 does not name every tier; the tier of its nodes is a better guess than none.
    tiers = {node.tier for node in nodes}
    tier = tiers.pop() if len(tiers) == 1 else "on_demand"
    return "best_effort" if tier == "preemptible" else tier


def _valid_until(raw: Mapping[str, Any]) -> str | None:
    """Return when the request ends, from any of the forms of this condition."""
    policy = map_in(raw, "queueingPolicy")
    said = policy.get("validUntilTime") or map_in(policy, "validInterval").get("endTime")
    if said:
        return str(said)
    created = parse_time(str(raw.get("createTime") or ""))
    lasting = str(policy.get("validUntilDuration") or "").rstrip("s")
    try:
        ends = created + timedelta(seconds=float(lasting)) if created and lasting else None
    except (ValueError, OverflowError):
        return None
    return ends.isoformat().replace("+00:00", "Z") if ends else None
