"""The use of chips, what it costs, and what is left of the grant. Pure.

The page, `status`, `top` and `history` show these figures and compute none of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import RUNNING

from .store import Span

NO_PERSON = ""
"""The person of a slice on which no run has run yet."""


@dataclass(frozen=True)
class Use:
    """What a person's runs used, or left unused."""

    busy: float = 0.0
    """Chip hours in which a run ran."""
    idle: float = 0.0
    """Chip hours without one, on slices that a run of this person used last."""
    usd: float = 0.0
    """What all of them cost outside of the grant."""
    list_usd: float = 0.0
    """What they cost by list prices."""

    @property
    def hours(self) -> float:
        """All chip hours."""
        return self.busy + self.idle

    def __add__(self, other: Use) -> Use:
        return Use(
            self.busy + other.busy,
            self.idle + other.idle,
            self.usd + other.usd,
            self.list_usd + other.list_usd,
        )


NO_USE = Use()


def sum_of(uses: Iterable[Use]) -> Use:
    """Add up."""
    return sum(uses, NO_USE)


@dataclass(frozen=True)
class Day:
    """A day of the fleet."""

    day: int
    """Days since 1970, in UTC."""
    by_user: Mapping[str, Use] = field(default_factory=dict)

    @property
    def whole(self) -> Use:
        """The use by all."""
        return sum_of(self.by_user.values())


def days_of(nodes: Sequence[Span], runs: Sequence[Span], since: float, now: float) -> list[Day]:
    """Return who used what on each day."""
    found: dict[int, dict[str, Use]] = {}
    running: dict[str, list[Span]] = {}
    for span in runs:
        if span.value.get("state") == RUNNING:
            running.setdefault(span.name.partition("/")[0], []).append(span)
    for node in nodes:
        if not node.value.get("ours") or node.value.get("state") != "ready":
            continue
        own = running.get(node.name, ())
        for day, begun, ended in _by_day(max(node.begun, since), node.seen):
            of_day = found.setdefault(day, {})
            for user, busy, seconds in _shares(own, begun, ended):
                use = _use_of(node.value, busy, seconds / 3600)
                of_day[user] = of_day.get(user, NO_USE) + use
    first = int(min(found, default=int(now // 86400)))
    return [Day(day, found.get(day, {})) for day in range(first, int(now // 86400) + 1)]


def _use_of(node: Mapping[str, Any], busy: bool, hours: float) -> Use:
    chips = float(node.get("chips") or 0) * hours
    usd, list_usd = (float(node.get(key) or 0) * hours for key in ("billed", "usd"))
    return Use(chips if busy else 0.0, 0.0 if busy else chips, usd, list_usd)


def _by_day(begun: float, ended: float) -> list[tuple[int, float, float]]:
    found = []
    while begun < ended:
        day = int(begun // 86400)
        until = min(ended, (day + 1) * 86400.0)
        found.append((day, begun, until))
        begun = until
    return found


def _shares(runs: Sequence[Span], begun: float, ended: float) -> list[tuple[str, bool, float]]:
    """Return (user, whether a run ran, seconds) of a slice; several at a time share it."""
    inside = [
        (max(run.begun, begun), min(run.seen, ended), user_of(run))
        for run in runs
        if run.begun < ended and run.seen > begun
    ]
    before = [run for run in runs if run.seen <= begun]
    last = user_of(max(before, key=lambda run: run.seen)) if before else NO_PERSON
    moments = {moment for start, end, _user in inside for moment in (start, end)}
    found = []
    for start, end in pairwise(sorted({begun, *moments, ended})):
        users = [user for a, b, user in inside if a <= start and b >= end]
        found += [(user, True, (end - start) / len(users)) for user in users]
        found += [] if users else [(last, False, end - start)]
        last = users[-1] if users else last
    return found


@dataclass(frozen=True)
class Account:
    """The use of the fleet since a time."""

    seconds: float
    days: list[Day]
    granted: float
    """Chip hours that the grant had in this time."""

    @property
    def people(self) -> dict[str, Use]:
        """The use by each person, most first."""
        return by_person(self.days)

    @property
    def whole(self) -> Use:
        """The use by all."""
        return sum_of(day.whole for day in self.days)


def account_of(
    nodes: Sequence[Span], runs: Sequence[Span], grant: Sequence[Span], since: float, now: float
) -> Account:
    """Return what was used since a time, as far as it was seen."""
    return Account(now - since, days_of(nodes, runs, since, now), granted_in(grant, since))


def user_of(run: Span) -> str:
    """Return whose run an interval is about."""
    return str(run.value.get("user") or "?")


def by_person(days: Iterable[Day]) -> dict[str, Use]:
    """Return what each person used, most first."""
    found: dict[str, Use] = {}
    for day in days:
        for user, use in day.by_user.items():
            found[user] = found.get(user, NO_USE) + use
    return dict(sorted(found.items(), key=lambda one: (-one[1].hours, one[0])))


# Now, and until the end of the grant -----------------------------------------------------------


@dataclass(frozen=True)
class Chips:
    """The chips of the fleet at this moment, and those that no run uses."""

    all: int
    idle: int
    idle_usd: float
    """Dollars an hour of the idle ones, by list prices."""
    idle_billed: float
    """Of these, what is billed."""
    slices: tuple[str, ...]
    """The slices without a run."""

    @property
    def busy(self) -> int:
        """Those that a run uses."""
        return self.all - self.idle


NO_CHIPS = Chips(0, 0, 0.0, 0.0, ())


def chips_of(nodes: Iterable[Mapping[str, Any]], busy: Collection[str]) -> Chips:
    """Return the chips of these nodes; `busy` has the names of slices on which a run runs.

    A node has name, chips, usd (dollars an hour, by list prices) and billed.
    """
    own = list(nodes)
    idle = [node for node in own if node["name"] not in busy and node["chips"]]

    def total(which: Iterable[Mapping[str, Any]], key: str) -> float:
        return sum(node[key] or 0 for node in which)

    return Chips(
        int(total(own, "chips")),
        int(total(idle, "chips")),
        float(total(idle, "usd")),
        float(total(idle, "billed")),
        tuple(str(node["name"]) for node in idle),
    )


def chips_in(nodes: Iterable[Mapping[str, Any]], busy: Collection[str]) -> Chips:
    """Return the same of nodes as the module fleet_info returns them; others' are left out."""
    return chips_of(
        [
            {
                "name": node["name"],
                "chips": node["chips"],
                "usd": node["usd_per_hour"],
                "billed": node["usd_per_hour_billed"],
            }
            for node in nodes
            if node["ours"]
        ],
        busy,
    )


@dataclass(frozen=True)
class Forecast:
    """What it comes to if the slices stay as they are until the last grant ends."""

    ends: float
    chip_hours: float
    usd: float
    list_usd: float
    after: float
    """Dollars an hour from then on: nothing is free any more."""


def forecast_of(nodes: Iterable[Mapping[str, Any]], ends: float, now: float) -> Forecast:
    """Return the forecast; the nodes are as in `chips_of`."""
    own, hours = list(nodes), max(0.0, ends - now) / 3600
    chips, billed, usd = (sum(n[key] or 0 for n in own) for key in ("chips", "billed", "usd"))
    return Forecast(ends, chips * hours, billed * hours, usd * hours, float(usd))


# The grant ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Burn:
    """An entry of the grant over time."""

    text: str
    chips: int
    used: int
    ends: float
    begun: float
    """When it was first seen."""
    points: tuple[tuple[float, float], ...]
    """Time, and the chip hours that were held until then."""

    @property
    def whole(self) -> float:
        """The chip hours from its first sight to its end."""
        return self.chips * (self.ends - self.begun) / 3600

    def held(self) -> float:
        """Return the chip hours that were held until now."""
        return self.points[-1][1] if self.points else 0.0

    def left(self, now: float) -> float:
        """Return the chip hours that can still be held."""
        return self.chips * max(0.0, self.ends - now) / 3600

    def wasted(self, now: float) -> float:
        """Return the chip hours that passed and that no slice held."""
        return max(0.0, self.whole - self.left(now) - self.held())


def granted_in(grant: Iterable[Span], since: float) -> float:
    """Return the chip hours that the grant had since a time, as far as it was seen."""
    return sum(
        float(span.value.get("chips") or 0) * max(0.0, span.seen - max(span.begun, since)) / 3600
        for span in grant
    )


def burns_of(grant: Sequence[Span], ends: Mapping[str, float]) -> list[Burn]:
    """Return the entries of the grant that have an end."""
    by_name: dict[str, list[Span]] = {}
    for span in grant:
        by_name.setdefault(span.name, []).append(span)
    found = []
    for name, spans in by_name.items():
        last, end = spans[-1], ends.get(name)
        if end is None:
            continue
        held, points = 0.0, [(spans[0].begun, 0.0)]
        for span in spans:
            points.append((span.begun, held))
            held += float(span.value.get("used") or 0) * (span.seen - span.begun) / 3600
            points.append((span.seen, held))
        found.append(
            Burn(
                name,
                int(last.value.get("chips") or 0),
                int(last.value.get("used") or 0),
                end,
                spans[0].begun,
                tuple(points),
            )
        )
    return sorted(found, key=lambda burn: (burn.ends, burn.text))
