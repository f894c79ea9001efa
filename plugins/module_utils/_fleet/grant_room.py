# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room in the grant, with what the plan deletes and what will be created. Pure."""

from __future__ import annotations

from datetime import datetime

from .._fleet_file.declared import Fleet
from .._fleet_file.grant import Holding, Place, holdings_of
from .._fleet_file.grant import type_of as type_of_node
from .._tpu.model import Node, parse_time
from .._tpu.queued_resources import QueuedResource
from .plan_terms import Thing, Tries, World, makes, thing_of, type_of

Birth = tuple[datetime, str, str, str]


class Room:
    """Counts the room while a plan is made."""

    def __init__(self, fleet: Fleet, world: World, tries: Tries) -> None:
        self._fleet = fleet
        self._world = world
        self._requests = {(item.zone, item.name): item for item in world.queued}
        # What the plan deletes.
        self.gone: set[Thing] = set()
        # What this plan, or a request whose result is unknown, adds to the existing resources.
        self._added: list[Holding] = []
        for (name, place), known in tries.items():
            if known.asked_at is not None:
                tier = next((w.tier for w in fleet.slices if w.name == name), "on_demand")
                self.add(name, place, tier, "asked for")

    def add(self, name: str, place: Place, tier: str, why: str) -> None:
        """Count a resource that does not exist yet."""
        self._added.append(Holding.at(place, tier, f"{name} ({why})"))

    def is_over(self, place: Place, tier: str) -> bool:
        """Return whether the grant for such a node has ended."""
        return self._fleet.grant.ended(place, tier, self._world.now)

    def refusal(
        self, place: Place, tier: str, *, staying: bool, without: Node | None = None
    ) -> str | None:
        """Return why the grant has no room: now, or (staying) after all deletions; else None."""
        nodes, queued = self._world.nodes, self._world.queued
        if without is not None:
            nodes = tuple(node for node in nodes if node is not without)
            queued = tuple(item for item in queued if not makes(item, without))
        if staying:
            nodes = tuple(node for node in nodes if not self.leaves(node))
            queued = tuple(item for item in queued if not self._goes(item))
        held = [*holdings_of(nodes, queued), *self._added]
        return self._fleet.grant.refusal(place, tier, held, self._world.now)

    def never(self, place: Place, tier: str) -> str | None:
        """Return why the grant would refuse such a node even if nothing else existed."""
        return self._fleet.grant.refusal(place, tier, [], self._world.now)

    def holds_all(self) -> bool:
        """Return whether the grant holds everything that exists."""
        held = holdings_of(self._world.nodes, self._world.queued)
        return not any(self._fleet.grant.outside(held, self._world.now))

    def came_too_late(self, made: Node | QueuedResource, tier: str) -> str | None:
        """Return why the grant had no room for a resource at its creation; None if it had.

        Only older resources that stay count, so all controllers of a project agree on who was late.
        """
        born = self.birth(made)
        if born is None:
            return None
        nodes = [
            node
            for node in self._world.nodes
            if _is_before(self.birth(node), born) and not self.leaves(node)
        ]
        queued = [
            item
            for item in self._world.queued
            if _is_before(self.birth(item), born) and not self._goes(item)
        ]
        kind = type_of_node(made) if isinstance(made, Node) else type_of(made)
        place, held = Place(made.zone, kind, made.api), holdings_of(nodes, queued)
        return self._fleet.grant.refusal(place, tier, held, born[0])

    def birth(self, made: Node | QueuedResource) -> Birth | None:
        """Return the API's creation time, then what orders two resources of the same time.

        A node has the age of the queued resource that created it.
        """
        oldest = made
        if isinstance(made, Node) and made.queued_resource:
            oldest = self._requests.get((made.zone, made.queued_resource), made)
        created = parse_time(oldest.create_time)
        # A request on Compute Engine is the slice itself, and stays it when it has its capacity.
        kind = thing_of(oldest)[0]
        return (created, kind, oldest.zone, oldest.name) if created else None

    def leaves(self, node: Node) -> bool:
        """Return whether a node is being deleted, by Google or by this plan."""
        return node.state == "DELETING" or thing_of(node) in self.gone

    def _goes(self, queued: QueuedResource) -> bool:
        return queued.state == "DELETING" or thing_of(queued) in self.gone


def _is_before(one: Birth | None, other: Birth) -> bool:
    """Return whether one is older than the other; without a creation time it counts as older."""
    return one is None or one < other
