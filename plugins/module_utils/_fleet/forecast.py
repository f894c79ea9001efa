# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan would change, with what that costs, as data. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .._fleet_file.declared import Fleet, Slice
from .._fleet_file.grant import Grant, Holding, Place, day_before, holdings_of
from .._fleet_file.prices import Prices
from .._tpu.model import COMPUTE
from .._tpu.workers import hosts_to_be
from .beside import Beside, of_new_slice
from .costs import NOT_CHARGED, Price, money, prices_of
from .plan_terms import Action, Plan, Thing, World, resting, thing_of

CREATE, RECREATE, DELETE, CHANGE = "create", "recreate", "delete", "change"


@dataclass(frozen=True)
class Change:
    """One change of a plan."""

    does: str
    """create, recreate (deleted and created again), delete, change, start or stop."""
    slice: str
    what: str
    zone: str
    why: str
    accelerator_type: str = ""
    tier: str = ""
    chips: int = 0
    hosts: tuple[str, ...] = ()
    """The names of the machines that it creates."""
    fields: tuple[str, ...] = ()
    """The fields that it changes."""
    usd_per_hour: float | None = None
    """The list price of what it creates, or of what it deletes."""
    usd_per_hour_billed: float | None = None
    granted_until: str | None = None
    """The last day on which the grant pays for it; None if it pays nothing, or without an end."""


def forecast(fleet: Fleet, world: World, plan: Plan, prices: Prices) -> dict[str, Any]:
    """Return the changes of a plan in its order, how each slice is, and what all would cost.

    `beside` is what the new slices cost beside their chips.
    """
    gone = {action.thing for action in plan.actions if action.verb == "delete"}
    nodes = [node for node in world.nodes if thing_of(node) not in gone]
    queued = [one for one in world.queued if thing_of(one) not in gone]
    stays, new = holdings_of(nodes, queued), _new(fleet, world, plan)
    priced = prices_of([*stays, *new.values()], fleet.grant, prices, world.now)
    pairs = zip(new.values(), priced[len(stays) :], strict=True)
    of_new = dict(zip(new, pairs, strict=True))
    of_old = _there(fleet.grant, world, prices)
    changes = [_change(one, of_new.get(id(one)), of_old.get(one.thing)) for one in plan.actions]
    stopped = {index for index, node in enumerate(nodes) if node.state in NOT_CHARGED}
    charged = [one for index, one in enumerate(priced) if index not in stopped]
    return {
        "changes": [asdict(one) for one in changes],
        "slices": [
            {"name": one.slice, "phase": one.phase, "text": one.text} for one in plan.statuses
        ],
        "beside": [
            asdict(row) for one in plan.actions for row in _beside(fleet, one, new.get(id(one)))
        ],
        "usd_per_hour": _sum([one.per_hour for one in charged]),
        "usd_per_hour_billed": _sum([one.billed_per_hour for one in charged]),
    }


def _new(fleet: Fleet, world: World, plan: Plan) -> dict[int, Holding]:
    """Return what actions create: a deletion, what follows it where the slice is still wanted."""
    wants = {want.name: want for want in fleet.slices}
    only_ends = fleet.only_expire or bool(fleet.teardown or fleet.stop)
    clearing = {one.slice for one in plan.statuses if one.phase == "clearing"}
    found: dict[int, Holding] = {}
    for action in plan.actions:
        want = wants.get(action.slice)
        if want is None:
            continue
        if action.verb == "create" and action.place is not None:
            found[id(action)] = Holding.at(action.place, want.tier, want.name)
        elif (
            action.verb == "delete"
            and want.name in clearing
            and not only_ends
            and resting(want, world) is None
        ):
            clearing.discard(want.name)
            found[id(action)] = Holding.at(_again(want, action.zone), want.tier, want.name)
    return found


def _beside(fleet: Fleet, action: Action, held: Holding | None) -> list[Beside]:
    """Return what a new slice costs beside its chips: on Compute Engine, disks and addresses."""
    want = next((want for want in fleet.slices if want.name == action.slice), None)
    if want is None or held is None or held.place.api != COMPUTE:
        return []
    hosts = hosts_to_be(want.name, held.place.accelerator_type)
    workers = want.shape_workers or len(hosts)
    return of_new_slice(fleet.node_spec(want, held.place), workers, want.tier)


def _again(want: Slice, zone: str) -> Place:
    """Return where a slice is created again: in its zone, if it may be there."""
    return next((place for place in want.candidates if place.zone == zone), want.candidates[0])


def _there(grant: Grant, world: World, prices: Prices) -> dict[Thing, tuple[Holding, Price]]:
    """Return what each node holds and costs now."""
    held = holdings_of(world.nodes, world.queued)
    priced = prices_of(held, grant, prices, world.now)
    pairs = list(zip(held, priced, strict=True))[: len(world.nodes)]
    return {thing_of(node): pair for node, pair in zip(world.nodes, pairs, strict=True)}


def _change(
    action: Action, new: tuple[Holding, Price] | None, old: tuple[Holding, Price] | None
) -> Change:
    does = {"patch": CHANGE}.get(action.verb, action.verb)
    if new and does == DELETE:
        does = RECREATE
    held, price = new or (old if does == DELETE else None) or (None, None)
    kind = held.place.accelerator_type if held else ""
    until = price.paid_until if price else None
    return Change(
        does=does,
        slice=action.slice,
        what=action.what,
        zone=held.place.zone if held else action.zone,
        why=action.reason,
        accelerator_type=kind,
        tier=held.tier if held else "",
        chips=held.chips if held else 0,
        hosts=tuple(hosts_to_be(action.slice, kind)) if new else (),
        fields=tuple(item.field for item in action.differences),
        usd_per_hour=money(price.per_hour) if price else None,
        usd_per_hour_billed=money(price.billed_per_hour) if price else None,
        granted_until=day_before(until) if until else None,
    )


def _sum(amounts: Sequence[float | None]) -> float | None:
    """Return the sum; None if one is unknown."""
    known = [one for one in amounts if one is not None]
    return money(sum(known)) if len(known) == len(amounts) else None
