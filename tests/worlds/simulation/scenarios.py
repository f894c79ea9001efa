"""What may be the case, and what may happen: fleets, grants, faults, and deeds of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from simulation import engine
from simulation.rules import TIER_CLASS, generation, type_of
from simulation.things import COMPUTE, NEIGHBOUR, OWNER, OWNER_LABEL, TPU
from simulation.world import START, World
from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.model.shared.faults import KINDS as KNOWN
from tpu_local_cloud.model.shared.faults import Fault

# Few places, so that slices, strangers and faults meet.
FAMILIES: dict[str, tuple[list[str], list[str]]] = {
    "v5e": (["us-central1-a", "europe-west4-b", "us-east5-a"], ["v5litepod-4", "v5litepod-8"]),
    "v6e": (["us-east5-a", "us-east1-d"], ["v6e-4", "v6e-8"]),
}
# Two of these are in one region, whose templates and policies they share.
COMPUTE_ZONES = ["us-east5-a", "us-east5-b", "us-east1-d"]
COMPUTE_SHAPES: list[dict[str, Any]] = [
    {"accelerator_type": "v6e-4"},
    {"accelerator_type": "v6e-8"},
    {"machine_type": "ct6e-standard-4t", "topology": "2x4"},
    {"machine_type": "ct6e-standard-4t", "topology": "2x4"},
    {"accelerator_types": ["v6e-16", "v6e-4"]},
]
COMPUTE_TIERS = ["on_demand", "spot", "spot", "flex_start", "flex_start"]
ZONES = sorted({zone for zones, _types in FAMILIES.values() for zone in zones})
RUNTIMES = {"v5e": "v2-alpha-tpuv5-lite", "v6e": "v2-alpha-tpuv6e"}
NAMES = ["s0", "s1", "s2", "s3", "s4"]
TIERS = ["on_demand", "spot", "spot", "spot"]
HOWS = ["direct", "direct", "queued", "race"]
SECONDS = st.sampled_from([20, 120, 900, 3600, 14400])


def some(values: list[Any], most: int) -> st.SearchStrategy[list[Any]]:
    """A few of these, each once, in any order."""
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True)


@st.composite
def slices(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """One slice of the fleet file."""
    zones, types = FAMILIES[draw(st.sampled_from(list(FAMILIES)))]
    entry: dict[str, Any] = {"name": name, "tier": draw(st.sampled_from(TIERS))}
    kinds = draw(some(types, 2))
    places = draw(some(zones, 3))
    if len(places) < len(ZONES) and draw(st.integers(0, 9)) == 0:
        places.append(draw(st.sampled_from([z for z in ZONES if z not in places])))
    if len(kinds) == 1:
        entry["accelerator_type"] = kinds[0]
    else:
        entry["accelerator_types"] = kinds
    entry["zones"] = places
    how = draw(st.sampled_from(HOWS))
    if how == "queued":
        entry["queued"] = True
        entry["valid_for"] = draw(st.sampled_from([None, "10m", "2h"]))
    elif how == "race":
        entry["strategy"] = "race"
    entry["on_preempt"] = draw(st.sampled_from([None, None, "recreate", "keep"]))
    entry["recreate"] = draw(st.sampled_from([None, None, True]))
    entry["adopt"] = draw(st.sampled_from([None, None, None, True]))
    entry["labels"] = draw(st.sampled_from([None, {"team": "a"}, {"team": "b"}]))
    return {key: value for key, value in entry.items() if value is not None}


@st.composite
def compute_slices(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """One slice of the fleet file on Compute Engine."""
    tier = draw(st.sampled_from(COMPUTE_TIERS))
    entry: dict[str, Any] = {"name": name, "tier": tier, **draw(st.sampled_from(COMPUTE_SHAPES))}
    if "machine_type" not in entry:
        entry["api"] = COMPUTE
    entry["zones"] = draw(some(COMPUTE_ZONES, 3))
    if tier == "flex_start":
        entry["valid_for"] = draw(st.sampled_from([None, "10m", "2h"]))
        entry["max_run_duration"] = draw(st.sampled_from([None, "30m", "2h", "1d"]))
    entry["on_preempt"] = draw(st.sampled_from([None, None, None, "keep"]))
    entry["recreate"] = draw(st.sampled_from([None, None, True]))
    entry["adopt"] = draw(st.sampled_from([None, None, None, True]))
    entry["labels"] = draw(st.sampled_from([None, {"team": "a"}, {"team": "b"}]))
    return {key: value for key, value in entry.items() if value is not None}


def tpu_slices(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """One slice of the fleet file that says that it is of the Cloud TPU API."""
    return slices(name).map(lambda entry: {**entry, "api": TPU})


def moment(seconds: float) -> str:
    """Write a moment after the beginning as the fleet file has it."""
    return (datetime.fromtimestamp(START, UTC) + timedelta(seconds=seconds)).isoformat()


@st.composite
def grants(draw: st.DrawFn, entries: list[dict[str, Any]]) -> Any:
    """A grant that knows the places of the slices: enough, too little, over, or about to end."""
    sort = draw(st.integers(0, 19))
    if sort == 0:
        return []
    if sort == 1:
        return "unrestricted"
    pools = {}
    for entry in entries:
        kinds = entry.get("accelerator_types") or [type_of(entry)]
        api = entry.get("api") or (COMPUTE if "machine_type" in entry else "")
        for zone in entry["zones"]:
            tier = TIER_CLASS.get(entry["tier"], "spot")
            pools[(zone, generation(kinds[0]), tier, api)] = kinds
    found = []
    for (zone, whose, tier, api), kinds in sorted(pools.items()):
        for _again in range(draw(st.sampled_from([1, 1, 1, 0, 2]))):
            item: dict[str, Any] = {"zone": zone, "tier": tier}
            if api:
                item["api"] = api
            if draw(st.integers(0, 3)) == 0:
                item |= {"accelerator_type": draw(st.sampled_from(kinds))}
                item |= {"count": draw(st.sampled_from([1, 2, 4]))}
            else:
                item |= {"generation": whose, "chips": draw(st.sampled_from([4, 8, 16, 32, 64]))}
            end = draw(st.sampled_from([None, None, None, None, -3600, 600, 3600, 18000]))
            if end is not None:
                item["ends"] = moment(end)
            found.append(item)
    return found


def shortened(grant: Any, seconds: float) -> Any:
    """Return a grant of which all entries end then, if not before."""
    if not isinstance(grant, list):
        return grant
    end = moment(seconds)
    return [{**entry, "ends": min(entry.get("ends", end), end)} for entry in grant]


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, Any]:
    """The parameters of the module `fleet`."""
    count = draw(st.sampled_from([1, 2, 2, 3, 4, 5]))
    entries = [draw(slices(name)) for name in NAMES[:count]]
    params = {"slices": entries, "allocations": draw(grants(entries))}
    return {**params, "prune": draw(st.sampled_from([False, False, True]))}


@st.composite
def fleets_of_both(draw: st.DrawFn) -> dict[str, Any]:
    """The same, with slices of both APIs."""
    count = draw(st.sampled_from([1, 2, 2, 3, 3, 4]))
    entries = [
        draw(compute_slices(name) if index == 0 or draw(st.booleans()) else tpu_slices(name))
        for index, name in enumerate(NAMES[:count])
    ]
    params = {"slices": entries, "allocations": draw(grants(entries))}
    return {**params, "prune": draw(st.sampled_from([False, True]))}


def changed_slices() -> st.SearchStrategy[dict[str, Any]]:
    """A slice that is written again, perhaps for the other API."""
    names = st.sampled_from(NAMES[:3])
    return names.flatmap(lambda name: st.one_of(compute_slices(name), tpu_slices(name)))


# Faults ---------------------------------------------------------------------------------------

# Where a fault strikes: in one zone, everywhere, or the whole of a project.
ZONAL = [
    "stock_out",
    "stock_out",
    "quota",
    "queue_denied",
    "unreachable",
    "unreachable",
    "unreachable",
    "location_denied",
    "zone_unsupported",
    "rate_limit",
    "operation_internal",
    "reservation_full",
    "late_failure",
    "invisible",
    "stuck_operation",
]
# What is about Compute Engine alone.
ENGINE = ["stock_out", "stock_out", "unreachable", "bulk_refused", "stop_refused", "quota"]
GENERAL = [
    "unavailable",
    "internal",
    "bad_gateway",
    "drop",
    "drop",
    "reset",
    "busy",
    "not_found_after_create",
    "page_size",
    "empty_page",
    "project_number",
    "unknown_fields",
    "iam_denied",
    "api_disabled",
    "unauthenticated",
    "billing_disabled",
]
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "drop": {"when": ["before", "after"]},
    "quota": {"limit": [0, 16]},
    "rate_limit": {"retry_after": [None, 20]},
    "late_failure": {"seconds": [10, 60, 200], "error": ["operation_internal", "stock_out"]},
    "invisible": {"seconds": [10, 45]},
    "page_size": {"size": [1, 2]},
}


@st.composite
def faults(draw: st.DrawFn) -> dict[str, Any]:
    """One fault: in a zone or everywhere, by count, for a time, or now and then."""
    kind = draw(st.sampled_from([*ZONAL, *GENERAL]))
    found: dict[str, Any] = {"kind": kind}
    if kind in ZONAL:
        found["match"] = {"zone": draw(st.sampled_from(ZONES))}
    elif kind in ("drop", "reset"):
        found["match"] = {"method": draw(st.sampled_from(["POST", "DELETE", "PATCH", "GET"]))}
    sort = draw(st.sampled_from(["count", "seconds", "chance"]))
    if sort == "count":
        found["count"] = draw(st.integers(1, 4))
    else:
        found["seconds"] = draw(SECONDS)
    if sort == "chance":
        found |= {"probability": 0.3, "seed": draw(st.integers(0, 99))}
    chosen = {name: draw(st.sampled_from(values)) for name, values in OPTIONS.get(kind, {}).items()}
    return {**found, "options": {key: v for key, v in chosen.items() if v is not None}}


@st.composite
def faults_of_both(draw: st.DrawFn) -> dict[str, Any]:
    """A fault of both APIs, or of one of them alone."""
    found = draw(faults())
    if draw(st.booleans()):
        zone = draw(st.sampled_from(COMPUTE_ZONES))
        kind = draw(st.sampled_from(ENGINE))
        options = {"limit": draw(st.sampled_from([0, 16]))} if kind == "quota" else {}
        found |= {"kind": kind, "match": {"zone": zone}, "options": options}
    only = draw(st.sampled_from([None, TPU, COMPUTE, COMPUTE]))
    return {**found, "match": {**found.get("match", {}), "service": only}} if only else found


def switch_on(world: World, wanted: dict[str, Any]) -> None:
    """Switch a fault on."""
    known = {key: wanted[key] for key in wanted if key not in ("seconds", "options")}
    if "seconds" in wanted:
        known["until"] = world.now + wanted["seconds"]
    if wanted["kind"] not in KNOWN:
        return
    world.note(f"hand    fault {wanted}")
    world.cloud.faults.add(Fault(**known, options=wanted["options"]))


# What a controller outlives; the others end it, or make it leave a place alone for good.
_TRANSIENT = {
    "stock_out",
    "unreachable",
    "operation_internal",
    "late_failure",
    "rate_limit",
    "busy",
    "drop",
    "bad_gateway",
    "unavailable",
    "internal",
}


def soon_over(world: World) -> None:
    """Let all faults end: what a controller outlives while the next one works, the rest now."""
    faults, ends = world.cloud.faults, world.now + 1800.0
    kept = [fault for fault in faults.list() if fault["kind"] in _TRANSIENT]
    faults.clear()
    for fault in kept:
        until = min(fault["until"] or ends, ends)
        faults.add(Fault(**{**fault, "until": until}))
    kinds = ", ".join(sorted(fault["kind"] for fault in kept))
    world.note(f"        the faults end; within half an hour these: {kinds or '-'}")


# What others do -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deed:
    """Something that the service or a person does; `which` chooses among what there is."""

    kind: str
    which: int = 0
    fields: dict[str, Any] = field(default_factory=dict)


@st.composite
def strangers(draw: st.DrawFn) -> Deed:
    """A node that was not made here, or that we made earlier and know nothing more of."""
    whose = draw(st.sampled_from(["foreign", "foreign", "orphan"]))
    family = draw(st.sampled_from(list(FAMILIES)))
    zones, types = FAMILIES[family]
    names = ["theirs-1", "theirs-2", *NAMES] if whose == "foreign" else ["old-1", *NAMES]
    fields = {
        "zone": draw(st.sampled_from(zones)),
        "name": draw(st.sampled_from(names)),
        "type": draw(st.sampled_from(types)),
        "runtime": RUNTIMES[family],
        "tier": draw(st.sampled_from(["on_demand", "spot"])),
        "state": draw(st.sampled_from(["READY", "READY", "PREEMPTED", "TERMINATED"])),
    }
    return Deed(whose, fields=fields)


@st.composite
def strangers_of_both(draw: st.DrawFn) -> Deed:
    """The same as strangers, on either API; also parts of groups that are not used."""
    if draw(st.booleans()):
        return draw(strangers())
    whose = draw(st.sampled_from([None, NEIGHBOUR, OWNER, OWNER]))
    fields = {
        "zone": draw(st.sampled_from(COMPUTE_ZONES)),
        "name": draw(st.sampled_from(["old-1", *NAMES[:3]])),
        "owner": whose,
        "tier": draw(st.sampled_from(["on_demand", "spot"])),
        **draw(st.sampled_from(COMPUTE_SHAPES[:3])),
    }
    kinds = ["instance", "group", "policy", "template"]
    kinds = kinds[:1] if "accelerator_type" in fields else kinds[1:]
    return Deed("engine", fields={**fields, "until": draw(st.sampled_from(kinds))})


def stopped_slices(params: dict[str, Any]) -> list[Deed]:
    """Return the slices that a person can have stopped, as they were stopped long ago."""
    return [
        Deed(
            "orphan",
            fields={
                "zone": entry["zones"][0],
                "name": entry["name"],
                "type": kind,
                "runtime": RUNTIMES[generation(kind)],
                "tier": "on_demand",
                "state": "STOPPED",
            },
        )
        for entry in params["slices"]
        if entry["tier"] == "on_demand" and entry.get("api", TPU) == TPU
        if "machine_type" not in entry
        for kind in [entry.get("accelerator_type") or entry["accelerator_types"][0]]
        if not (entry.get("queued") or entry.get("strategy"))
        if entry["zones"][0] in FAMILIES[generation(kind)][0]
    ]


WHICH = st.integers(0, 9)
KINDS = ["preempt", "preempt", "terminate", "stop", "stop", "delete", "maintain", "unhealthy"]
QUEUE_KINDS = ["suspend", "suspend", "fail", "suspend_by_user", "delete_queued"]
_TO_WHAT_IS = st.builds(Deed, kind=st.sampled_from([*KINDS, *QUEUE_KINDS]), which=WHICH)
# Time that passes between two requests, in which a grant may end.
_LATER = st.builds(Deed, kind=st.just("later"), which=st.sampled_from([1, 600, 3600]))
DEEDS = st.one_of(_TO_WHAT_IS, _TO_WHAT_IS, _TO_WHAT_IS, _LATER, strangers())
_TO_A_MACHINE = st.builds(Deed, kind=st.just("preempt_one"), which=WHICH)
DEEDS_OF_BOTH = st.one_of(_TO_WHAT_IS, _TO_WHAT_IS, _TO_A_MACHINE, _LATER, strangers_of_both())


@dataclass(frozen=True)
class Around:
    """What goes on before and during the life of a controller, which ends at the timeout."""

    trouble: list[dict[str, Any]]
    deeds: list[Deed]
    pause: float
    timeout: float
    # What others do, by the number of the controller's request before which they do it.
    during: dict[int, Deed]
    # By how many hours the controller's own clock is wrong.
    skew: int
    # The controller of another fleet that works at the same time, if any.
    neighbour: Neighbour | None


# What says where a slice may be, and of what it is.
_OF_PLACES = ("accelerator", "zones", "tier", "api", "machine_type", "topology")


@dataclass(frozen=True)
class Neighbour:
    """A fleet of another owner that wants what one of our slices wants, and how fast it is."""

    which: int
    queued: bool
    timeout: float
    # How many steps it makes, by the number of our request before which it makes them.
    steps: dict[int, int]

    def params(self, ours: dict[str, Any]) -> dict[str, Any]:
        """Return its fleet file: another name and owner, the same place and grant."""
        model = ours["slices"][self.which % len(ours["slices"])]
        kept = {k: v for k, v in model.items() if k.startswith(_OF_PLACES)}
        entry = {**kept, "name": f"n{self.which}"}
        on_engine = COMPUTE in (entry.get("api"), "machine_type" in entry and COMPUTE)
        if self.queued and not on_engine:
            entry["queued"] = True
        return {"slices": [entry], "allocations": ours["allocations"], "owner": NEIGHBOUR}


NEIGHBOURS = st.builds(
    Neighbour,
    which=st.integers(0, 4),
    queued=st.booleans(),
    timeout=st.sampled_from([0, 0, 300]),
    # Both look first, mostly: that is what has to end well.
    steps=st.one_of(
        st.dictionaries(st.integers(2, 6), st.integers(1, 4), min_size=1, max_size=3),
        st.dictionaries(st.integers(1, 30), st.integers(1, 8), min_size=1, max_size=4),
    ),
)


def around(
    trouble: st.SearchStrategy[dict[str, Any]], deeds: st.SearchStrategy[Deed]
) -> st.SearchStrategy[Around]:
    """What may go on around a life, of these faults and deeds."""
    return st.builds(
        Around,
        trouble=st.lists(trouble, max_size=2),
        deeds=st.lists(deeds, max_size=2),
        pause=st.sampled_from([0, 0, 5, 30, 120, 900, 7200]),
        timeout=st.sampled_from([0, 30, 300, 300, 1800, 7200]),
        during=st.dictionaries(st.integers(1, 30), deeds, max_size=3),
        skew=st.sampled_from([0, 0, -30, -3, 3, 30]),
        neighbour=st.one_of(st.none(), st.none(), NEIGHBOURS),
    )


AROUND = around(faults(), DEEDS)
AROUND_BOTH = around(faults_of_both(), DEEDS_OF_BOTH)


def do(world: World, deed: Deed) -> None:
    """Do a deed, as far as the cloud allows it now."""
    if deed.kind in ("foreign", "orphan"):
        _add(world, deed)
        return
    if deed.kind == "engine":
        engine.add(world, deed.fields)
        return
    if deed.kind == "later":
        world.note(f"hand    {deed.which} s pass")
        world.pass_time(deed.which)
        return
    found = world.cloud.queued if deed.kind in QUEUE_KINDS else world.cloud.nodes
    if not found:
        return
    thing = found[sorted(found)[deed.which % len(found)]]
    zone, name = thing.zone, thing.name
    with world.by_hand(f"{deed.kind} {name} in {zone}"):
        try:
            if getattr(thing, "api", TPU) == COMPUTE:
                engine.happen(world, thing, deed.kind, deed.which)
            else:
                _VERBS[deed.kind](world, zone, name)
        except ApiError as error:
            world.note(f"        -> {error}")


def _add(world: World, deed: Deed) -> None:
    given = deed.fields
    if f"{given['zone']}/{given['name']}" in world.cloud.nodes:
        return
    body: dict[str, Any] = {
        "acceleratorType": given["type"],
        "runtimeVersion": given["runtime"],
        "networkConfig": {"network": "default", "enableExternalIps": True},
        "labels": {OWNER_LABEL: OWNER} if deed.kind == "orphan" else {"whose": "theirs"},
    }
    if given["tier"] == "spot":
        body["schedulingConfig"] = {"spot": True}
    with world.by_hand(f"{deed.kind} node {given['name']} in {given['zone']}"):
        world.cloud.populate([(given["zone"], given["name"], body)])
        if given["state"] != "READY":
            world.cloud.set_fields(given["zone"], given["name"], {"state": given["state"]})


def _delete(world: World, zone: str, name: str) -> None:
    world.cloud.delete(zone, name, "v2")


def _set(**fields: Any) -> Callable[[World, str, str], None]:
    return lambda world, zone, name: world.cloud.set_fields(zone, name, fields)


def _fall_ill(world: World, zone: str, name: str) -> None:
    """Let a node be unhealthy for a while; the service repairs it."""
    node = world.cloud.nodes[f"{zone}/{name}"]
    world.cloud.set_fields(zone, name, {"health": "UNHEALTHY_MAINTENANCE"})

    def mend() -> None:
        if world.cloud.nodes.get(node.key) is node and node.state == "READY":
            world.cloud.set_fields(zone, name, {"health": "HEALTHY"})

    world.later(1800.0, mend)


_VERBS: dict[str, Callable[[World, str, str], Any]] = {
    "preempt_one": lambda world, zone, name: world.cloud.preempt(zone, name),
    "preempt": lambda world, zone, name: world.cloud.preempt(zone, name),
    "terminate": _set(state="TERMINATED"),
    "stop": lambda world, zone, name: world.cloud.stop(zone, name, "v2"),
    "delete": _delete,
    "maintain": lambda world, zone, name: world.cloud.maintain(zone, name, [0], "v2alpha1"),
    "unhealthy": _fall_ill,
    "suspend": lambda world, zone, name: world.cloud.queue.suspend(zone, name),
    "suspend_by_user": lambda world, zone, name: world.cloud.queue.suspend(zone, name, "USER"),
    "fail": lambda world, zone, name: world.cloud.queue.fail(zone, name),
    "delete_queued": lambda world, zone, name: world.cloud.queue.delete(zone, name, "v2", True),
}
