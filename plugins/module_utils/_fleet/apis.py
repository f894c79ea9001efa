# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two APIs that have slices, as the fleet's one cloud.

Each action goes to the API of its slice, and neither API shows what the other has. One in which
nothing is declared is looked at as well, because something of this fleet may be left there, made
by any controller; a fleet without access to it has nothing there, unless a node of the fleet was
seen there before. Once all of it was seen and nothing was there, it is left out of the looks of the
next minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, TypeVar

from .._core.errors import RateLimited, TpuError, Unavailable
from .._core.wait import Clock
from .._fleet_file.declared import Fleet
from .._fleet_file.grant import Grant
from .._tpu.client import Client
from .._tpu.model import COMPUTE, TPU, Listing, Node, Operation
from .._tpu.queued_resources import QueuedResource
from .cloud import Cloud
from .compute_api import ComputeApi
from .plan_terms import Action
from .tpu_api import ALPHA_TIERS, TpuApi

T = TypeVar("T")

# For how many seconds an API in which nothing is declared, and nothing was found, is left out.
# What another controller makes there meanwhile uses no grant of the other API.
QUIET = 600.0


class Apis:
    """One project's slices, whichever API has them."""

    def __init__(
        self,
        tpu: Cloud,
        compute: Cloud,
        used: Collection[str],
        owns: Callable[[Mapping[str, str]], bool] = lambda _labels: False,
    ) -> None:
        """`used` names the APIs of the declared slices: `tpu`, `compute`; `owns` knows labels."""
        self._apis = {TPU: tpu, COMPUTE: compute}
        self._used = frozenset(used) or {TPU}
        self._asked = {TPU, COMPUTE}
        self._owns = owns
        # The APIs that had a node of the fleet: access to them that is refused now comes back.
        self._held: set[str] = set()
        # When nothing was found in an API in which nothing is declared.
        self._empty_at: dict[str, float] = {}
        # Those that the last look has left out.
        self._quiet: set[str] = set()
        self._nodes: dict[str, Listing[Node]] = {}

    @property
    def clock(self) -> Clock:
        """Return the clock that measures the waits."""
        return self._first.clock

    @property
    def _first(self) -> Cloud:
        return self._apis[COMPUTE if self._used == {COMPUTE} else TPU]

    def now(self) -> datetime:
        """Return the time of the APIs."""
        return self._first.now()

    def nodes(self) -> Listing[Node]:
        """Return the nodes of all zones that answer, of both APIs."""
        now = self.clock.now()
        self._quiet = {name for name, at in self._empty_at.items() if now - at < QUIET}
        self._nodes = self._each(lambda api: api.nodes())
        self._held |= {
            name
            for name, listing in self._nodes.items()
            if any(self._owns(node.labels) for node in listing.items)
        }
        for name in self._empty_at.keys() & self._nodes.keys():
            self._note(name, self._nodes[name])
        return _joined(self._nodes)

    def queued(self, tiers: Collection[str]) -> Listing[QueuedResource]:
        """Return what waits for capacity, of both APIs."""
        found = self._each(lambda api: api.queued(tiers))
        for name in (found.keys() & self._nodes.keys()) - self._used:
            self._note(name, self._nodes[name], found[name])
        return _joined(found)

    def operations(self, zone: str) -> list[Operation]:
        """Return a zone's operations that run, or ended recently."""
        found = self._each(lambda api: api.operations(zone))
        return [one for operations in found.values() for one in operations]

    def not_offered(self, action: Action) -> TpuError | None:
        """Return the error that a creation would get, as far as the zone's catalogue shows."""
        return self._apis[action.api].not_offered(action)

    def prepare(self, action: Action, patience: float) -> None:
        """Make what an action needs before."""
        self._apis[action.api].prepare(action, patience)

    def do(self, action: Action, patience: float) -> Operation:
        """Carry out an action."""
        return self._apis[action.api].do(action, patience)

    def _note(self, name: str, *listings: Listing[Any]) -> None:
        """Record whether there is nothing; what did not answer may have something."""
        if any(listing.items or listing.unreachable for listing in listings):
            self._empty_at.pop(name, None)
        else:
            self._empty_at[name] = self.clock.now()

    def _each(self, ask: Callable[[Cloud], T]) -> dict[str, T]:
        found = {}
        for name in sorted(self._asked - self._quiet, reverse=True):
            try:
                found[name] = ask(self._apis[name])
            except (Unavailable, RateLimited):
                raise
            except TpuError:
                if name in self._used | self._held:
                    raise
                self._asked.discard(name)
        return found


def apis_of(client: Client, fleet: Fleet) -> Apis:
    """Return the APIs of a project for a fleet."""
    apis = {want.name: want.candidates[0].api for want in fleet.slices if want.candidates}
    # What is to go has to be seen to its last part.
    kept = {name for name, api in apis.items() if api == COMPUTE and name not in fleet.teardown}
    compute = ComputeApi(client, () if fleet.only_expire else kept, owner=fleet.owner)
    return Apis(TpuApi(client), compute, set(apis.values()), fleet.owns)


def everything(client: Client, grant: Grant) -> tuple[Listing[Node], Listing[QueuedResource]]:
    """Return all that a project has and waits for, of any creator.

    The APIs of the grant have to answer.
    """
    used = {entry.api for entry in grant.allocations}
    apis = Apis(TpuApi(client), ComputeApi(client), used)
    return apis.nodes(), apis.queued(ALPHA_TIERS)


def _joined(listings: Mapping[str, Listing[T]]) -> Listing[T]:
    return Listing(
        [item for listing in listings.values() for item in listing.items],
        [zone for listing in listings.values() for zone in listing.unreachable],
    )
