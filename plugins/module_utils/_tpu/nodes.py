# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TPU nodes: calls that change something at most once, and waits for the node's own state."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from .._core.errors import AlreadyExists, NodeLost, NotFound, TpuError
from .._core.wait import Backoff
from .model import Listing, Node, Operation
from .operations import ResourcesClient
from .versions import V2, V2ALPHA1, api_version_of

# Creations take minutes, and frequent polling only uses up the project's request quota.
NODE_POLL = Backoff(first=2.0, factor=1.5, most=20.0)


class NodesClient(ResourcesClient[Node]):
    """The nodes of a project."""

    collection, noun = "nodes", "node"

    def list(self, zone: str = "-") -> Listing[Node]:
        """Return the nodes of a zone, or of all zones that answer."""
        return self._connection.pages(self._collection(zone), self.collection, Node.from_api)

    def ask(self, zone: str, name: str, body: Mapping[str, Any]) -> Operation:
        """Request a node once; after Unavailable the caller checks whether it exists."""
        path = self._collection(zone, api_version_of(body))
        transport = self._connection.transport
        return Operation.from_api(transport.send("POST", path, {"nodeId": name}, body))

    def ask_deletion(self, zone: str, name: str) -> Operation:
        """Request a node's deletion once; the caller checks the effect."""
        return Operation.from_api(self._connection.transport.send("DELETE", self._path(zone, name)))

    def create(self, zone: str, name: str, body: Mapping[str, Any]) -> Operation:
        """Request a node.

        The name makes the request safe to repeat: after a lost answer, look whether the node
        exists. If not, request it again; "exists" then means that the first request created it.
        """
        transport = self._connection.transport
        path, query = self._collection(zone, api_version_of(body)), {"nodeId": name}

        def made(error: TpuError) -> Operation | None:
            there = self.find(zone, name)
            if self._made_by(there, body):
                return self._lost_operation(zone, name, "create")
            if there is not None:
                raise AlreadyExists(
                    f"A node {name} that this request did not make exists in {zone}."
                ) from error
            return None

        return self._once(lambda: transport.send("POST", path, query, body), made)

    def delete(self, zone: str, name: str, uid: str | None = None) -> Operation:
        """Request a node's deletion; raise NotFound if there was none at the beginning.

        After a lost answer, look first: a node with another uid was created by another client.
        """
        transport, path = self._connection.transport, self._path(zone, name)

        def gone(error: TpuError) -> Operation | None:
            there = None if isinstance(error, NotFound) else self.find(zone, name)
            if there is None or (uid and there.uid and there.uid != uid):
                return self._lost_operation(zone, name, "delete", done=True)
            is_going = there.state == "DELETING"
            return self._lost_operation(zone, name, "delete") if is_going else None

        return self._once(lambda: transport.send("DELETE", path), gone)

    def patch(
        self, zone: str, name: str, body: Mapping[str, Any], mask: Sequence[str]
    ) -> Operation:
        """Replace the masked fields; repeating the request does not change the result."""
        transport = self._connection.transport
        path = self._path(zone, name, api_version_of(body))
        query = {"updateMask": ",".join(mask)}
        return Operation.from_api(
            transport.repeat(lambda: transport.send("PATCH", path, query, body))
        )

    def ask_patch(
        self, zone: str, name: str, body: Mapping[str, Any], mask: Sequence[str]
    ) -> Operation:
        """Request once that the masked fields be replaced; the caller checks the effect."""
        path = self._path(zone, name, api_version_of(body))
        query = {"updateMask": ",".join(mask)}
        return Operation.from_api(self._connection.transport.send("PATCH", path, query, body))

    def ask_start(self, zone: str, name: str) -> Operation:
        """Request the start of a stopped node once; the caller checks the effect."""
        path = f"{self._path(zone, name)}:start"
        return Operation.from_api(self._connection.transport.send("POST", path, body={}))

    def start(self, zone: str, name: str) -> Operation:
        """Start a stopped node."""
        return Operation.from_api(self._verb(zone, name, "start"))

    def stop(self, zone: str, name: str) -> Operation:
        """Stop a single-host node."""
        return Operation.from_api(self._verb(zone, name, "stop"))

    def simulate_maintenance(
        self, zone: str, name: str, worker_ids: Sequence[int] = (0,)
    ) -> Operation:
        """Ask the service to treat a worker as under maintenance."""
        body = {"workerIds": [str(worker) for worker in worker_ids]}
        return Operation.from_api(
            self._verb(zone, name, "simulateMaintenanceEvent", body, V2ALPHA1)
        )

    def guest_attributes(
        self,
        zone: str,
        name: str,
        query_path: str = "",
        worker_ids: Sequence[int] | None = None,
    ) -> builtins.list[dict[str, Any]]:
        """Return the guest attributes of the workers: one raw entry each, `{}` if there are none.

        Without `worker_ids` the index is the worker; with them, the entries are in their order.
        """
        body: dict[str, Any] = {}
        if query_path:
            body["queryPath"] = query_path
        if worker_ids is not None:
            body["workerIds"] = [str(worker) for worker in worker_ids]
        answer = self._verb(zone, name, "getGuestAttributes", body)
        entries = answer.get("guestAttributes")
        if not isinstance(entries, list):
            entries = []
        found = [dict(entry) if isinstance(entry, dict) else {} for entry in entries]
        missing = len(worker_ids or ()) - len(found)
        return found + [{} for _worker in range(missing)]

    def wait_ready(
        self,
        zone: str,
        name: str,
        operation: Operation | None = None,
        timeout: float = 1800.0,
        backoff: Backoff = NODE_POLL,
    ) -> Node:
        """Wait until a node can be used."""

        def is_ready(node: Node) -> bool:
            return node.is_ready or self._fails_if_lost(node, "READY", operation)

        return self._wait(zone, name, "READY", is_ready, operation, timeout, backoff, is_new=True)

    def wait_state(
        self,
        zone: str,
        name: str,
        state: str,
        operation: Operation | None = None,
        timeout: float = 900.0,
        backoff: Backoff = NODE_POLL,
    ) -> Node:
        """Wait until a node is in a state."""

        def is_so(node: Node) -> bool:
            return node.state == state or self._fails_if_lost(node, state, operation)

        return self._wait(zone, name, state, is_so, operation, timeout, backoff)

    def wait_gone(
        self,
        zone: str,
        name: str,
        operation: Operation | None = None,
        uid: str | None = None,
        timeout: float = 900.0,
        backoff: Backoff = NODE_POLL,
    ) -> None:
        """Wait until a node's name is free again."""

        def is_another(node: Node) -> bool:
            return bool(uid and node.uid and node.uid != uid)

        self._wait_gone(zone, name, is_another, operation, timeout, backoff)

    def _verb(
        self,
        zone: str,
        name: str,
        verb: str,
        body: Mapping[str, Any] | None = None,
        version: str = V2,
    ) -> dict[str, Any]:
        transport = self._connection.transport
        path = f"{self._path(zone, name, version)}:{verb}"
        return transport.repeat(lambda: transport.send("POST", path, body=body or {}))

    @staticmethod
    def _made_by(node: Node | None, body: Mapping[str, Any]) -> bool:
        """Return whether the request with this body created the node, by its labels."""
        labels = body.get("labels") or {}
        return node is not None and all(
            node.labels.get(key) == value for key, value in labels.items()
        )

    def _fails_if_lost(self, node: Node, wanted: str, operation: Operation | None) -> bool:
        """Raise the reason why a lost node cannot become as wanted; its operation's error first."""
        if not node.is_lost:
            return False
        if operation is not None:
            self._operations.refresh(operation)
        raise NodeLost(
            f"The node {node.name} became {node.state} before it was {wanted}.",
            remedy="Delete it and create it again (recreate: true).",
            resource=node.name,
        )

    def _from_api(self, raw: Mapping[str, Any]) -> Node:
        return Node.from_api(raw)

    def _in_words(self, found: Node) -> str:
        return found.in_words
