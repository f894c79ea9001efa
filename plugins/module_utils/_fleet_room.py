# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room that the grant has for a fleet, with what goes and what is about to come. Pure."""

from __future__ import annotations

from ._allocations import Holding, chips_of, holdings_of
from ._fleet_terms import Tries, World, makes
from ._fleet_want import Candidate, Fleet
from ._model import Node

Key = tuple[str, str, str]


class Room:
    """Keeps count while a plan is made."""

    def __init__(self, fleet: Fleet, world: World, tries: Tries) -> None:
        self._fleet = fleet
        self._world = world
        # What the plan deletes: kind, zone and name.
        self.gone: set[Key] = set()
        # What this plan, or a request without an answer, adds to what exists.
        self._added: list[Holding] = []
        for (name, place), known in tries.items():
            if known.asked_at is not None:
                tier = next((w.tier for w in fleet.slices if w.name == name), "on_demand")
                self.add(name, place, tier, "asked for")

    def add(self, name: str, place: Candidate, tier: str, why: str) -> None:
        """Count what is not there yet."""
        chips = chips_of(place.accelerator_type) or 0
        what = f"{name} ({why})"
        self._added.append(Holding(place.zone, place.accelerator_type, tier, chips, what))

    def is_over(self, zone: str, accelerator_type: str, tier: str) -> bool:
        """Say whether the grant for such a node has ended."""
        return self._fleet.grant.ended(zone, accelerator_type, tier, self._world.now)

    def refusal(
        self, place: Candidate, tier: str, *, staying: bool, without: Node | None = None
    ) -> str | None:
        """Return why the grant has no room: now, or (staying) even when all that goes is gone."""
        nodes, queued = self._world.nodes, self._world.queued
        if staying:
            nodes = tuple(node for node in nodes if node is not without and not self.leaves(node))
            queued = tuple(
                item
                for item in queued
                if item.state != "DELETING"
                and ("queued", item.zone, item.name) not in self.gone
                and not (without is not None and makes(item, without))
            )
        held = [*holdings_of(nodes, queued), *self._added]
        return self._fleet.grant.refusal(
            place.zone, place.accelerator_type, tier, held, self._world.now
        )

    def leaves(self, node: Node) -> bool:
        """Say whether a node is on its way out, or this plan deletes it."""
        return node.state == "DELETING" or ("node", node.zone, node.name) in self.gone
