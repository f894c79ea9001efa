# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long-running operations, and the base class of the clients for nodes and queued resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from .._core.errors import (
    BadRequest,
    NotFound,
    PermissionDenied,
    TpuError,
    WaitTimeout,
    from_status,
)
from .._core.wait import Backoff, Seen, wait_for
from .._wire.changes import once
from .connection import Connection
from .model import Listing, Operation, basename
from .versions import V2

T = TypeVar("T")

POLL = Backoff(first=1.0, factor=1.5, most=20.0)
# For this time, `get` may not know a resource whose creation was accepted.
PROPAGATION_SECONDS = 60.0


class OperationsClient:
    """Long-running operations."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> Operation:
        """Return an operation by its full name."""
        return Operation.from_api(self._connection.transport.read(f"v2/{name}"))

    def list(self, zone: str) -> Listing[Operation]:
        """Return the operations of a zone."""
        path = self._connection.parent(zone) + "/operations"
        return self._connection.pages(path, "operations", Operation.from_api)

    def latest(self, zone: str, node: str) -> Operation | None:
        """Return the operation that runs on a node, so that a wait notices its failure."""
        try:
            running = [op for op in self.list(zone).items if not op.done]
        except (BadRequest, NotFound, PermissionDenied):
            return None  # It only makes a failure known earlier.
        ours = [op for op in running if op.target.endswith(f"/nodes/{node}")]
        return max(ours, key=lambda op: op.create_time, default=None)

    def refresh(self, operation: Operation) -> Operation:
        """Return the operation's present state; raise its error if it has failed."""
        if operation.name and not operation.done:
            operation = self.get(operation.name)
        if operation.error:
            raise from_status(operation.error, operation.target or None)
        return operation

    def wait(
        self, operation: Operation, timeout: float = 900.0, backoff: Backoff = POLL
    ) -> dict[str, Any]:
        """Wait until an operation has ended; return its response, or raise its error.

        An operation without a name (its answer was lost) cannot be waited for: look at the resource
        instead.
        """
        if not operation.name:
            return operation.response

        def look(_elapsed: float) -> Seen[dict[str, Any]]:
            now = self.refresh(operation)
            return Seen("done" if now.done else "running", now.done, now.response)

        what = f"the operation {operation.verb or basename(operation.name)} to end"
        if operation.target:
            what = f"the operation {operation.verb or 'on'} {basename(operation.target)} to end"
        result = wait_for(
            look, what=what, timeout=timeout, clock=self._connection.clock, backoff=backoff
        )
        return result or {}


class ResourcesClient(Generic[T]):
    """One kind of resource: how to find it, and how to wait for it."""

    collection = ""
    noun = ""
    # The remedy after a wait that took too long, if the error itself has none.
    late_remedy = ""

    def __init__(self, connection: Connection, operations: OperationsClient) -> None:
        self._connection = connection
        self._operations = operations

    def get(self, zone: str, name: str, version: str = V2) -> T:
        """Return a resource; raise NotFound when there is none."""
        return self._from_api(self._connection.transport.read(self._path(zone, name, version)))

    def find(self, zone: str, name: str, version: str = V2) -> T | None:
        """Return a resource, or None when there is none."""
        try:
            return self.get(zone, name, version)
        except NotFound:
            return None

    def appearing(self, zone: str, name: str, backoff: Backoff, version: str = V2) -> T | None:
        """Return a resource that was requested a moment ago; None if it does not appear."""

        def look(elapsed: float) -> Seen[T]:
            found = self.find(zone, name, version)
            return Seen("not visible yet", bool(found) or elapsed > PROPAGATION_SECONDS, found)

        return wait_for(
            look,
            what=f"the {self.noun} {name} to be visible",
            timeout=PROPAGATION_SECONDS,
            clock=self._connection.clock,
            backoff=backoff,
        )

    def _from_api(self, raw: Mapping[str, Any]) -> T:
        raise NotImplementedError

    def _in_words(self, found: T) -> str:
        raise NotImplementedError

    def _collection(self, zone: str, version: str = V2) -> str:
        return f"{self._connection.parent(zone, version)}/{self.collection}"

    def _path(self, zone: str, name: str, version: str = V2) -> str:
        return f"{self._collection(zone, version)}/{name}"

    def _lost_operation(self, zone: str, name: str, verb: str, done: bool = False) -> Operation:
        """Return a placeholder for an operation whose answer was lost."""
        target = self._path(zone, name).partition("/")[2]
        return Operation(name="", done=done, target=target, verb=verb)

    def _once(
        self,
        send: Callable[[], Mapping[str, Any]],
        effect: Callable[[TpuError], Operation | None],
        *,
        has_id: bool = False,
        tries: int | None = None,
    ) -> Operation:
        """Request a change once, also when answers are lost; wait while the service is busy."""
        transport = self._connection.transport
        return once(
            transport,
            lambda: Operation.from_api(transport.accept(send)),
            effect,
            has_id=has_id,
            tries=tries,
        )

    def _wait(
        self,
        zone: str,
        name: str,
        wanted: str,
        is_so: Callable[[T], bool],
        operation: Operation | None,
        timeout: float,
        backoff: Backoff,
        version: str = V2,
        is_new: bool = False,
    ) -> T:
        """Wait until `is_so` is true of a resource; `is_so` raises if it never will be.

        The resource's state decides: its operation may run much longer, and is read only to notice
        a failure early. A new resource may not be visible yet.
        """

        def look(elapsed: float) -> Seen[T]:
            found = self.find(zone, name, version)
            if found is not None and is_so(found):
                return Seen(self._in_words(found), True, found)
            if operation is not None:
                self._operations.refresh(operation)
            if found is not None:
                return Seen(self._in_words(found))
            if not is_new or elapsed > PROPAGATION_SECONDS:
                raise NotFound(f"The {self.noun} {name} in {zone} does not exist.", resource=name)
            return Seen("not visible yet")

        what, clock = f"the {self.noun} {name} to be {wanted}", self._connection.clock
        try:
            found = wait_for(look, what=what, timeout=timeout, clock=clock, backoff=backoff)
        except WaitTimeout as error:
            error.remedy = self.late_remedy or error.remedy
            raise
        if found is None:
            raise NotFound(f"Waited for {what}, but it did not appear.")
        return found

    def _wait_gone(
        self,
        zone: str,
        name: str,
        is_another: Callable[[T], bool],
        operation: Operation | None,
        timeout: float,
        backoff: Backoff,
    ) -> None:
        """Wait until a name is free again, or belongs to a resource that was created since."""

        def look(_elapsed: float) -> Seen[bool]:
            found = self.find(zone, name)
            if found is None or is_another(found):
                return Seen("gone", True, True)
            if operation is not None:
                self._operations.refresh(operation)
            return Seen(self._in_words(found))

        what, clock = f"the {self.noun} {name} to be gone", self._connection.clock
        wait_for(look, what=what, timeout=timeout, clock=clock, backoff=backoff)
