# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The terms of a fleet's plan, and their texts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .._compute.groups import UNDECIDED
from .._core.errors import from_status, row_of
from .._fleet_file.declared import KEEP, Slice
from .._fleet_file.grant import Place
from .._tpu.model import COMPUTE, LOST_STATES, TPU, Node
from .._tpu.node_plan import Difference
from .._tpu.queued_resources import QueuedResource
from .resting import Rest

READY, ENDED = "ready", "ended"
# A slice in one of these phases stays in it until a user acts.
STUCK = frozenset({"refused", "differs", "kept"})
SETTLED = STUCK | {READY, ENDED}
# Final states of a node.
DEAD_STATES = LOST_STATES | {"UNKNOWN"}
# In any other state the API takes no changes. An unknown state is waited for, too.
STEADY_STATES = frozenset({"READY", "STOPPED"})
# States of a queued resource that has no node yet.
UNGRANTED = frozenset({"CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES"})
# Why a slice rests that comes for submitted runs (on_queue).
UNASKED = "no submitted run needs it"
BY_RUNS = "a submitted run or tpu-fleet slice wake brings it"
PREEMPTIBLE = frozenset({"spot", "preemptible"})


@dataclass(frozen=True)
class World:
    """What the API shows at one moment."""

    nodes: tuple[Node, ...]
    queued: tuple[QueuedResource, ...]
    unreachable: frozenset[str]
    now: datetime
    # Slices that rest because their runs have ended.
    rest: Mapping[str, Rest] = field(default_factory=dict)
    # What this controller has just created.
    made: frozenset[Thing] = frozenset()


@dataclass(frozen=True)
class Try:
    """What is known about requesting one slice at one place."""

    attempts: int = 0
    since: datetime | None = None
    short: str = ""
    message: str = ""
    never: bool = False
    # Set if the last refusal was for a rate or time limit, which is no reason to try elsewhere.
    stay: bool = False
    next_at: datetime | None = None
    # Set while a request may have created something that the API does not show yet.
    asked_at: datetime | None = None
    operation: str = ""


Tries = Mapping[tuple[str, Place], Try]
# What the APIs have: kind (node or queued), API, zone and name.
Thing = tuple[str, str, str, str]


@dataclass(frozen=True)
class Action:
    """One call that changes something, and the reason for it."""

    # create_node, create_queued, delete_node, delete_queued, patch_node, start_node, stop_node
    kind: str
    slice: str
    zone: str
    name: str
    reason: str
    place: Place | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    detail: str = ""
    # The error of the failed queued resource that this action deletes.
    failure: Mapping[str, Any] = field(default_factory=dict)
    api: str = TPU
    # The id of what it is done to: on Compute Engine several things in a zone may have one name.
    uid: str | None = None

    @property
    def verb(self) -> str:
        """Return what is done: create, delete, patch, start or stop."""
        return self.kind.partition("_")[0]

    @property
    def thing(self) -> Thing:
        """Return what it is done to."""
        return self.kind.partition("_")[2], self.api, self.zone, self.name

    @property
    def what(self) -> str:
        """Return the same in words."""
        return f"{kind_in_words(self.thing)} {self.name}"

    def __str__(self) -> str:
        sign = {"create": "+", "delete": "-"}.get(self.verb, "~")
        detail = f" ({self.detail})" if self.detail else ""
        return f"{sign} {self.verb} {self.what}{detail} in {self.zone}: {self.reason}"


@dataclass(frozen=True)
class Status:
    """The state of one slice, in words."""

    slice: str
    phase: str
    text: str
    node: Node | None = None
    next_at: datetime | None = None

    @property
    def settled(self) -> bool:
        """Return whether waiting can change nothing."""
        return self.phase in SETTLED

    @property
    def fine(self) -> bool:
        """Return whether the slice is there, or is not meant to be."""
        return self.phase in (READY, ENDED)

    def __str__(self) -> str:
        return f"{self.slice}: {self.phase}: {self.text}"


@dataclass(frozen=True)
class Orphan:
    """A resource of this fleet that the fleet file does not declare."""

    kind: str
    zone: str
    name: str
    state: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.state}) in {self.zone}"


@dataclass(frozen=True)
class Plan:
    """The actions in order, and the status of each slice before them."""

    actions: tuple[Action, ...]
    statuses: tuple[Status, ...]
    orphans: tuple[Orphan, ...]
    warnings: tuple[str, ...]
    prunes: bool = False

    @property
    def done(self) -> bool:
        """Return whether neither acting nor waiting would change anything."""
        orphans_left = self.prunes and bool(self.orphans)
        return not (self.actions or orphans_left) and all(s.settled for s in self.statuses)

    @property
    def refusals(self) -> tuple[Status, ...]:
        """Return the slices that a user has to correct."""
        return tuple(status for status in self.statuses if status.phase in STUCK)

    @property
    def next_at(self) -> datetime | None:
        """Return when the next request is due, if one is waited for."""
        return min((s.next_at for s in self.statuses if s.next_at), default=None)


@dataclass
class SliceView:
    """The existing resources of one slice."""

    want: Slice
    live: list[Node] = field(default_factory=list)
    dead: list[Node] = field(default_factory=list)
    queued: list[QueuedResource] = field(default_factory=list)
    ended: list[QueuedResource] = field(default_factory=list)
    going: list[str] = field(default_factory=list)
    # The places of the resources that are being deleted.
    left: list[Place] = field(default_factory=list)
    # Zones in which the name belongs to another fleet, with a text that says so.
    taken: dict[str, str] = field(default_factory=dict)


def is_dead(node: Node) -> bool:
    """Return whether a node will never be usable again.

    A stopped spot node cannot be started, and neither can a group of machines on Compute Engine.
    """
    is_group = node.api == COMPUTE and len(node.endpoints) > 1
    is_final = node.state == "STOPPED" and (node.tier in PREEMPTIBLE or is_group)
    return node.state in DEAD_STATES or is_final


def is_on_its_way_out(node: Node) -> bool:
    """Return whether a deletion may be under way, which would refuse another one.

    An instance that is being deleted shows the same state as one that is being stopped.
    """
    return node.state == "DELETING" or (node.api == COMPUTE and node.state == "STOPPING")


def is_leftover(node: Node) -> bool:
    """Return whether only a template or a policy is left of a slice on Compute Engine."""
    return node.api == COMPUTE and not node.accelerator_type


def resting(want: Slice, world: World) -> Rest | None:
    """Return why a declared slice is not wanted now; None if it is wanted.

    Its runs have ended, a budget is spent, or no submitted run needs it.
    """
    rest = world.rest.get(want.name) or unasked(want)
    if rest is None or rest.awake:
        return None
    if rest.held or want.on_queue:
        return rest
    return None if want.on_finish == KEEP or rest.mark != want.mark else rest


def unasked(want: Slice) -> Rest | None:
    """Return the rest of a slice that comes only for submitted runs, as long as none needed it."""
    return Rest(want.on_finish, want.mark, why=UNASKED) if want.on_queue else None


def rest_text(rest: Rest, on_queue: bool = False) -> str:
    """Return why a slice rests, and what wakes it."""
    how = "stopped" if rest.how == "stop" else "deleted"
    if rest.held:
        return f"{how}, because {rest.why}; tpu-fleet slice wake brings it back"
    if on_queue:
        return f"it rests, because {rest.why}; {BY_RUNS}"
    return f"{how}, because {rest.why}; a changed run or tpu-fleet slice wake brings it back"


def tier_of(want: Slice, node: Node) -> str:
    """Return the tier that a node counts under; queue-only tiers show as another one."""
    return want.tier if want.queued and node.queued_resource else node.tier


def undecided(want: Slice, best: Node) -> bool:
    """Return whether a race goes on; a winner that restarts or is repaired has still won."""
    return want.race and best.state == "CREATING"


def state_of(node: Node) -> str:
    """Return a node's state, with its tier where the tier makes the state final."""
    return f"{node.state} ({node.tier})" if node.state == "STOPPED" else node.state


def makes(queued: QueuedResource, node: Node) -> bool:
    """Return whether a queued resource created a node."""
    return queued.zone == node.zone and queued.name == node.queued_resource


def place_of(there: Node | QueuedResource) -> Place:
    """Return where a node is, or is asked for."""
    kind = there.accelerator_type if isinstance(there, Node) else type_of(there)
    return Place(there.zone, kind, there.api)


def identity_of(node: Node) -> str:
    """Return what distinguishes a node from a later one of its name."""
    return node.uid or f"{node.zone}/{node.name}/{node.create_time}"


def thing_of(there: Node | QueuedResource) -> Thing:
    """Return what it is to the API: on Compute Engine a request is the slice itself."""
    is_request = isinstance(there, QueuedResource) and there.api == TPU
    return "queued" if is_request else "node", there.api, there.zone, there.name


def kind_in_words(thing: Thing) -> str:
    """Return what kind of thing it is, as each API calls it."""
    if thing[1] == COMPUTE:
        return "Compute Engine slice"
    return "queued resource" if thing[0] == "queued" else "node"


def named(there: Node | QueuedResource) -> str:
    """Return kind, name and zone of what is there."""
    return f"{kind_in_words(thing_of(there))} {there.name} in {there.zone}"


def type_of(queued: QueuedResource) -> str:
    """Return the accelerator type that a queued resource asks for."""
    return queued.nodes[0].accelerator_type if queued.nodes else ""


def node_in_words(node: Node) -> str:
    """Return a node's state and zone as text."""
    health = "" if node.health in ("HEALTHY", "HEALTH_UNSPECIFIED") else f", {node.health}"
    return f"{node.state}{health}: {shape_in_words(node)} in {node.zone}"


def shape_in_words(node: Node) -> str:
    """Return a node's type; on Compute Engine with its machines, as it may be one or several."""
    if not (node.machine_type and node.endpoints):
        return node.accelerator_type
    count = len(node.endpoints)
    return f"{node.accelerator_type} ({f'{count} ' if count > 1 else ''}{node.machine_type})"


def queued_status(want: Slice, queued: list[QueuedResource], now: datetime) -> Status:
    """Return the status of a slice whose requests are queued."""
    texts = []
    for item in sorted(queued, key=lambda item: want.rank(place_of(item))):
        since = f" since {clock(item.created)}" if item.created else ""
        until = f", until {item.valid_until}" if item.valid_until else ""
        texts.append(f"{item.state} in {item.zone}{since}{until}{_cause(item)}")
    return Status(want.name, "queued", "; ".join(texts) or "on its way")


def _cause(queued: QueuedResource) -> str:
    """Return why a request on Compute Engine waits, as far as the API shows."""
    if queued.api != COMPUTE or queued.is_dead:
        return ""
    if queued.error:
        return f" ({row_of(from_status(queued.error)).short})"
    return f" ({UNDECIDED})"


def refused_text(place: Place, known: Try) -> str:
    """Return a place's refusal, with its beginning and the number of attempts."""
    return f"{known.short} for {place} since {clock(known.since)}, attempt {known.attempts}"


def waiting_text(place: Place, known: Try) -> str:
    """Return a place's refusal, and when it is asked again."""
    return f"{refused_text(place, known)}, next at {clock(known.next_at)}"


def clock(moment: datetime | None) -> str:
    """Return the time of day as text."""
    return moment.strftime("%H:%M:%S") if moment else "-"
