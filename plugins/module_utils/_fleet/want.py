# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fleet file wants of the API: slices, each with the places where it may be. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._core.errors import BadRequest
from .._core.ownership import DEFAULT_OWNER, OWNER_LABEL
from .._fleet_file.fleet import check_fleet
from .._fleet_file.grant import UNRESTRICTED, Grant, parse_allocations
from .._fleet_file.self_setup import startup_script
from .._tpu.node_spec import NodeSpec
from .._tpu.queued_spec import seconds_of
from .resting import DELETE, KEEP, STOP

# What only a queued resource can ask for; the node that comes of it shows other words.
QUEUE_TIERS = frozenset({"guaranteed", "best_effort", "flex_start"})
# The keys of a slice that describe the node itself, as the module tpu_vm names them.
_NODE_KEYS = (
    "runtime_version",
    "network",
    "subnetwork",
    "external_ips",
    "service_account",
    "description",
    "labels",
    "metadata",
    "startup_script",
    "tags",
    "boot_disk_size_gb",
)


@dataclass(frozen=True)
class Candidate:
    """One place where a slice may be."""

    zone: str
    accelerator_type: str

    def __str__(self) -> str:
        return f"{self.accelerator_type} in {self.zone}"


@dataclass(frozen=True)
class SliceWant:
    """One slice of the fleet file."""

    name: str
    candidates: tuple[Candidate, ...]
    tier: str = "on_demand"
    queued: bool = False
    race: bool = False
    valid_for: float | None = None
    reservation: str | None = None
    max_run_duration: str | None = None
    on_preempt: str = "recreate"
    on_grant_end: str = "keep"
    on_finish: str = KEEP
    idle_minutes: int = 0
    # Of its runs, where it may be put to rest for them.
    mark: str = ""
    recreate: bool = False
    adopt: bool = False
    # None where the file says nothing: then nothing is compared.
    node_tier: str | None = None
    node_params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def zones(self) -> tuple[str, ...]:
        """Return the zones of its places, each once."""
        return tuple(dict.fromkeys(place.zone for place in self.candidates))

    def rank(self, zone: str, accelerator_type: str) -> int:
        """Return how far down the list of preferences a place is; the last for any other."""
        for index, place in enumerate(self.candidates):
            if place.zone == zone and accelerator_type in ("", place.accelerator_type):
                return index
        return len(self.candidates)


@dataclass(frozen=True)
class Fleet:
    """Everything that is wanted of one project, and what the grant allows."""

    project: str
    slices: tuple[SliceWant, ...]
    grant: Grant
    owner: str = DEFAULT_OWNER
    ssh_keys: tuple[str, ...] = ()
    prune: bool = False
    expire: bool = False
    only_expire: bool = False
    # Slices that are to go; when some are named, nothing else is done.
    teardown: frozenset[str] = frozenset()
    # Slices that are to be stopped; the same holds.
    stop: frozenset[str] = frozenset()
    warn_days: float = 7.0
    _specs: dict[tuple[str, Candidate], NodeSpec] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def from_params(cls, params: Mapping[str, Any], project: str) -> Fleet:
        """Return the fleet that the module's options describe; raise all that is wrong with it."""
        entries = [_said(entry) for entry in params.get("slices") or []]
        zone, allocations = params.get("zone"), params.get("allocations")
        published = params.get("self_setup") or {}
        teardown = frozenset(params.get("teardown") or ())
        if teardown and allocations is None:
            allocations = UNRESTRICTED  # who takes down needs no grant
        problems = check_fleet(
            {
                "fleet_slices": entries,
                **({"fleet_zone": zone} if zone else {}),
                **({"fleet_self_setup": published} if published else {}),
                **({} if allocations is None else {"fleet_allocations": allocations}),
            }
        )
        if problems:
            raise BadRequest("; ".join(str(problem) for problem in problems))
        marks = params.get("marks") or {}
        wants = tuple(
            _slice(entry, zone, published, str(marks.get(entry["name"]) or "")) for entry in entries
        )
        policies = {want.name: want.on_finish for want in wants}
        finish = [str(item["name"]) for item in params.get("finish") or ()]
        fleet = cls(
            project=project,
            slices=wants,
            grant=parse_allocations(allocations),
            owner=params.get("owner") or DEFAULT_OWNER,
            ssh_keys=tuple(params.get("ssh_keys") or ()),
            prune=bool(params.get("prune")),
            expire=bool(params.get("expire")),
            only_expire=params.get("scope") == "expiry",
            teardown=teardown | {name for name in finish if policies.get(name) == DELETE},
            stop=frozenset(name for name in finish if policies.get(name) == STOP),
            warn_days=float(params.get("warn_days") or 0),
        )
        unknown = sorted(teardown - {want.name for want in fleet.slices})
        if unknown:
            raise BadRequest(
                f"teardown names {', '.join(unknown)}, which the fleet file does not declare.",
                remedy="Name declared slices; what is not declared any more goes with prune: true.",
            )
        kept = sorted(name for name in finish if policies.get(name, KEEP) == KEEP)
        if kept:
            raise BadRequest(
                f"{', '.join(kept)} cannot be put to rest: no slice of that name says on_finish.",
                remedy="Set on_finish to stop or delete, or use tpu.fleet.teardown.",
            )
        for want in fleet.slices:
            for place in want.candidates:
                fleet.node_spec(want, place)  # raises what no zone would accept
        return fleet

    def node_spec(self, want: SliceWant, place: Candidate) -> NodeSpec:
        """Return the node that a slice is at one of its places; it is made and checked once."""
        spec = self._specs.get((want.name, place))
        if spec is None:
            params = {
                **want.node_params,
                "name": want.name,
                "zone": place.zone,
                "accelerator_type": place.accelerator_type,
                "tier": want.node_tier,
                "ssh_keys": self.ssh_keys,
                "owner": self.owner,
            }
            spec = self._specs[want.name, place] = NodeSpec.from_params(params, self.project)
        return spec

    def owns(self, labels: Mapping[str, str]) -> bool:
        """Say whether what carries these labels is this fleet's."""
        return labels.get(OWNER_LABEL) == self.owner


def _said(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what an optional key of the module left empty."""
    return {key: value for key, value in entry.items() if value is not None}


def _slice(
    entry: Mapping[str, Any], default_zone: str | None, published: Mapping[str, Any], mark: str
) -> SliceWant:
    types = entry.get("accelerator_types") or [entry["accelerator_type"]]
    zones = entry.get("zones") or [entry.get("zone") or default_zone]
    tier = entry.get("tier") or "on_demand"
    race = entry.get("strategy") == "race"
    reservation = entry.get("reservation")
    queued = bool(
        entry.get("queued")
        or race
        or reservation
        or entry.get("max_run_duration")
        or tier in QUEUE_TIERS
    )
    if queued and tier == "preemptible":
        tier = "spot"  # the queue knows only the newer kind
    own = {key: entry[key] for key in _NODE_KEYS if key in entry}
    if entry.get("self_setup"):
        script = startup_script(published, entry["name"], entry.get("startup_script") or "")
        own["startup_script"] = script
    disks = [{"mode": "read_write", **_said(disk)} for disk in entry.get("data_disks") or []]
    return SliceWant(
        name=entry["name"],
        # A better type anywhere comes before a lesser type in a better zone.
        candidates=tuple(Candidate(zone, kind) for kind in types for zone in zones),
        tier=tier,
        queued=queued,
        race=race,
        valid_for=seconds_of("valid_for", entry["valid_for"]) if "valid_for" in entry else None,
        reservation=reservation,
        max_run_duration=entry.get("max_run_duration"),
        on_preempt=entry.get("on_preempt") or "recreate",
        on_grant_end=entry.get("on_grant_end") or "keep",
        on_finish=entry.get("on_finish") or KEEP,
        idle_minutes=int(entry.get("idle_minutes") or 0),
        mark=mark,
        recreate=bool(entry.get("recreate")),
        adopt=bool(entry.get("adopt")),
        node_tier=_node_tier(entry, tier, queued),
        node_params={**own, "data_disks": disks},
    )


def _node_tier(entry: Mapping[str, Any], tier: str, queued: bool) -> str | None:
    """Return the tier that the node shows; None where the API is free to show another."""
    if "tier" not in entry or (queued and tier not in ("on_demand", "spot")):
        return None
    return tier
