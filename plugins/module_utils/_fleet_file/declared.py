# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fleet file declares, as the rules, the planner and the watcher know it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .._compute import machine_types
from .._core.errors import BadRequest
from .._core.ownership import DEFAULT_OWNER, OWNER_LABEL
from .._schema.accelerators import parse as parse_accelerator
from .._schema.disks import disks_of
from .._schema.keys import APIS, TIERS, text_of, texts_of
from .._tpu.model import COMPUTE, TPU
from .._tpu.node_spec import NodeSpec
from .._tpu.queued_spec import parse_duration
from .grant import Grant, Place, generation_of
from .self_setup import fleet_of, startup_script

# What only a queued resource can ask for; the node that comes of it shows other words.
QUEUE_TIERS = frozenset({"guaranteed", "best_effort", "flex_start"})
# What only the Cloud TPU API has.
TPU_TIERS = frozenset({"guaranteed", "best_effort"})
# A future reservation in calendar mode. Its machines show the same as any that are reserved.
CALENDAR = "calendar"
TPU_KEYS = ("queued", "runtime_version")
KEEP, STOP, DELETE = "keep", "stop", "delete"
REPORT, RECREATE = "report", "recreate"


@dataclass(frozen=True)
class Slice:
    """One slice of the fleet file."""

    name: str
    # Both in order of preference, each once.
    types: tuple[str, ...]
    zones: tuple[str, ...]
    tier: str = TIERS[0]
    # Which API has it; empty where the fleet file leaves that open.
    api: str = TPU
    # Of Compute Engine only; empty for the default ones of the type.
    machine_type: str = ""
    topology: str = ""
    # Whether the file says the tier; if not, that of the node is not compared.
    says_tier: bool = False
    asks_queue: bool = False
    race: bool = False
    valid_for: float | None = None
    reservation: str | None = None
    max_run_duration: str | None = None
    on_preempt: str = "recreate"
    on_bad_chips: str = REPORT
    on_grant_end: str = KEEP
    on_finish: str = KEEP
    # In seconds; None is never.
    idle_after: int | None = None
    # Whether it is there only while submitted runs need it.
    on_queue: bool = False
    # Of its runs, where it may be put to rest for them.
    mark: str = ""
    recreate: bool = False
    adopt: bool = False
    self_setup: bool = False
    # The whole entry with its disks, of which NodeSpec takes what describes the node.
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(
        cls,
        entry: Mapping[str, Any],
        default_zone: str | None,
        mark: str | None = None,
        grant: Grant | None = None,
    ) -> Slice:
        """Return what an entry says, as far as it is well-formed; the rules report the rest.

        Where both APIs could have the slice, the grant decides.
        """
        machine_type, topology = (text_of(entry, key) or "" for key in ("machine_type", "topology"))
        types = _one_or_list(entry, "accelerator_type", "accelerator_types")
        if machine_type and not types:
            kind = machine_types.accelerator_type_of(machine_type, topology)
            types = [kind] if kind else []
        zones = _one_or_list(entry, "zone", "zones") or ([default_zone] if default_zone else [])
        tier = text_of(entry, "tier") or TIERS[0]
        return cls(
            name=text_of(entry, "name") or "",
            types=tuple(dict.fromkeys(types)),
            zones=tuple(dict.fromkeys(zones)),
            tier=tier,
            api=api_of(entry, types, zones, tier, grant),
            machine_type=machine_type,
            topology=topology,
            says_tier=bool(entry.get("tier")),
            asks_queue=bool(entry.get("queued")),
            race=entry.get("strategy") == "race",
            valid_for=parse_duration(text_of(entry, "valid_for") or ""),
            reservation=text_of(entry, "reservation"),
            max_run_duration=text_of(entry, "max_run_duration"),
            on_preempt=text_of(entry, "on_preempt") or "recreate",
            on_bad_chips=text_of(entry, "on_bad_chips") or REPORT,
            on_grant_end=text_of(entry, "on_grant_end") or KEEP,
            on_finish=text_of(entry, "on_finish") or KEEP,
            idle_after=parse_duration(text_of(entry, "idle_after") or ""),
            on_queue=entry.get("on_queue") is True,
            mark=mark or "",
            recreate=bool(entry.get("recreate")),
            adopt=bool(entry.get("adopt")),
            self_setup=entry.get("self_setup") is True,
            options=entry,
        )

    @property
    def queued_by(self) -> str:
        """Return what of it only a queued resource can do, as the file has it; empty if nothing."""
        if self.race:
            return "strategy: race"
        if self.tier in QUEUE_TIERS:
            return f"tier: {self.tier}"
        if self.reservation:
            return "reservation"
        return "max_run_duration" if self.max_run_duration else ""

    @property
    def queued(self) -> bool:
        """Say whether it is asked for through a queued resource."""
        return self.api != COMPUTE and (self.asks_queue or bool(self.queued_by))

    @property
    def waits(self) -> bool:
        """Say whether its request may wait at Google for capacity."""
        return self.queued or (self.api == COMPUTE and self.tier == "flex_start")

    @property
    def may_rest(self) -> bool:
        """Say whether it may be absent although it is declared."""
        return bool(self.mark) or self.on_queue

    @property
    def asked_tier(self) -> str:
        """Return the tier that is asked for; the API has no word for calendar mode."""
        return "reserved" if self.tier == CALENDAR else self.tier

    @property
    def node_tier(self) -> str | None:
        """Return the tier that the node shows; None where the API is free to show another."""
        if not self.says_tier or (self.queued and self.asked_tier not in ("on_demand", "spot")):
            return None
        return self.asked_tier

    @property
    def shape_workers(self) -> int | None:
        """Return the number of machines of a machine type; an accelerator type's may show less."""
        if not self.machine_type:
            return None
        return machine_types.workers_of(self.machine_type, self.topology) or 1

    @property
    def workers(self) -> int | None:
        """Return the number of machines, the least that its types have; None if it is unknown."""
        kinds = filter(None, map(parse_accelerator, self.types))
        return self.shape_workers or min((kind.workers for kind in kinds), default=None)

    @cached_property
    def candidates(self) -> tuple[Place, ...]:
        """Return its places: a better type anywhere before a lesser type in a better zone."""
        return tuple(
            Place(zone, kind, self.api or TPU) for kind in self.types for zone in self.zones
        )

    def rank(self, place: Place) -> int:
        """Return how far down the list of preferences a place is; the last for any other.

        One whose type the API does not show is the first of its zone.
        """
        for index, one in enumerate(self.candidates):
            kinds = ("", one.accelerator_type)
            if (one.zone, one.api) == (place.zone, place.api) and place.accelerator_type in kinds:
                return index
        return len(self.candidates)


@dataclass(frozen=True)
class Fleet:
    """Everything that is wanted of one project, and what the grant allows."""

    project: str
    slices: tuple[Slice, ...]
    grant: Grant
    owner: str = DEFAULT_OWNER
    ssh_keys: tuple[str, ...] = ()
    # Where machines find what they set themselves up with.
    self_setup: Mapping[str, Any] = field(default_factory=dict)
    prune: bool = False
    expire: bool = False
    only_expire: bool = False
    # Slices that are to go; when some are named, nothing else is done.
    teardown: frozenset[str] = frozenset()
    # Slices that must stop; the same holds.
    stop: frozenset[str] = frozenset()
    # Slices whose chips do not initialise, each with the node that has them, which is recreated.
    bad_chips: Mapping[str, str] = field(default_factory=dict)
    # Slices to look after; of the others nothing is created, changed or deleted. Empty: all.
    only: frozenset[str] = frozenset()
    # Whether a spent budget may put any slice to rest.
    holds: bool = False
    # In seconds.
    warn_before: float = 7.0 * 86400
    _specs: dict[tuple[str, Place], NodeSpec] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def from_params(cls, params: Mapping[str, Any], project: str) -> Fleet:
        """Return the fleet that the module's options describe; their rules hold already."""
        zone, marks = params.get("zone"), params.get("marks") or {}
        finish = [str(item["name"]) for item in params.get("finish") or ()]
        told = {str(item["name"]): item.get("how") for item in params.get("finish") or ()}
        teardown = frozenset(params.get("teardown") or ())
        grant = Grant.read(params.get("allocations"))
        disks = params.get("disks") or ()
        slices = tuple(
            Slice.read({**entry, "data_disks": disks_of(disks, name)}, zone, marks.get(name), grant)
            for entry in params["slices"]
            for name in [entry["name"]]
        )
        ends = {one.name: told.get(one.name) or one.on_finish for one in slices}
        fleet = cls(
            project=project,
            slices=slices,
            grant=grant,
            owner=params.get("owner") or DEFAULT_OWNER,
            ssh_keys=tuple(params.get("ssh_keys") or ()),
            self_setup=params.get("self_setup") or {},
            prune=bool(params.get("prune")),
            expire=bool(params.get("expire")),
            only_expire=params.get("scope") == "expiry",
            teardown=teardown | {name for name in finish if ends.get(name) == DELETE},
            stop=frozenset(name for name in finish if ends.get(name) == STOP),
            bad_chips={str(k): str(v) for k, v in (params.get("bad_chips") or {}).items()},
            only=frozenset(params.get("only") or ()),
            holds=(params.get("budget") or {}).get("on_exceed") in (STOP, DELETE),
            warn_before=parse_duration(params.get("warn_before") or "") or 0,
        )
        unknown = sorted(teardown - set(ends))
        if unknown:
            raise BadRequest(
                f"teardown names {', '.join(unknown)}, which the fleet file does not declare.",
                remedy="Name declared slices; what is not declared any more goes with prune: true.",
            )
        missing = sorted(fleet.only - set(ends))
        if missing:
            raise BadRequest(
                f"only names {', '.join(missing)}, which the fleet file does not declare.",
                remedy=f"Name declared slices: {', '.join(ends) or 'there is none'}.",
            )
        may = {one.name for one in slices if one.on_bad_chips == RECREATE}
        if not may.issuperset(fleet.bad_chips):
            raise BadRequest(
                f"bad_chips names {', '.join(sorted({*fleet.bad_chips} - may))}, which does not "
                "say on_bad_chips: recreate.",
                remedy="Say so in fleet_slices, or use tpu-fleet slice delete NAME.",
            )
        kept = sorted(name for name in finish if ends.get(name, KEEP) == KEEP)
        if kept:
            raise BadRequest(
                f"{', '.join(kept)} cannot be put to rest: no slice of that name says on_finish.",
                remedy="Set on_finish to stop or delete, or use tpu-fleet slice delete NAME.",
            )
        for one in slices:
            for place in one.candidates:
                fleet.node_spec(one, place)  # raises what no zone would accept
        return fleet

    def node_spec(self, want: Slice, place: Place) -> NodeSpec:
        """Return the node that a slice is at one of its places; it is made and checked once."""
        spec = self._specs.get((want.name, place))
        if spec is None:
            params = {
                **want.options,
                "name": want.name,
                "zone": place.zone,
                "accelerator_type": place.accelerator_type,
                **_shape(want, place),
                "tier": want.node_tier,
                "ssh_keys": self.ssh_keys,
                "owner": self.owner,
            }
            if want.self_setup:
                own = str(want.options.get("startup_script") or "")
                fleet = fleet_of(self.project, self.owner)
                params["startup_script"] = startup_script(self.self_setup, want.name, fleet, own)
            spec = self._specs[want.name, place] = NodeSpec.from_params(params, self.project)
        return spec

    def owns(self, labels: Mapping[str, str]) -> bool:
        """Say whether what carries these labels is this fleet's."""
        return labels.get(OWNER_LABEL) == self.owner


def _shape(want: Slice, place: Place) -> dict[str, Any]:
    """Return the machine type and topology that a slice has at a place; none for the TPU API."""
    if place.api != COMPUTE:
        return {"machine_type": None, "topology": None}
    kind, topology = want.machine_type, want.topology
    if not kind:
        kind, topology = machine_types.shape_of(place.accelerator_type, want.topology)
    return {"machine_type": kind or None, "topology": topology or None}


def apis_of(accelerator_type: str) -> frozenset[str]:
    """Return the APIs that have a type; an unknown one is left to the Cloud TPU API."""
    return machine_types.APIS.get(generation_of(accelerator_type) or "", frozenset({TPU}))


def api_of(
    entry: Mapping[str, Any],
    types: Sequence[str],
    zones: Sequence[str],
    tier: str,
    grant: Grant | None,
) -> str:
    """Return which API has a slice; an empty text where neither type, tier nor grant decide."""
    said = text_of(entry, "api")
    if said:
        return said
    machine_type = text_of(entry, "machine_type")
    # A machine type without TPUs leaves the API to the accelerator types beside it.
    if machine_type and (not types or machine_types.machine_type(machine_type)):
        return COMPUTE
    possible = frozenset(APIS).intersection(*map(apis_of, types)) if types else frozenset({TPU})
    if len(possible) != 1 and (tier in TPU_TIERS or any(entry.get(key) for key in TPU_KEYS)):
        return TPU
    if len(possible) != 1 and tier == CALENDAR:
        return COMPUTE
    if len(possible) != 1 and grant is not None:
        granted = frozenset().union(
            *(grant.apis(zone, kind, tier) for kind in types for zone in zones)
        )
        # What no entry is for leaves the grant, whichever API it is meant for.
        possible = granted or (possible if grant.unrestricted else frozenset({TPU}))
    return next(iter(possible)) if len(possible) == 1 else ""


def _one_or_list(entry: Mapping[str, Any], one: str, many: str) -> list[str]:
    single = text_of(entry, one)
    return [single] if single else [text for _index, text in texts_of(entry, many)]
