# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fleet's slices have cost, counted at each look, and what is left of its budget.

A slice costs what its chips outside of the grant cost by list price, from one look to the next:
the time between two looks counts as a whole, at the higher of the two prices, also for a slice that
is gone at the second one. A count of what was seen is at most too high, by the time of one look. A
price that is unknown counts nothing, and is named wherever the budget is shown.

The count is in the project's metadata, where the watcher of another computer goes on with it, and
in the watcher's own memory for controllers that may not read or write the metadata. All times are
those of the API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from .._compute.client import Compute, values_of
from .._core.errors import PASSING, TpuError
from .._core.in_zone import region_of
from .._core.ownership import DEFAULT_OWNER, OWNER_LABEL
from .._fleet_file.budget import DAY, MONTH, Budget
from .._fleet_file.grant import Grant, Holding, holdings_of
from .._fleet_file.prices import Prices, parse_prices
from .._google.apis import GoogleApis
from .._tpu.client import Client
from .._tpu.model import Node
from .costs import Cost, costs_of
from .plan_terms import World

KEY = "tpu-fleet-spend"
KEPT_DAYS = 62
"""Days of which the count is kept: a month and the one before."""
MOST_SLICES = 500
"""Slices whose price is kept from one look to the next; all others of one look have one name."""
OTHERS = "others"
NAMED = 6
"""Slices of unknown price that a line names; the others are counted."""


@dataclass(frozen=True)
class Rate:
    """What one slice costs now."""

    usd: float
    """Dollars an hour, of what is billed."""
    created: float
    """When it was created, in seconds since 1970."""


@dataclass(frozen=True)
class Spend:
    """The count."""

    at: float = 0.0
    """The time of the last look; 0 before the first one."""
    days: Mapping[str, float] = field(default_factory=dict)
    """Dollars by day in UTC, as 2026-11-29."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Dollars an hour of each slice at the last look, by zone, name and time of creation."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"at": self.at, "days": dict(self.days), "rates": dict(self.rates)}

    @classmethod
    def from_dict(cls, raw: Any) -> Spend:
        """Return what plain data says; nothing where it has another form."""
        try:
            return cls(
                float(raw["at"]),
                {str(day): float(usd) for day, usd in raw["days"].items()},
                {str(name): float(usd) for name, usd in raw["rates"].items()},
            )
        except (TypeError, ValueError, KeyError, AttributeError):
            return cls()

    def of_day(self, now: float) -> float:
        """Return what was spent on the day of a time."""
        return self.days.get(_day(now), 0.0)

    def of_month(self, now: float) -> float:
        """Return what was spent in the month of a time."""
        month = _day(now)[:7]
        return sum(usd for day, usd in self.days.items() if day.startswith(month))

    def of(self, period: str, now: float) -> float:
        """Return what was spent in a period, DAY or MONTH."""
        return self.of_day(now) if period == DAY else self.of_month(now)


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%d}"


def rates_of(world: World, owner: str, grant: Grant, prices: Prices) -> dict[str, Rate | None]:
    """Return what each node of a fleet costs, by zone, name and creation; None is unknown."""
    found: dict[str, Rate | None] = {}
    for node, _held, cost in _own(world, owner, grant, prices):
        usd, created = cost.billed_per_hour, (node.created or world.now).timestamp()
        found[key_of(node)] = None if usd is None else Rate(usd, created)
    return found


def _own(
    world: World, owner: str, grant: Grant, prices: Prices
) -> Iterator[tuple[Node, Holding, Cost]]:
    """Yield each node of a fleet with what it holds and costs; the grant pays older ones first."""
    nodes = sorted(world.nodes, key=lambda node: (node.created or world.now, node.name))
    held = holdings_of(nodes, world.queued)[: len(nodes)]
    costs = costs_of(nodes, held, grant, prices, world.now)
    for node, own, cost in zip(nodes, held, costs, strict=True):
        if node.labels.get(OWNER_LABEL) == owner:
            yield node, own, cost


def unpriced_of(world: World, owner: str, grant: Grant, prices: Prices) -> dict[str, str]:
    """Return the slices whose price is unknown, so that they count nothing, each with its kind."""
    return {
        node.name: kind_of(held.place.accelerator_type, held.tier, node.zone)
        for node, held, cost in _own(world, owner, grant, prices)
        if cost.billed_per_hour is None
    }


def kind_of(accelerator_type: str, tier: str, zone: str) -> str:
    """Return in words what a price is for."""
    return f"{accelerator_type or 'unknown type'}, {tier}, {region_of(zone)}"


def key_of(node: Node) -> str:
    """Return what names a node among all that ever had its name."""
    return f"{node.zone}/{node.name}/{node.create_time or ''}"


def count(spend: Spend, world: World, owner: str, grant: Grant, prices: Prices) -> Spend:
    """Return the count after a look at the API."""
    rates, now = rates_of(world, owner, grant, prices), world.now.timestamp()
    if not spend.at:
        return Spend(now, _before(world, owner, grant, prices), _few(_priced(rates)))
    return counted(spend, rates, world.unreachable, now)


def _before(world: World, owner: str, grant: Grant, prices: Prices) -> dict[str, float]:
    """Return what the slices that are there have cost since they were created, by day."""
    own = [node for node in world.nodes if node.labels.get(OWNER_LABEL) == owner]
    first = min((node.created or world.now for node in own), default=world.now)
    begun = max(first, world.now - timedelta(days=KEPT_DAYS))
    moments = [begun]
    while moments[-1] < world.now:
        midnight = moments[-1].replace(hour=0, minute=0, second=0, microsecond=0)
        moments.append(min(midnight + timedelta(days=1), world.now))
    sums = [
        sum(cost.so_far or 0.0 for _node, _held, cost in _own(seen, owner, grant, prices))
        for seen in (replace(world, now=moment) for moment in moments)
    ]
    return {
        _day(at.timestamp()): until - since
        for at, since, until in zip(moments, sums, sums[1:], strict=False)
        if until > since
    }


def _priced(rates: Mapping[str, Rate | None]) -> dict[str, float]:
    return {name: rate.usd for name, rate in rates.items() if rate is not None and rate.usd}


def counted(
    spend: Spend, rates: Mapping[str, Rate | None], silent: Collection[str], now: float
) -> Spend:
    """Return the count after a look, which is not the first one.

    `silent` are the zones that did not answer: what was there goes on.
    """
    if now <= spend.at:
        return spend
    lasting = {
        name: usd
        for name, usd in spend.rates.items()
        if name not in rates and name.partition("/")[0] in silent
    }
    days = dict(spend.days)
    for name in {**rates, **spend.rates}:
        rate = rates.get(name)
        before = spend.rates.get(name)
        usd = max(rate.usd if rate else 0.0, before or 0.0)
        begun = rate.created if rate and before is None else spend.at
        _add(days, usd, max(begun, spend.at), now)
    first = _day(now - KEPT_DAYS * 86400)
    left = {day: usd for day, usd in days.items() if day >= first}
    return Spend(now, left, _few({**_priced(rates), **lasting}))


def _add(days: dict[str, float], usd_per_hour: float, begun: float, ended: float) -> None:
    """Add what was spent between two times to their days."""
    begun = max(begun, ended - KEPT_DAYS * 86400)
    while usd_per_hour and begun < ended:
        midnight = datetime.fromtimestamp(begun, timezone.utc).replace(
            hour=0, minute=0, second=0, microsecond=0
        ) + timedelta(days=1)
        until = min(ended, midnight.timestamp())
        day = _day(begun)
        days[day] = days.get(day, 0.0) + usd_per_hour * (until - begun) / 3600
        begun = until


def _few(rates: Mapping[str, float]) -> dict[str, float]:
    """Return rates under a limited number of names."""
    if len(rates) <= MOST_SLICES:
        return dict(rates)
    names = sorted(rates, key=lambda name: -rates[name])
    kept = {name: rates[name] for name in names[:MOST_SLICES]}
    return {**kept, OTHERS: sum(rates[name] for name in names[MOST_SLICES:])}


@dataclass(frozen=True)
class Over:
    """A limit that is spent."""

    period: str
    limit: float
    spent: float
    key: str
    """Names the period: `day 2026-11-29`, `month 2026-11`."""

    @property
    def why(self) -> str:
        """The same in words."""
        return f"the budget of ${self.limit:,.2f} a {self.period} is spent (${self.spent:,.2f})"


def over(budget: Budget, spend: Spend, now: float) -> Over | None:
    """Return the longest period whose limit is spent; None if none is."""
    found = None
    for period, limit in budget.limits.items():
        spent = spend.of(period, now)
        if spent >= limit and (spent > 0 or limit == 0):
            day = _day(now)
            found = Over(period, limit, spent, f"{period} {day if period == DAY else day[:7]}")
    return found


def facts(
    budget: Budget, spend: Spend, now: float, unpriced: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the budget with what is spent and left, for commands.

    `unpriced` are the slices that count nothing, each with what its price would be for.
    """
    return {
        "on_exceed": budget.on_exceed,
        "counted_until": spend.at or None,
        "usd_per_hour": round(sum(spend.rates.values()), 4),
        "unpriced": dict(unpriced or {}),
        "periods": [
            {
                "period": period,
                "limit": limit,
                "spent": round(spend.of(period, now), 4),
                "left": round(max(0.0, limit - spend.of(period, now)), 4),
            }
            for period, limit in budget.limits.items()
        ],
    }


def lines_of(told: Mapping[str, Any] | None) -> list[str]:
    """Return the same in lines for a person; none without a budget."""
    if not told or not told["periods"]:
        return []
    words = {DAY: "today", MONTH: "this month"}
    parts = [
        f"${one['spent']:,.2f} of ${one['limit']:,.2f} spent {words[one['period']]}, "
        f"${one['left']:,.2f} left"
        for one in told["periods"]
    ]
    missing = [unpriced_text(told["unpriced"])] if told.get("unpriced") else []
    at = told["counted_until"]
    if at is None:
        none = "nothing was counted yet, because no watcher has looked"
        return [f"{'; '.join(parts)}: {none}", *missing]
    until = datetime.fromtimestamp(at, timezone.utc)
    return [f"{'; '.join(parts)} (counted until {until:%Y-%m-%d %H:%M} UTC)", *missing]


def unpriced_text(unpriced: Mapping[str, str]) -> str:
    """Return which slices count nothing, and the remedy."""
    named = [f"{name} ({kind})" for name, kind in sorted(unpriced.items())]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return (
        f"nothing is counted of {', '.join(named[:NAMED])}{more}, because the price is unknown: "
        "give it in fleet_prices"
    )


class SpendBook:
    """The count in the project's metadata."""

    def __init__(self, compute: Callable[[], Compute], owner: str | None) -> None:
        self._compute = compute
        self._key = KEY if owner in (None, "", DEFAULT_OWNER) else f"{KEY}-{owner}"

    def read(self) -> Spend:
        """Return the count; nothing where it cannot be read for good.

        Raises TpuError when it cannot be read just now.
        """
        try:
            return _parsed(values_of(self._compute().metadata()).get(self._key))
        except TpuError as error:
            if isinstance(error, PASSING):
                raise
            return Spend()

    def write(self, spend: Spend) -> Spend:
        """Keep a count, unless a later one is there; return the one that is there then.

        Raises TpuError when it cannot be written just now.
        """
        there = [spend]

        def alter(values: dict[str, str]) -> dict[str, str] | None:
            before = _parsed(values.get(self._key))
            there[0] = before if before.at > spend.at else spend
            if before.at >= spend.at:
                return None
            return {**values, self._key: json.dumps(spend.to_dict(), sort_keys=True)}

        try:
            self._compute().change_metadata(alter)
        except TpuError as error:
            if isinstance(error, PASSING):
                raise
        return there[0]


def _parsed(text: str | None) -> Spend:
    try:
        return Spend.from_dict(json.loads(text or "{}"))
    except ValueError:
        return Spend()


def book_of_spend(client: Client, owner: str | None) -> SpendBook:
    """Return the count of an owner's fleet."""
    return SpendBook(lambda: Compute(GoogleApis(client)), owner)


def newest(counts: Iterable[Spend]) -> Spend:
    """Return the count that was made last."""
    return max(counts, key=lambda one: one.at, default=Spend())


def budget_of(
    params: Mapping[str, Any],
    client: Client,
    world: World,
    planned: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any] | None:
    """Return the facts about the budget of a fleet; None without one.

    `params` have budget, owner, allocations and prices; `planned` are changes of a plan.
    """
    budget = Budget.read(params.get("budget"))
    if not budget.limits:
        return None
    grant, prices = Grant.read(params.get("allocations")), parse_prices(params.get("prices"))
    owner = params.get("owner") or DEFAULT_OWNER
    unpriced = unpriced_of(world, owner, grant, prices) | _unpriced_changes(planned)
    spend = book_of_spend(client, params.get("owner")).read()
    return facts(budget, spend, world.now.timestamp(), unpriced)


def _unpriced_changes(changes: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the slices of unknown price that a plan creates."""
    return {
        one["slice"]: kind_of(one["accelerator_type"], one["tier"], one["zone"])
        for one in changes
        if one["hosts"] and one["usd_per_hour_billed"] is None
    }
