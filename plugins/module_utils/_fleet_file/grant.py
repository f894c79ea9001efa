# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The grant: how many chips may be held, where, in which tier and until when. No I/O.

Chips are counted, not TensorCores: a v4-8 has four. Everything that exists uses the grant up until
it is gone, of any creator. A type draws on the entries for that type first, and what they do not
hold on the entries for its generation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING, Any

from .._compute.machine_types import APIS as GENERATION_APIS
from .._core.errors import BadRequest
from .._core.ownership import OWNER_LABEL
from .._schema import values as rules
from .._schema.accelerators import API_ENUM, CORES_PER_CHIP, PREFIXES, meant_types
from .._schema.keys import (
    APIS,
    Problem,
    by_rule,
    check_shape,
    did_you_mean,
    entries,
    text_of,
)
from .._tpu.model import COMPUTE, TPU, Node, parse_time

if TYPE_CHECKING:
    from .._tpu.queued_resources import QueuedResource

UNRESTRICTED = "unrestricted"
DECLARE = f"Declare the grant in fleet_allocations, or write fleet_allocations: {UNRESTRICTED}"

# Under which tier of the grant the API's tiers are counted.
TIERS = {
    "on_demand": "on_demand",
    "guaranteed": "on_demand",
    "reserved": "reserved",
    "calendar": "reserved",
    "spot": "spot",
    "preemptible": "spot",
    "best_effort": "spot",
    "flex_start": "spot",
}
_TIER_WORDS = {"on_demand": "on demand", "spot": "as spot", "reserved": "reserved"}

_TYPE = re.compile(r"(?P<prefix>[a-z0-9]+)-(?P<number>[1-9][0-9]*)")
_GENERATIONS = {prefix: generation for generation, prefix in PREFIXES.items()}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Place:
    """Where a slice may be: a zone, and what it is there, of which API."""

    zone: str
    accelerator_type: str
    api: str

    def __str__(self) -> str:
        return f"{self.accelerator_type} in {self.zone}{on_api(self.api)}"


@dataclass(frozen=True)
class Holding:
    """Chips that something in the project has or is queued for."""

    place: Place
    tier: str
    chips: int
    what: str
    owner: str = ""
    """The label of its fleet; empty if no fleet has created it."""

    @classmethod
    def at(cls, place: Place, tier: str, what: str, owner: str = "") -> Holding:
        """Return what a slice holds; chips that are not known count as none."""
        return cls(place, tier, chips_of(place.accelerator_type) or 0, what, owner)


@dataclass(frozen=True)
class Allocation:
    """One entry of the grant; `ends` is the first instant at which it no longer holds."""

    zone: str
    generation: str | None
    accelerator_type: str | None
    tier: str
    chips: int
    ends: datetime | None
    field: str
    api: str

    @classmethod
    def read(cls, field: str, entry: Mapping[str, Any]) -> Allocation:
        """Return what one entry of fleet_allocations declares."""
        accelerator_type = entry.get("accelerator_type") or None
        chips = entry.get("chips")
        if chips is None:
            chips = entry["count"] * (chips_of(accelerator_type or "") or 0)
        return cls(
            zone=entry["zone"],
            generation=entry.get("generation") or None,
            accelerator_type=accelerator_type,
            tier=grant_tier(entry["tier"]),
            chips=chips,
            ends=end_of(entry.get("ends")),
            field=field,
            api=entry.get("api") or _usual_api(entry),
        )

    def covers(self, place: Place, tier: str) -> bool:
        """Say whether the entry is for such a node, whatever its size and the day."""
        if (self.zone, self.tier, self.api) != (place.zone, grant_tier(tier), place.api):
            return False
        if self.accelerator_type:
            return self.accelerator_type == place.accelerator_type
        return self.generation == generation_of(place.accelerator_type)

    def is_over(self, now: datetime) -> bool:
        """Say whether the entry has ended."""
        return self.ends is not None and now >= self.ends

    @property
    def last_day(self) -> str:
        """Return when the entry ends, as a person would write it: a whole day as its last day."""
        return "no end" if self.ends is None else day_before(self.ends)

    def __str__(self) -> str:
        return f"{self._chips()} {_TIER_WORDS[self.tier]} in {self.zone}{on_api(self.api)}"

    def _chips(self) -> str:
        if self.accelerator_type:
            return f"{self.chips} chips for {self.accelerator_type}"
        return f"{self.chips} {self.generation} chips"


@dataclass(frozen=True)
class Grant:
    """Everything that may be held; `declared` is false when the fleet file does not say."""

    unrestricted: bool = False
    allocations: tuple[Allocation, ...] = ()
    declared: bool = True

    @classmethod
    def read(cls, raw: Any) -> Grant:
        """Return what a value of fleet_allocations declares, of which the rules hold already."""
        if raw is None:
            return cls(declared=False)
        if raw == UNRESTRICTED:
            return cls(unrestricted=True)
        named = [(f"fleet_allocations[{index}]", entry) for index, entry in enumerate(raw)]
        return cls(allocations=tuple(Allocation.read(field, entry) for field, entry in named))

    def refusal(
        self, place: Place, tier: str, holdings: Iterable[Holding], now: datetime
    ) -> str | None:
        """Say why one more such node would leave the grant, with the arithmetic; None if not."""
        return self._refusal(place, tier, list(holdings), now, "in use")

    def misfit(self, place: Place, tier: str, others: Sequence[Holding]) -> str | None:
        """Say why the grant, on its best day, does not hold such a node beside others."""
        ageless = replace(
            self, allocations=tuple(replace(entry, ends=None) for entry in self.allocations)
        )
        day = datetime(2000, 1, 1, tzinfo=timezone.utc)
        return ageless._refusal(place, tier, others, day, "for other slices")

    def _refusal(
        self, place: Place, tier: str, there: Sequence[Holding], now: datetime, taken: str
    ) -> str | None:
        if self.unrestricted:
            return None
        if not self.declared:
            return f"no grant is declared, so nothing may be created. {DECLARE}"
        kind, wanted = place.accelerator_type, _in_tier(place, tier)
        covering = self._covering(place, tier)
        if not covering:
            return f"the grant does not hold {wanted}: {self._nearest(place.zone, tier)}"
        live = [entry for entry in covering if not entry.is_over(now)]
        if not live:
            ended = ", ".join(
                f"{entry.field}, {entry}, until {entry.last_day}" for entry in covering
            )
            return f"the grant for {wanted} is over: {ended}"
        need = chips_of(kind)
        if need is None:
            return f"it is not known how many chips {kind} has"
        *draws, its = self._draws([*there, Holding(place, tier, need, "one more")], now)
        if sum(its.values()) == need:
            return None
        mine = {entry.field for entry in live}
        served = [sum(chips for name, chips in draw.items() if name in mine) for draw in draws]
        in_use = ", ".join(
            f"{held.what}: {chips}" for held, chips in zip(there, served, strict=True) if chips
        )
        return (
            f"the grant holds {' and '.join(map(str, live))}; "
            f"{f'{sum(served)} are {taken} ({in_use})' if in_use else f'none are {taken}'}; "
            f"{kind} needs {need}{' more' if in_use else ''}"
        )

    def ends_at(self, place: Place, tier: str) -> datetime | None:
        """Return when the last entry for such a node ends; None when one of them has no end."""
        ends = [entry.ends for entry in self._covering(place, tier)]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None

    def paid_until(self, holdings: Sequence[Holding], now: datetime) -> list[datetime | None]:
        """Return when the first entry ends that each holding draws from; None where none does."""
        ends = {entry.field: entry.ends for entry in self.allocations}
        drawn = [
            [ends[field] for field, chips in draw.items() if chips]
            for draw in self._draws(holdings, now)
        ]
        return [min((end for end in one if end is not None), default=None) for one in drawn]

    def ended(self, place: Place, tier: str, now: datetime) -> bool:
        """Say whether there are entries for such a node, and all of them are over."""
        covering = self._covering(place, tier)
        return bool(covering) and all(entry.is_over(now) for entry in covering)

    def ends_between(self, place: Place, tier: str, since: datetime, until: datetime) -> bool:
        """Say whether an entry for such a node has ended after one moment and before another."""
        covering = self._covering(place, tier)
        return any(entry.is_over(until) and not entry.is_over(since) for entry in covering)

    def used(self, holdings: Sequence[Holding], now: datetime) -> dict[str, int]:
        """Return how many chips of each entry are in use, by the entry's field."""
        draws = self._draws(holdings, now)
        return {
            entry.field: sum(draw.get(entry.field, 0) for draw in draws)
            for entry in self.allocations
        }

    def outside(self, holdings: Sequence[Holding], now: datetime) -> list[int]:
        """Return how many chips of each holding the grant does not hold; the first come first."""
        if self.unrestricted:
            return [0] * len(holdings)
        draws = self._draws(holdings, now)
        return [held.chips - sum(draw.values()) for held, draw in zip(holdings, draws, strict=True)]

    def warnings(
        self, holdings: Sequence[Holding], now: datetime, before: float, owner: str
    ) -> list[str]:
        """Say what ends within so many seconds, and what is held outside of the grant.

        Slices of other fleets use the grant up, too, but their own fleet files may declare more.
        """
        lines = []
        used = self.used(holdings, now)
        for entry in self.allocations:
            if (
                entry.ends
                and not entry.is_over(now)
                and entry.ends <= now + timedelta(seconds=before)
            ):
                lines.append(
                    f"{entry.field}: {entry}, until {entry.last_day}, {in_time(entry.ends - now)}; "
                    f"{used[entry.field] or 'none'} of them are in use"
                )
        if self.unrestricted or not self.declared:
            return lines
        for held, chips in zip(holdings, self.outside(holdings, now), strict=True):
            if chips and held.owner in ("", owner):
                lines.append(
                    f"{held.what}: {chips} of its {held.chips} chips "
                    f"({_in_tier(held.place, held.tier)}) are outside of the grant and cost money"
                )
        return lines

    def _draws(self, holdings: Sequence[Holding], now: datetime) -> list[dict[str, int]]:
        """Return what each holding takes of which entry, the first come first.

        A type's own entries are used first, then those of its generation; among equals the one
        that lasts longest. So the fewest chips are outside, now and later.
        """
        order = sorted(
            (entry for entry in self.allocations if not entry.is_over(now)),
            key=lambda entry: (
                entry.accelerator_type is None,
                -entry.ends.timestamp() if entry.ends else -math.inf,
            ),
        )
        left = {entry.field: entry.chips for entry in order}
        draws = []
        for held in holdings:
            draw, chips = {}, held.chips
            for entry in order:
                if not entry.covers(held.place, held.tier):
                    continue
                taken = min(chips, left[entry.field])
                left[entry.field] -= taken
                chips -= taken
                draw[entry.field] = taken
            draws.append(draw)
        return draws

    def _covering(self, place: Place, tier: str) -> list[Allocation]:
        return [entry for entry in self.allocations if entry.covers(place, tier)]

    def apis(self, zone: str, accelerator_type: str, tier: str) -> frozenset[str]:
        """Return the APIs for which the grant has entries for such a node."""
        places = [Place(zone, accelerator_type, api) for api in APIS]
        return frozenset(place.api for place in places if self._covering(place, tier))

    def _nearest(self, zone: str, tier: str) -> str:
        """Name what the grant does hold in the zone, else in the tier, else everything."""
        choices = (
            [entry for entry in self.allocations if entry.zone == zone],
            [entry for entry in self.allocations if entry.tier == grant_tier(tier)],
            list(self.allocations),
        )
        shown = next((found for found in choices if found), [])
        return f"it holds {', '.join(map(str, shown))}" if shown else "it holds nothing"


def grant_tier(tier: str) -> str:
    """Return the tier of the grant under which a tier of the API is counted."""
    return TIERS.get(tier, tier)


def in_words(tier: str) -> str:
    """Return a tier as it reads behind a number of chips."""
    return _TIER_WORDS.get(grant_tier(tier), tier)


def on_api(api: str) -> str:
    """Return an API as it reads behind a zone: nothing for the Cloud TPU API."""
    return " on Compute Engine" if api == COMPUTE else ""


def generation_of(accelerator_type: str) -> str | None:
    """Return the generation that the name of a type begins with; None when it is not known."""
    match = _TYPE.fullmatch(accelerator_type)
    return _GENERATIONS.get(match["prefix"]) if match else None


def chips_of(accelerator_type: str) -> int | None:
    """Return the chips of a type of whatever size; None when its generation is not known."""
    match, generation = _TYPE.fullmatch(accelerator_type), generation_of(accelerator_type)
    if match is None or generation is None:
        return None
    # Half a chip cannot be had: what there is of it is there whole.
    return -(-int(match["number"]) // CORES_PER_CHIP[generation])


def type_of(node: Node) -> str:
    """Return a node's accelerator type, made from its shape where the API gives no name."""
    if node.accelerator_type or not node.topology:
        return node.accelerator_type
    config = node.raw.get("acceleratorConfig")
    kind = config.get("type") if isinstance(config, Mapping) else None
    sides = node.topology.split("x")
    generation = next((name for name, enum in API_ENUM.items() if enum == kind), None)
    if generation is None or not all(side.isdigit() for side in sides):
        return ""
    number = math.prod(map(int, sides)) * CORES_PER_CHIP[generation]
    return f"{PREFIXES[generation]}-{number}"


def holdings_of(nodes: Iterable[Node], queued: Iterable[QueuedResource]) -> list[Holding]:
    """Return what uses the grant up, mine or not: everything that exists, until it is gone.

    What a queued resource will make counts once: as the node where that exists already, else as
    the queued resource, which holds nothing any more once it is suspended or has failed. Chips
    that are not known count as none; the API's own quota is then the only guard.
    """
    there, waiting = list(nodes), list(queued)
    tiers = {
        (request.zone, node.name): request.tier for request in waiting for node in request.nodes
    }
    found = []
    for node in there:
        # A node does not show that it came by flex start or best effort; its request does.
        tier = tiers.get((node.zone, node.name), node.tier) if node.queued_resource else node.tier
        what = f"node {node.name} ({node.state})"
        place = Place(node.zone, type_of(node), node.api)
        found.append(Holding.at(place, tier, what, node.labels.get(OWNER_LABEL, "")))
    # A stranger's node of that name is not what the request will make.
    made = {(node.zone, node.name, node.queued_resource) for node in there}
    for request in waiting:
        # A group of Compute Engine goes on to wait after a failure, until it is deleted.
        if request.is_dead and request.api != COMPUTE:
            continue
        what = f"queued resource {request.name} ({request.state})"
        for node in request.nodes:
            if (request.zone, node.name, request.name) not in made:
                place = Place(request.zone, type_of(node), request.api)
                owner = request.labels.get(OWNER_LABEL, "")
                found.append(Holding.at(place, request.tier, what, owner))
    return found


def allocation_facts(
    grant: Grant, holdings: Sequence[Holding], now: datetime
) -> list[dict[str, Any]]:
    """Describe the entries and their use, as the modules return them."""
    used = grant.used(holdings, now)
    return [
        {
            "field": entry.field,
            "text": str(entry),
            "zone": entry.zone,
            "generation": entry.generation,
            "accelerator_type": entry.accelerator_type,
            "tier": entry.tier,
            "api": entry.api,
            "chips": entry.chips,
            "used": used[entry.field],
            "last_day": entry.last_day if entry.ends else None,
            "ends": f"{entry.ends:%Y-%m-%dT%H:%M:%SZ}" if entry.ends else None,
            "days_left": max(0, (entry.ends - now).days) if entry.ends else None,
            "over": entry.is_over(now),
        }
        for entry in grant.allocations
    ]


def allocation_problems(raw: Any) -> list[Problem]:
    """Return everything that is wrong with a value of fleet_allocations."""
    data = {"fleet_allocations": raw}
    return check_shape(data) + allocation_rules(data)


def allocation_rules(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the grant of a fleet file beyond its shape."""
    problems: list[Problem] = []
    for field, entry in entries(data, "fleet_allocations"):
        problems += _entry_problems(field, entry)
    return problems


def parse_allocations(raw: Any) -> Grant:
    """Return the grant that the variable fleet_allocations declares; raise when it is wrong."""
    problems = allocation_problems(raw)
    if problems:
        lines = " ".join(map(str, problems))
        raise BadRequest(f"The grant is not written properly: {lines}")
    return Grant.read(raw)


def end_of(value: Any) -> datetime | None:
    """Return the first instant after an end: for a day, the next midnight in UTC."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return aware.astimezone(timezone.utc)
    text = value.isoformat() if isinstance(value, date) else value
    if not isinstance(text, str):
        return None
    instant = parse_time(text.strip())
    if instant and _DAY.fullmatch(text.strip()):
        instant += timedelta(days=1)
    return instant.astimezone(timezone.utc) if instant else None


def day_before(end: datetime) -> str:
    """Return an end as a person would write it: of a whole day as the last one before it."""
    if end.time() == time(0):
        return f"{(end - timedelta(days=1)).date()}"
    return f"{end:%Y-%m-%d %H:%M} UTC"


def in_time(span: timedelta) -> str:
    """Say how long from now, in days or hours."""
    hours = int(span.total_seconds() // 3600)
    if hours >= 48:
        return f"in {hours // 24} days"
    return f"in {hours} hours" if hours >= 2 else "in less than 2 hours"


def _in_tier(place: Place, tier: str) -> str:
    """Return a place with what would be held there: `v4-8 on demand in us-x`."""
    return f"{place.accelerator_type} {in_words(tier)} in {place.zone}{on_api(place.api)}"


def _usual_api(entry: Mapping[str, Any]) -> str:
    """Return the API of an entry that names none: what only Compute Engine has is there."""
    generation = entry.get("generation") or generation_of(entry.get("accelerator_type") or "")
    return TPU if TPU in GENERATION_APIS.get(generation or "", {TPU}) else COMPUTE


def _entry_problems(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    problems = by_rule(entry, f"{field}.", "zone", rules.zone, rules.ZONE_REMEDY)
    generation, accelerator_type = entry.get("generation"), text_of(entry, "accelerator_type")
    if bool(generation) == bool(accelerator_type):
        both = "has both generation and accelerator_type"
        message = both if generation else "has neither generation nor accelerator_type"
        remedy = "Give the generation (v4) for any size of it, or one accelerator_type (v3-8)"
        problems.append(Problem(field, None, message, remedy))
    if accelerator_type and chips_of(accelerator_type) is None:
        remedy = did_you_mean(accelerator_type, meant_types(accelerator_type), rules.TYPE_REMEDY)
        message = "is not a known accelerator type"
        problems.append(Problem(f"{field}.accelerator_type", accelerator_type, message, remedy))
    chips, count = entry.get("chips"), entry.get("count")
    if (chips is None) == (count is None):
        message = "has neither chips nor count" if chips is None else "has both chips and count"
        remedy = "Give chips (a v4-8 has 4 of them), or count for so many of an accelerator_type"
        problems.append(Problem(field, None, message, remedy))
    elif count is not None and generation and not accelerator_type:
        remedy = "Say chips, or which accelerator_type is counted"
        problems.append(Problem(f"{field}.count", count, "counts nothing", remedy))
    for key, value in (("chips", chips), ("count", count)):
        if isinstance(value, int) and value < 1:
            problems.append(Problem(f"{field}.{key}", value, "is less than one", "Use 1 or more"))
    ends = entry.get("ends")
    if ends is not None and end_of(ends) is None:
        remedy = "Write the last day, as 2026-12-31, or an instant, as 2026-12-31T12:00:00Z"
        problems.append(Problem(f"{field}.ends", ends, "is not a date", remedy))
    problems += _api_problems(field, entry)
    return problems


def _api_problems(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    kind = text_of(entry, "accelerator_type") or ""
    generation = text_of(entry, "generation") or generation_of(kind) or ""
    api = text_of(entry, "api")
    having = GENERATION_APIS.get(generation)
    if not api or api not in APIS or having is None or api in having:
        return []
    remedy = f"Set api: {next(iter(having))}, or leave it out"
    return [Problem(f"{field}.api", api, f"does not have {generation}", remedy)]
