"""What must always be true of a controller, checked at each thing that happens. No planner's code.

The sums are done here once more and in another way than in the planner: a mistake there must not
hide itself here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from simulation.things import COMPUTE, NEIGHBOUR, OWNER, PARTS, TPU, Call, Part, Thing
from simulation.world import Event, World

DEAD_NODE = ("PREEMPTED", "TERMINATED", "UNKNOWN")
DEAD_QUEUED = ("SUSPENDED", "FAILED")
GOING = ("DELETING", "EMPTYING")
TIER_CLASS = {
    "on_demand": "on_demand",
    "guaranteed": "on_demand",
    "reserved": "reserved",
}
CORES = ("v2", "v3", "v4", "v5p")
# Chips of the machine type that a type without one gets where they suffice: ct6e-standard-8t.
LARGEST_MACHINE = 8

Pool = tuple[str, str, str, str]


def chips(accelerator_type: str) -> int:
    """Return the chips of a type, from its name."""
    family, _dash, number = accelerator_type.rpartition("-")
    return int(number) // 2 if family in CORES else int(number)


def generation(accelerator_type: str) -> str:
    """Return the generation of a type."""
    family = accelerator_type.rpartition("-")[0]
    return "v5e" if family == "v5litepod" else family


def pool_of(zone: str, accelerator_type: str, tier: str, api: str) -> Pool:
    """Return what a type's chips are counted under."""
    return zone, generation(accelerator_type), TIER_CLASS.get(tier, "spot"), api


def end_of(entry: Mapping[str, Any]) -> datetime | None:
    """Return the first instant at which an entry of the grant no longer holds."""
    text = entry.get("ends")
    if text is None:
        return None
    if re.fullmatch(r"\d{4}-\d\d-\d\d", str(text)):
        return datetime.fromisoformat(f"{text}T23:59:59.999999+00:00")
    return datetime.fromisoformat(str(text)).astimezone(UTC)


def used(things: Iterable[Thing]) -> list[tuple[Pool, str, int]]:
    """Return pool, type and chips of all that is held: a queued node counts once."""
    things = list(things)
    made = {(t.zone, t.name, t.parent) for t in things if t.what == "node"}
    tiers = {
        (thing.zone, thing.name, part.name): part.tier
        for thing in things
        if thing.what == "queued"
        for part in thing.parts
    }
    found = []
    for thing in things:
        for part in thing.parts:
            tier = part.tier
            if thing.what == "node":
                tier = tiers.get((part.zone, thing.parent, part.name), tier)
            elif thing.what == "queued" and (
                thing.state in DEAD_QUEUED or (part.zone, part.name, thing.name) in made
            ):
                continue
            kind = part.accelerator_type
            found.append((pool_of(part.zone, kind, tier, thing.api), kind, chips(kind)))
    return found


@dataclass(frozen=True)
class Declared:
    """The fleet file, as the module `fleet` takes it."""

    params: Mapping[str, Any]

    @property
    def slices(self) -> dict[str, Mapping[str, Any]]:
        """Return the slices by their names."""
        return {entry["name"]: entry for entry in self.params["slices"]}

    @property
    def prune(self) -> bool:
        """Say whether what is no longer declared may go."""
        return bool(self.params.get("prune"))

    @property
    def teardown(self) -> set[str]:
        """Return the slices that are to go."""
        return set(self.params.get("teardown") or ())

    def api(self, name: str) -> str:
        """Return which API has a slice; what the file leaves open is of the older one."""
        entry = self.slices[name]
        return str(entry.get("api") or (COMPUTE if entry.get("machine_type") else TPU))

    def places(self, name: str) -> list[tuple[str, str]]:
        """Return zone and type of each place where a slice may be."""
        entry = self.slices[name]
        types = entry.get("accelerator_types") or [type_of(entry)]
        zones = entry.get("zones") or [entry["zone"]]
        return [(zone, kind) for kind in types for zone in zones]

    def tier(self, name: str) -> str:
        """Return the tier of a slice."""
        return str(self.slices[name].get("tier") or "on_demand")

    def room(self, pool: Pool, things: Iterable[Thing], wall: datetime) -> int | None:
        """Return how many chips are left in a pool, below zero for too many; None for any."""
        grant = self.params.get("allocations")
        if grant == "unrestricted":
            return None
        by_type: dict[str, int] = {}
        shared = 0
        for entry in grant or []:
            end = end_of(entry)
            if end is not None and wall >= end:
                continue
            kind = entry.get("accelerator_type")
            whose = generation(kind) if kind else entry["generation"]
            if (entry["zone"], whose, entry["tier"], entry.get("api") or TPU) != pool:
                continue
            number = entry["chips"] if "chips" in entry else entry["count"] * chips(kind)
            if kind:
                by_type[kind] = by_type.get(kind, 0) + number
            else:
                shared += number
        held: dict[str, int] = {}
        for where, kind, number in used(things):
            if where == pool:
                held[kind] = held.get(kind, 0) + number
        overflow = sum(max(0, number - by_type.get(kind, 0)) for kind, number in held.items())
        return shared - overflow

    def fits(
        self, place: tuple[str, str], tier: str, api: str, things: list[Thing], wall: datetime
    ) -> bool:
        """Say whether one more of a type would stay within the grant."""
        zone, kind = place
        extra = Thing(
            "node" if api == TPU else "instance", zone, "", "", "", (Part("", zone, kind, tier),)
        )
        pool = pool_of(zone, kind, tier, api)
        left = self.room(pool, [*things, extra], wall)
        if left is None:
            return True
        before = self.room(pool, things, wall)
        # Of a type of its own there may be room although the pool is over-used.
        return left >= 0 or left == before


def type_of(entry: Mapping[str, Any]) -> str:
    """Return the accelerator type of an entry, which may say a machine type and a topology."""
    if "accelerator_type" in entry:
        return str(entry["accelerator_type"])
    product = 1
    for side in entry["topology"].split("x"):
        product *= int(side)
    family = {"ct6e": "v6e"}[entry["machine_type"].partition("-")[0]]
    return f"{family}-{product}"


def shape_of(entry: Mapping[str, Any], accelerator_type: str) -> str | None:
    """Return what a slice of Compute Engine is made as, of one machine or of several."""
    if "machine_type" in entry:
        machine = int(entry["machine_type"].rpartition("-")[2].removesuffix("t"))
    elif entry.get("api") == COMPUTE:
        machine = LARGEST_MACHINE
    else:
        return None
    return "group" if chips(accelerator_type) > machine else "instance"


def is_granted(thing: Thing) -> bool:
    """Say whether the service is making the nodes of a queued resource."""
    return thing.what == "queued" and thing.state == "PROVISIONING"


def is_dead(node: Thing) -> bool:
    """Say whether a node never runs again; of those that were stopped, no spot node does."""
    stopped = node.state == "STOPPED" and node.parts[0].tier in ("spot", "preemptible")
    return stopped or node.state in DEAD_NODE


@dataclass
class Rules:
    """Watches a world, and writes down what must never happen."""

    world: World
    declared: Declared = field(default_factory=lambda: Declared({"slices": []}))
    broken: list[str] = field(default_factory=list)
    # Set while nothing is to change: the slices that the API refuses, for which one may ask again.
    refused: frozenset[str] | None = None

    def __post_init__(self) -> None:
        self.world.on_event.append(self._event)
        self.world.on_call.append(self._call)
        self.world.on_answer.append(self._answer)
        self.world.on_refusal.append(self._refusal)
        self._seen: set[tuple[str, str, str]] = set()
        self._made: set[str] = set()
        # What any controller made since the last begin.
        self._new: set[str] = set()
        # What there was at the last look: who was alive then may be gone when another is deleted.
        self._looked: dict[tuple[str, str, str], Thing] = {}
        # The kinds of which this life has read a list.
        self._listed: set[str] = set()
        # The zones that did not answer at the last look.
        self.lost: set[str] = set()
        # Queued resources that are over; while they are deleted they hold nothing either.
        self._over: set[str] = set()
        # Queued resources that had got their capacity when the grant was changed.
        self._granted: set[str] = set()
        # What was asked with each id of a request.
        self._ids: dict[str, tuple[str, str, str]] = {}

    def begin(self, declared: Declared) -> None:
        """A new life of the controller begins: it knows what it will see, and nothing else."""
        if declared.params.get("allocations") != self.declared.params.get("allocations"):
            # The nodes of what was granted under another grant are on their way.
            self._granted = {t.uid for t in self.world.things.values() if is_granted(t)}
        self.declared = declared
        self.world.caller, self.world.sent = OWNER, self.world.now
        self._new.clear()
        self._listed.clear()
        self._seen = set(self.world.things)
        self._looked = dict(self.world.things)

    def _break(self, text: str) -> None:
        self.broken.append(text)
        self.world.note(f"BROKEN  {text}")

    # Requests -----------------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        verb = call.method.partition(".")[2]
        if call.changes and call.api == COMPUTE and self._is_repeated(call):
            return
        if self.world.caller != OWNER:
            self._neighbour(call)
            return
        if verb == "list" and call.what and call.zone in ("", "-"):
            what = call.what
            self._looked |= {k: t for k, t in self.world.things.items() if k[0] == what}
            self._seen = {key for key in self._seen if key[0] != what}
            # What lies in a zone that does not answer exists: nobody may take it for gone.
            self._seen |= {
                key
                for key, thing in self.world.things.items()
                if key[0] == what and thing.visible_from <= self.world.now
            }
        if not call.changes:
            return
        thing = self.world.thing_of(call)
        if self.refused is not None and not self._tries_again(call):
            self._break(f"{call.method} {call.name} although nothing was to change")
        if thing is None or verb == "create":
            return
        if not thing.ours and not self._may_adopt(thing):
            self._break(f"{call.method} of the {thing}")
        elif verb == "delete" and call.what == "instance" and thing.what == "group":
            self._break(f"{call.method} of a machine of the {thing}")
        elif verb == "delete":
            self._deletion(thing)
        elif verb == "start":
            self._grant(thing, self._counted(), f"{call.method} of the")

    def _is_repeated(self, call: Call) -> bool:
        """Say whether a change was asked for before; each has an id, and no other has the same."""
        change = (call.method, call.zone, call.name)
        if not call.request_id:
            self._break(f"{call.method} {call.name} has no requestId")
            return False
        known = self._ids.get(call.request_id)
        self._ids[call.request_id] = change
        if known not in (None, change):
            self._break(f"{call.method} {call.name} has the requestId of another request")
        return known == change

    def _neighbour(self, call: Call) -> None:
        """The other fleet's controller touches only what carries its label."""
        thing = self.world.thing_of(call)
        if (
            call.changes
            and thing
            and thing.owner != NEIGHBOUR
            and not call.method.endswith("create")
        ):
            self._break(f"{call.method} by the neighbour, of the {thing}")

    def _answer(self, call: Call, answer: Mapping[str, Any]) -> None:
        if self.world.caller != OWNER:
            return
        self._listed.add(call.what)
        if call.method == "nodes.list":
            self.lost.clear()
        lost = [*(answer.get("unreachable") or ()), *(answer.get("unreachables") or ())]
        self.lost |= {name.rpartition("/")[2] for name in lost}

    def _refusal(self, call: Call) -> None:
        """An API to which a fleet has no access has nothing of it, unless this life has read it."""
        if self.world.caller == OWNER and call.what not in self._listed:
            self._seen = {key for key in self._seen if key[0] != call.what}

    def _tries_again(self, call: Call) -> bool:
        """Return whether a request only retries what was refused, or clears up after that."""
        again = call.method.endswith(".create") or call.what in PARTS
        return again and call.name in (self.refused or ())

    def _may_adopt(self, thing: Thing) -> bool:
        """Say whether the file gives this one into the controller's hands."""
        entry = self.declared.slices.get(thing.name)
        return bool(entry and entry.get("adopt") and thing.is_slice)

    def _deletion(self, thing: Thing) -> None:
        """Nothing that works, and that is still wanted as it is, may be deleted."""
        for name in thing.names:
            entry = self.declared.slices.get(name)
            node = self._node_of(thing, name)
            if name in self.declared.teardown:
                continue
            if self.declared.teardown:
                self._break(f"deletion of the {thing}, which is not to be taken down")
                continue
            if entry is None:
                if not self.declared.prune:
                    self._break(f"without prune, deletion of the undeclared {thing}")
                continue
            if node is None:
                continue  # a request that waits, or is dead, holds nothing; nor does a part
            if node.state == "DELETING":
                # What another deletes after the last look at it counts as what it was then.
                node = self._as_looked(node)
            if is_dead(node) and not self._is_surplus(node):
                # What dies after the last look at it is deleted as what it was then.
                known = self._as_looked(node)
                may_go = not is_dead(known) and self._may_go(known, entry)
                if entry.get("on_preempt") == "keep" and not may_go:
                    self._break(f"with on_preempt: keep, deletion of the {node}")
                continue
            if not self._may_go(node, entry) and not self.late(thing):
                self._break(f"deletion of the wanted {node}")

    def _node_of(self, thing: Thing, name: str) -> Thing | None:
        if thing.is_slice:
            # It may have got its capacity since, and nobody can know that; or lost it again.
            return None if "PENDING" in (self._as_looked(thing).state, thing.state) else thing
        if thing.what in PARTS:
            return None
        node = self.world.things.get(("node", thing.zone, name))
        return node if node and node.parent == thing.name else None

    def _as_looked(self, thing: Thing) -> Thing:
        """Return a thing as it was at the last look; one that came since, as it is."""
        looked = self._looked.get(thing.key, thing)
        return looked if looked.uid == thing.uid else thing

    def _may_go(self, node: Thing, entry: Mapping[str, Any]) -> bool:
        part = node.parts[0]
        if self._is_surplus(node):
            return True
        if entry.get("recreate"):
            # What differs and what is broken is made anew where that is allowed.
            return not self._as_declared(node) or node.state != "READY"
        ended = self.declared.room(
            pool_of(node.zone, part.accelerator_type, part.tier, node.api), [], self.world.wall
        )
        return bool(
            self.declared.params.get("expire")
            and entry.get("on_grant_end") == "delete"
            and ended == 0
        )

    def _as_declared(self, node: Thing) -> bool:
        part = node.parts[0]
        places, api = self.declared.places(part.name), self.declared.api(part.name)
        wanted = self.declared.slices[part.name].get("tier")
        here = (node.zone, part.accelerator_type) in places and node.api == api
        shape = shape_of(self.declared.slices[part.name], part.accelerator_type)
        return here and shape in (None, node.what) and wanted in (None, part.tier)

    def _is_surplus(self, node: Thing) -> bool:
        """Say whether another of the same name stays that is no worse."""
        others = {
            thing.state
            for thing in self._looked.values()
            if thing.is_slice and thing.ours
            if thing.name == node.name and thing.key != node.key
        } - {*DEAD_NODE, "DELETING"}
        looked = self._looked.get(node.key)
        # What came up since the last look is not known to be better than the others.
        is_ready = node.state == "READY" and looked is not None and looked.state == "READY"
        return "READY" in others or (not is_ready and bool(others))

    # Events -------------------------------------------------------------------------------------

    def _event(self, event: Event) -> None:
        thing = event.thing
        if self.refused is not None and event.by == "client":
            self._break(f"although nothing was to change, {event.kind}: {thing}")
        if thing.what == "queued" and thing.state in DEAD_QUEUED:
            self._over.add(thing.uid)
        if event.kind != "created":
            return
        if event.by == "client":
            self._new.add(thing.uid)
            if self.world.caller == OWNER:
                self._made.add(thing.uid)
        if not thing.ours or event.by == "hand":
            return
        if event.by == "client":
            self._grant(thing, self._counted(), "with the")
            self._names(thing)
            self._on_its_api(thing)
        elif not self._was_granted(thing):
            # Nobody decides when the service grants what was asked for: ours alone has to fit.
            now = [t for t in self.world.things.values() if t.uid not in self._over]
            counted = [t for t in now if (t.uid in self._made or t.parent) and t.ours]
            self._grant(thing, counted, "with the")

    def _was_granted(self, node: Thing) -> bool:
        queued = self.world.things.get(("queued", node.zone, node.parent))
        return queued is not None and queued.uid in self._granted

    def _on_its_api(self, thing: Thing) -> None:
        """A slice is of the API that the file says, whatever the other one would have."""
        for name in thing.names & set(self.declared.slices):
            if thing.owner == OWNER and thing.api != self.declared.api(name):
                self._break(f"on the wrong API: {thing}")

    def _counted(self) -> list[Thing]:
        """Return what a controller has to count: what it made, and what it could see."""
        now = [t for t in self.world.things.values() if t.uid not in self._over]
        return [t for t in now if t.uid in self._made or t.key in self._seen]

    def _grant(self, thing: Thing, counted: list[Thing], how: str) -> None:
        # By the time at which it was asked for: nobody knows how long a request is under way.
        # An API tells the time in whole seconds.
        sent = datetime.fromtimestamp(int(self.world.sent), UTC)
        wall = min(self.world.wall, sent)
        for text in self._too_many(thing, counted, wall):
            self._break(f"{text} {how} {thing}")

    def _too_many(self, thing: Thing, counted: list[Thing], wall: datetime) -> list[str]:
        found = []
        for part in thing.parts:
            pool = pool_of(part.zone, part.accelerator_type, part.tier, thing.api)
            left = self.declared.room(pool, counted, wall)
            others = [t for t in counted if t.key != thing.key]
            before = self.declared.room(pool, others, wall)
            # What strangers hold beyond the grant is not our doing; adding to it is.
            if left is not None and before is not None and left < min(0, before):
                found.append(f"{-left} chips too many in {'/'.join(pool)}")
        return found

    # Two fleets ---------------------------------------------------------------------------------

    def late(self, thing: Thing) -> list[str]:
        """Say by how much a new thing overran the grant in the moment in which it came."""
        if thing.uid not in self._new:
            return []
        born = self._birth(thing)
        older = [
            t
            for t in self.world.things.values()
            if t.uid not in self._over and t.state != "DELETING" and self._birth(t) < born
        ]
        return self._too_many(thing, [*older, thing], datetime.fromtimestamp(born[0], UTC))

    def overrun(self) -> None:
        """After two controllers have worked beside each other, nothing new is too much."""
        for thing in list(self.world.things.values()):
            if thing.state != "DELETING" and thing.uid not in self._over:
                for text in self.late(thing):
                    self._break(f"two fleets: {text} with the {thing}")

    def _birth(self, thing: Thing) -> tuple[float, str, str, str]:
        parent = self.world.things.get(("queued", thing.zone, thing.parent))
        oldest = parent or thing
        kind = "queued" if oldest.what == "queued" else "node"
        return (self.world.born[oldest.uid], kind, oldest.zone, oldest.name)

    def _is_out_of_sight(self, thing: Thing, zones: set[str]) -> bool:
        """Return whether nothing shows it: in no declared zone, or where none may look."""
        if thing.visible_from > self.world.now and thing.zone in self._closed():
            return True
        return thing.zone in self.lost and thing.zone not in zones

    def _closed(self) -> set[str]:
        """Return the zones that answer that they are closed."""
        found = set()
        for fault in self.world.cloud.faults.list():
            if fault["kind"] in ("location_denied", "zone_unsupported"):
                found.add(fault["match"].get("zone"))
        return found

    def _names(self, thing: Thing) -> None:
        for part in thing.parts:
            claims = claims_on(part.name, self.world.things.values())
            claims = [c for c in claims if c.uid in self._made or c.key in self._seen]
            entry = self.declared.slices.get(part.name, {})
            zones = {zone for zone, _kind in self.declared.places(part.name)} if entry else set()
            claims = [c for c in claims if not self._is_out_of_sight(c, zones)]
            places = {(c.zone, c.parts[0].accelerator_type) for c in claims}
            race = entry.get("strategy") == "race" and len(places) == len(claims)
            direct = thing.is_slice
            if len(claims) > 1 and (direct or not race):
                names = "; ".join(map(str, claims))
                self._break(f"{len(claims)} slices with the name {part.name}: {names}")


def claims_on(name: str, things: Iterable[Thing]) -> list[Thing]:
    """Return all things here that are, or will become, a slice of this name; each once."""
    things = [thing for thing in things if thing.ours]
    # What these have made is taken back in a moment.
    going = {
        (t.zone, t.name)
        for t in things
        if t.what == "queued" and t.state in ("SUSPENDING", "DELETING")
    }
    nodes = [
        t
        for t in things
        if t.is_slice and t.name == name and not (is_dead(t) or t.state in GOING)
        if (t.zone, t.parent) not in going
    ]
    zones = {t.zone for t in things if t.what == "node" and t.name == name}
    waiting = [
        t
        for t in things
        if t.what == "queued"
        and t.state not in (*DEAD_QUEUED, "SUSPENDING", "DELETING")
        and any(part.name == name and part.zone not in zones for part in t.parts)
    ]
    return nodes + waiting
