# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TPU nodes: calls that change things at most once, and waits on the node's own state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, List

from .._core.errors import AlreadyExists, NodeLost, NotFound, Unavailable
from .._core.wait import Backoff, Seen, wait_for
from .connection import Connection
from .model import Listing, Node, Operation
from .operations import OperationsClient
from .versions import V2, V2ALPHA1, api_version_of

# A node may be unknown to `get` for a while after its creation was accepted.
PROPAGATION_SECONDS = 60.0
# Creations take minutes; asking more often only uses up the project's request quota.
NODE_POLL = Backoff(first=2.0, factor=1.5, most=20.0)


class NodesClient:
    """The nodes of a project."""

    def __init__(self, connection: Connection, operations: OperationsClient) -> None:
        self._connection = connection
        self._operations = operations

    def list(self, zone: str = "-") -> Listing[Node]:
        """Return the nodes of a zone, or of all zones that answer."""
        path = self._connection.parent(zone) + "/nodes"
        return self._connection.pages(path, "nodes", Node.from_api)

    def get(self, zone: str, name: str, version: str = V2) -> Node:
        """Return a node; raise NotFound when there is none."""
        return Node.from_api(self._connection.transport.read(self._path(zone, name, version)))

    def find(self, zone: str, name: str, version: str = V2) -> Node | None:
        """Return a node, or None when there is none."""
        try:
            return self.get(zone, name, version)
        except NotFound:
            return None

    def ask(self, zone: str, name: str, body: Mapping[str, Any]) -> Operation:
        """Ask for a node once, for who looks himself: after Unavailable it may be there or not."""
        path = self._connection.parent(zone, api_version_of(body)) + "/nodes"
        transport = self._connection.transport
        return Operation.from_api(transport.send("POST", path, {"nodeId": name}, body))

    def ask_deletion(self, zone: str, name: str) -> Operation:
        """Ask for a node's end once, for who looks himself."""
        return Operation.from_api(self._connection.transport.send("DELETE", self._path(zone, name)))

    def create(self, zone: str, name: str, body: Mapping[str, Any]) -> Operation:
        """Ask for a node.

        The name is what makes the request safe to repeat: after an answer that was lost, look
        whether the node is there; if not, ask again, and take "exists" for "it was ours".
        """
        transport = self._connection.transport
        path = self._connection.parent(zone, api_version_of(body)) + "/nodes"
        query = {"nodeId": name}
        delays = transport.retry.backoff.delays()
        lost: Unavailable | None = None
        for attempt in range(1, transport.retry.tries + 1):
            try:
                answer = transport.accept(lambda: transport.send("POST", path, query, body))
                return Operation.from_api(answer)
            except AlreadyExists:
                if lost is None or not self._made_by(self.find(zone, name), body):
                    raise
                return self._lost_operation(zone, name, "create")
            except Unavailable as error:
                lost = error
                if attempt == transport.retry.tries:
                    raise
            transport.pause(lost, next(delays))
            there = self.find(zone, name)
            if there is not None:
                if self._made_by(there, body):
                    return self._lost_operation(zone, name, "create")
                raise AlreadyExists(
                    f"A node {name} that this request did not make exists in {zone}."
                ) from lost
        raise lost or Unavailable("No try was allowed.")

    def delete(self, zone: str, name: str, uid: str | None = None) -> Operation:
        """Ask for a node's end; raise NotFound when there was none to begin with.

        After an answer that was lost, look first: a node of another uid is someone's new one.
        """
        transport = self._connection.transport
        path = self._path(zone, name)
        delays = transport.retry.backoff.delays()
        lost: Unavailable | None = None
        for attempt in range(1, transport.retry.tries + 1):
            try:
                answer = transport.accept(lambda: transport.send("DELETE", path))
                return Operation.from_api(answer)
            except NotFound:
                if lost is None:
                    raise
                return self._lost_operation(zone, name, "delete", done=True)
            except Unavailable as error:
                lost = error
                if attempt == transport.retry.tries:
                    raise
            transport.pause(lost, next(delays))
            there = self.find(zone, name)
            if there is None or (uid and there.uid and there.uid != uid):
                return self._lost_operation(zone, name, "delete", done=True)
            if there.state == "DELETING":
                return self._lost_operation(zone, name, "delete")
        raise lost or Unavailable("No try was allowed.")

    def patch(
        self, zone: str, name: str, body: Mapping[str, Any], mask: Sequence[str]
    ) -> Operation:
        """Replace the masked fields; to do it twice is to do it once."""
        transport = self._connection.transport
        path = self._path(zone, name, api_version_of(body))
        query = {"updateMask": ",".join(mask)}
        return Operation.from_api(
            transport.repeat(lambda: transport.send("PATCH", path, query, body))
        )

    def ask_patch(
        self, zone: str, name: str, body: Mapping[str, Any], mask: Sequence[str]
    ) -> Operation:
        """Ask once for the masked fields to be replaced, for who looks himself."""
        path = self._path(zone, name, api_version_of(body))
        query = {"updateMask": ",".join(mask)}
        return Operation.from_api(self._connection.transport.send("PATCH", path, query, body))

    def ask_start(self, zone: str, name: str) -> Operation:
        """Ask once for a stopped node to be switched on, for who looks himself."""
        path = f"{self._path(zone, name)}:start"
        return Operation.from_api(self._connection.transport.send("POST", path, body={}))

    def start(self, zone: str, name: str) -> Operation:
        """Switch a stopped node on."""
        return Operation.from_api(self._verb(zone, name, "start"))

    def stop(self, zone: str, name: str) -> Operation:
        """Switch a single-host node off."""
        return Operation.from_api(self._verb(zone, name, "stop"))

    def simulate_maintenance(
        self, zone: str, name: str, worker_ids: Sequence[int] = (0,)
    ) -> Operation:
        """Let the service treat a worker as in maintenance."""
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
    ) -> List[dict[str, Any]]:
        """Return what the workers published: one raw entry each, `{}` for a silent one.

        Without `worker_ids` the index is the worker; with them, the answers are in their order.
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
        """Wait until a node can be used.

        The node's own state decides; the operation may go on long after the node has booted, and
        is only asked in order to fail early.
        """

        def look(elapsed: float) -> Seen[Node]:
            node = self.find(zone, name)
            if node is not None and node.is_ready:
                return Seen(node.state, True, node)
            if operation is not None:
                self._operations.refresh(operation)
            if node is None:
                if elapsed > PROPAGATION_SECONDS:
                    raise NotFound(f"The node {name} in {zone} is not there.", resource=name)
                return Seen("not visible yet")
            self._fail_if_lost(node, "READY")
            return Seen(_in_words(node))

        return self._wait(look, f"the node {name} to be READY", timeout, backoff)

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

        def look(_elapsed: float) -> Seen[Node]:
            node = self.get(zone, name)
            if node.state == state:
                return Seen(node.state, True, node)
            if operation is not None:
                self._operations.refresh(operation)
            self._fail_if_lost(node, state)
            return Seen(_in_words(node))

        return self._wait(look, f"the node {name} to be {state}", timeout, backoff)

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

        def look(_elapsed: float) -> Seen[bool]:
            node = self.find(zone, name)
            if node is None or (uid and node.uid and node.uid != uid):
                return Seen("gone", True, True)
            if operation is not None:
                self._operations.refresh(operation)
            return Seen(_in_words(node))

        what = f"the node {name} to be gone"
        wait_for(look, what=what, timeout=timeout, clock=self._connection.clock, backoff=backoff)

    def _wait(self, look: Any, what: str, timeout: float, backoff: Backoff) -> Node:
        node = wait_for(
            look, what=what, timeout=timeout, clock=self._connection.clock, backoff=backoff
        )
        if not isinstance(node, Node):
            raise NotFound(f"Waited for {what}, and nothing came.")
        return node

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

    def _path(self, zone: str, name: str, version: str = V2) -> str:
        return f"{self._connection.parent(zone, version)}/nodes/{name}"

    def _lost_operation(self, zone: str, name: str, verb: str, done: bool = False) -> Operation:
        target = self._path(zone, name).partition("/")[2]
        return Operation(name="", done=done, target=target, verb=verb)

    @staticmethod
    def _made_by(node: Node | None, body: Mapping[str, Any]) -> bool:
        """Say whether a node is what a body asked for: its labels tell."""
        labels = body.get("labels") or {}
        return node is not None and all(
            node.labels.get(key) == value for key, value in labels.items()
        )

    @staticmethod
    def _fail_if_lost(node: Node, wanted: str) -> None:
        if node.is_lost and node.state != wanted:
            raise NodeLost(
                f"The node {node.name} became {node.state} before it was {wanted}.",
                remedy="Delete it and create it again (recreate: true).",
                resource=node.name,
            )


def _in_words(node: Node) -> str:
    health = "" if node.health in ("HEALTHY", "HEALTH_UNSPECIFIED") else f", health {node.health}"
    return f"{node.state}{health}"
