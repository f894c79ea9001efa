# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The calls that the fleet makes to the API that provides its slices; see _fleet/tpu_api.py.

Each call is made once, and the caller looks for its effect itself. Errors are raised as TpuError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Protocol

from .._core.errors import Busy, TpuError
from .._core.wait import Clock
from .._tpu.model import Listing, Node, Operation
from .._tpu.queued_resources import QueuedResource
from .plan_terms import Action


class Cloud(Protocol):
    """Reads one project, and carries out actions of a plan."""

    @property
    def clock(self) -> Clock:
        """Return the clock that measures the waits."""

    def now(self) -> datetime:
        """Return the API's time, because grants end by it and not by the time of this computer."""

    def nodes(self) -> Listing[Node]:
        """Return the nodes of all zones that answer."""

    def queued(self, tiers: Collection[str]) -> Listing[QueuedResource]:
        """Return the queued resources, from a version of the API that distinguishes these tiers."""

    def operations(self, zone: str) -> list[Operation]:
        """Return a zone's operations that run, or ended recently."""

    def not_offered(self, action: Action) -> TpuError | None:
        """Return the error that a creation would get, as far as the zone's catalogue shows."""

    def prepare(self, action: Action, patience: float) -> None:
        """Make what an action needs before, which costs nothing and may take a while."""

    def do(self, action: Action, patience: float) -> Operation:
        """Carry out an action; wait so many seconds for a change that the next look should show."""


class Starts:
    """The starts of an API; the last one's error is raised first, because nothing else shows it."""

    def __init__(self, refresh: Callable[[Operation], Operation]) -> None:
        self._refresh = refresh
        self._last: dict[tuple[str, str], Operation] = {}

    def start(self, zone: str, name: str, ask: Callable[[], Operation]) -> Operation:
        """Start a slice, unless it is still being started."""
        last = self._last.pop((zone, name), None)
        if last is not None and not self._refresh(last).done:
            self._last[zone, name] = last
            raise Busy("It is still being started.")
        operation = self._last[zone, name] = ask()
        return operation
