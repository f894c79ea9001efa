# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that change something on Compute Engine, and the operations that they begin.

Each has an id, so that the same request sent again after a lost answer is not done twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from .._core.errors import from_status
from .._core.wait import Backoff, Seen, wait_for
from .._google.apis import GoogleApis
from .._tpu.model import Operation, basename
from .._wire.changes import alter_newest, once
from .operations import operation_of

POLL = Backoff(first=0.5, factor=1.5, most=10.0)
# How often a request is sent whose answers are lost.
TRIES = 3


class Changes:
    """What changes one project."""

    def __init__(self, apis: GoogleApis) -> None:
        self._apis = apis

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Operation:
        """Request a change; send it again while its answer is lost."""
        transport, with_id = self._apis.transport("compute"), _with_id(query)
        answer = once(
            transport,
            lambda: transport.send(method, path, with_id, body),
            has_id=True,
            tries=TRIES,
        )
        return operation_of(answer, self._apis.project)

    def change(
        self,
        read: Callable[[], dict[str, Any]],
        alter: Callable[[dict[str, Any]], dict[str, Any] | None],
        path: str,
    ) -> Operation | None:
        """Read, alter, and write back; begin again after a concurrent change.

        Return None if nothing is left to change.
        """
        transport = self._apis.transport("compute")
        raw = alter_newest(
            self._apis.clock,
            read,
            alter,
            lambda wanted: transport.send("POST", path, _with_id(), wanted),
        )
        return None if raw is None else operation_of(raw, self._apis.project)

    def refresh(self, operation: Operation) -> Operation:
        """Return an operation's present state; raise its error if it has failed."""
        if operation.name and not operation.done:
            raw = self._apis.transport("compute").read(self._path(operation))
            operation = operation_of(raw, self._apis.project)
        if operation.error:
            raise from_status(operation.error, operation.target or None)
        return operation

    def wait(self, operation: Operation, timeout: float, poll: Backoff = POLL) -> Operation:
        """Wait until an operation has ended; raise its error if it has failed."""
        if not operation.name:
            return operation

        def look(_elapsed: float) -> Seen[Operation]:
            now = self.refresh(operation)
            return Seen("done" if now.done else "running", now.done, now)

        what = f"the operation {operation.verb} of {basename(operation.target)} to end"
        clock = self._apis.clock
        ended = wait_for(look, what=what, timeout=timeout, clock=clock, backoff=poll)
        return ended or operation

    def _path(self, operation: Operation) -> str:
        home = f"projects/{self._apis.project}"
        for key in ("zone", "region"):
            if operation.raw.get(key):
                scope = f"{key}s/{basename(str(operation.raw[key]))}"
                return f"{home}/{scope}/operations/{operation.name}"
        return f"{home}/global/operations/{operation.name}"


def _with_id(query: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {**(query or {}), "requestId": str(uuid.uuid4())}
