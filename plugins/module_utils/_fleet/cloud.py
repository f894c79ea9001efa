# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fleet asks of the API from which its slices come; _fleet/tpu_api.py is the one there is.

Each call is made once: who asks looks himself what came of it. What is wrong is raised as TpuError.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from .._core.errors import TpuError
from .._core.wait import Clock
from .._tpu.model import Listing, Node, Operation
from .._tpu.queued_resources import QueuedResource
from .plan_terms import Action


class Cloud(Protocol):
    """Looks at one project, and carries out actions of a plan."""

    @property
    def clock(self) -> Clock:
        """Return the clock by which is waited."""

    def now(self) -> datetime:
        """Return the time of the API: grants end by it, not by that of this computer."""

    def nodes(self) -> Listing[Node]:
        """Return the nodes of all zones that answer."""

    def queued(self, tiers: Collection[str]) -> Listing[QueuedResource]:
        """Return the requests that wait, so that these tiers are told apart."""

    def operations(self, zone: str) -> list[Operation]:
        """Return what is under way in a zone, or was a moment ago."""

    def not_offered(self, action: Action) -> TpuError | None:
        """Return what a creation would be refused with, as far as the zone tells beforehand."""

    def do(self, action: Action, patience: float) -> Operation:
        """Carry out an action; wait so many seconds for a change that the next look should show."""
