"""The queue beside the rest of a fleet, for `top` and the page: read, and nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import (
    Inventory,
    InventoryError,
)

from .fleet import QueueError, queue_of
from .view import QueueView, with_doing

MOST_ROWS = 200
"""Runs that wait or run that are kept for the page."""


@dataclass(frozen=True)
class Glance:
    """What is in the queue; nothing where the fleet file has no fleet_queue."""

    view: QueueView | None = None
    problem: str = ""
    """Why it could not be read."""

    @property
    def waiting(self) -> int:
        """How many runs wait."""
        return len(self.view.waiting) if self.view else 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as the history keeps it: what waits or runs, the next first."""
        rows = (
            [self.view.row(one) for one in self.view.in_order() if one.is_open] if self.view else []
        )
        return {
            "rows": rows[:MOST_ROWS],
            "more": max(0, len(rows) - MOST_ROWS),
            "waiting": self.waiting,
            "problem": self.problem,
        }


def glance(inventory: Inventory, now: float) -> Glance:
    """Read the queue of the fleet in an inventory, at a time in seconds since 1970."""
    try:
        if not inventory.said("fleet_queue"):
            return Glance()
        fleet = queue_of(inventory)
        queue = fleet.opened()
        return Glance(with_doing(fleet, queue, queue.all(), now))
    except (InventoryError, NoAnswer, QueueError, TpuError) as error:
        return Glance(problem=f"The queue cannot be read: {error}")
