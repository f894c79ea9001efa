# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of a project's nodes: now, and so far outside of the grant. No I/O.

A node counts from its creation, at today's price; while the grant holds its chips it is free.
Deleted nodes are unknown, so they neither cost anything nor take room in the grant here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from .._fleet_file.grant import Grant, Holding
from .._fleet_file.prices import Prices
from .._tpu.model import Node

# Google charges nothing in these states; the API does not show when they began.
NOT_CHARGED = frozenset({"PREEMPTED", "TERMINATED", "STOPPED", "HIDDEN"})
NOT_YET_CHARGED = frozenset({"CREATING"})


@dataclass(frozen=True)
class Cost:
    """The cost of one node in USD; None means unknown."""

    per_hour: float | None
    billed_per_hour: float | None
    so_far: float | None
    outside: int


def costs_of(
    nodes: Sequence[Node],
    holdings: Sequence[Holding],
    grant: Grant,
    prices: Prices,
    now: datetime,
) -> list[Cost]:
    """Return the cost of each node; `holdings` are those of the nodes, in the same order."""
    starts = [min(node.created or now, now) for node in nodes]
    ends = {entry.ends for entry in grant.allocations if entry.ends and entry.ends < now}
    moments = sorted({*starts, *ends, now})
    # Chip hours outside of the grant, by node. Nothing changes between two of the moments.
    hours = [0.0] * len(nodes)
    for begin, end in pairwise(moments):
        for index, chips in _outside(grant, holdings, starts, begin).items():
            hours[index] += chips * (end - begin).total_seconds() / 3600
    current = _outside(grant, holdings, starts, now)
    found = []
    for index, (node, held) in enumerate(zip(nodes, holdings, strict=True)):
        each = prices.per_chip(held.place, held.tier)
        charged = node.state not in NOT_CHARGED | NOT_YET_CHARGED
        chips = current[index] if held.chips else 0
        billed = _product(each, chips) if charged else 0.0
        found.append(
            Cost(
                per_hour=_product(each, held.chips) if held.chips else None,
                billed_per_hour=billed if held.chips else None,
                so_far=_so_far(node, held, each, hours[index]),
                outside=chips,
            )
        )
    return found


@dataclass(frozen=True)
class Price:
    """The hourly price of something that holds chips, in USD; None means unknown."""

    per_hour: float | None
    billed_per_hour: float | None
    paid_until: datetime | None
    """When the first entry of the grant ends that pays for it; None without such an end."""


def prices_of(
    holdings: Sequence[Holding], grant: Grant, prices: Prices, now: datetime
) -> list[Price]:
    """Return the price of each holding, if all of them were there; the first use the grant up."""
    free = not (grant.unrestricted or not grant.declared)
    outside = grant.outside(holdings, now) if free else [held.chips for held in holdings]
    found = []
    for held, chips, until in zip(holdings, outside, grant.paid_until(holdings, now), strict=True):
        each = prices.per_chip(held.place, held.tier) if held.chips else None
        known = bool(held.chips)
        found.append(
            Price(
                per_hour=_product(each, held.chips) if known else None,
                billed_per_hour=_product(each, chips) if known else None,
                paid_until=until if chips < held.chips else None,
            )
        )
    return found


def _so_far(node: Node, held: Holding, each: float | None, chip_hours: float) -> float | None:
    if not held.chips or node.created is None:
        return None
    if chip_hours == 0 or node.state in NOT_YET_CHARGED:
        return 0.0
    # It was charged until an unknown moment in the past.
    return None if node.state in NOT_CHARGED else _product(each, chip_hours)


def money(value: float | None) -> float | None:
    """Return an amount as commands show it."""
    return None if value is None else round(value, 4)


def _product(each: float | None, amount: float) -> float | None:
    if amount == 0:
        return 0.0
    return None if each is None else each * amount


def _outside(
    grant: Grant, holdings: Sequence[Holding], starts: Sequence[datetime], at: datetime
) -> dict[int, int]:
    """Return by index how many chips of each node the grant did not hold; older nodes go first."""
    there = sorted((start, index) for index, start in enumerate(starts) if start <= at)
    order = [index for _start, index in there]
    held = [holdings[index] for index in order]
    if grant.unrestricted or not grant.declared:
        chips = [holding.chips for holding in held]  # without a known grant, nothing is free
    else:
        chips = grant.outside(held, at)
    return dict(zip(order, chips, strict=True))
