# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long-running operations of the Cloud TPU API: look at them, and wait for their end."""

from __future__ import annotations

from typing import Any

from .._core.errors import BadRequest, NotFound, PermissionDenied, from_status
from .._core.wait import Backoff, Seen, wait_for
from .connection import Connection
from .model import Listing, Operation, basename

POLL = Backoff(first=1.0, factor=1.5, most=20.0)


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
        """Return the operation on a node that runs now, so that its failure can be seen."""
        try:
            running = [op for op in self.list(zone).items if not op.done]
        except (BadRequest, NotFound, PermissionDenied):
            return None  # It only makes a failure known earlier.
        ours = [op for op in running if op.target.endswith(f"/nodes/{node}")]
        return max(ours, key=lambda op: op.create_time, default=None)

    def refresh(self, operation: Operation) -> Operation:
        """Return the operation as it is now; raise what it failed with."""
        if operation.name and not operation.done:
            operation = self.get(operation.name)
        if operation.error:
            raise from_status(operation.error, operation.target or None)
        return operation

    def wait(
        self, operation: Operation, timeout: float = 900.0, backoff: Backoff = POLL
    ) -> dict[str, Any]:
        """Wait until an operation has ended; return its response, or raise its error.

        An operation without a name (its answer was lost) has nothing to wait for: look at the
        resource instead.
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
