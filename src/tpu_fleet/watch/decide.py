"""Decide what to do for the slices, from their state and the memory. Pure.

Only the planner's actions create a slice. A slice is set up when its node is new, and when it or
one of its workers comes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import READY, Status
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import Rest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Slice

from ..notify.message import Message
from ..show.times import long
from . import tell
from .memory import Memory, SliceMemory
from .trouble import pause

INTERRUPTED = "interrupted"
"""The kind of outcome of a playbook that the watcher ended."""
AGAIN = 60.0
"""Seconds until a failed job is repeated; doubled each time, up to MOST."""
MOST = 3600.0
TOLD = "a slice that it trains with has changed"
NOT_YET = 15.0
"""The same when nothing failed, because workers of a new node take a while to appear."""


@dataclass(frozen=True)
class SliceSeen:
    """The state of a declared slice according to the planner, and the requests that it needs."""

    want: Slice
    status: Status
    """Its phase is ready if the node is usable, even if it differs from its declaration."""
    uid: str = ""
    addresses: tuple[str, ...] = ()
    lost: str = ""
    """The state in which its node or its queued resource was lost."""
    lost_uid: str = ""
    rest: Rest | None = None
    """The record of its rest, now or earlier."""
    rests: bool = False
    """Whether it is not wanted now, because its runs are over."""
    wants: str = ""
    """The requests to the API that it needs, in the planner's words."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.status.slice

    @property
    def phase(self) -> str:
        """Its phase, such as coming or ready."""
        return self.status.phase


@dataclass(frozen=True)
class Finish:
    """The finding that a slice is no longer needed."""

    how: str
    why: str
    ends: str = ""
    held: bool = False
    """Whether a spent budget asks for it, whatever its on_finish says."""
    on_queue: bool = False
    """Whether submitted runs bring it again."""


@dataclass(frozen=True)
class Job:
    """A playbook to run."""

    slices: tuple[str, ...]
    why: tuple[str, ...]
    asks: bool = False
    """Whether it requests slices and waits for them, or only sets up existing ones."""
    api: bool = True
    """Whether it has a part on the controller, which only one playbook at a time may run."""
    finish: Finish | None = None
    """Set if it stops or deletes its one slice."""
    bad_chips: str = ""
    """The node of its one slice, if it is recreated because its chips do not initialise."""

    @property
    def takes_away(self) -> bool:
        """Whether it takes its one slice away, and sets nothing up."""
        return self.finish is not None or bool(self.bad_chips)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job."""

    job: Job
    code: int
    hosts: Mapping[str, bool] = field(default_factory=dict)
    """The workers that it worked on, and whether it succeeded there."""
    failures: tuple[tuple[str, str], ...] = ()
    """The failures, each with its host, which may be empty."""
    kind: str = ""
    """The kind of error with which the part on the controller ended."""
    log: tuple[str, ...] = ()
    waits: str = ""
    """What GitHub could not be asked for, and why."""

    def says(self, slice_name: str = "") -> str:
        """Return the failures in a few lines: for all, or for one slice."""
        lines = [
            text
            for host, text in self.failures
            if not slice_name or host in ("", "localhost") or is_of(host, slice_name)
        ]
        return "\n".join(lines[-3:])[:2000]


def notice(memory: Memory, seen: Sequence[SliceSeen], now: float) -> tuple[Memory, list[Message]]:
    """Record the state of the slices; return what happened to them since the last poll."""
    messages: list[Message] = []
    slices: dict[str, SliceMemory] = {}
    for one in seen:
        known = memory.slice(one.name)
        slices[one.name], told = _notice(known, one, memory.known, now)
        messages += told
    return replace(memory, slices=slices, known=True), messages


def _notice(
    known: SliceMemory, seen: SliceSeen, any_past: bool, now: float
) -> tuple[SliceMemory, list[Message]]:
    messages = []
    is_gone = not seen.lost and _is_gone(known, seen)
    if seen.lost or is_gone:
        state, uid = ("GONE", known.uid) if is_gone else (seen.lost, seen.lost_uid)
        # What the watcher recreates is not lost.
        is_news = known.lost_as != f"{state} {uid}" if is_gone else uid != _lost_uid(known)
        if is_news:
            how = "The node no longer exists" if is_gone else f"It is {state}"
            what, policy = f"{how}: {seen.status.text}", seen.want.on_preempt
            messages.append(
                tell.preempted(seen.name, state, uid, what, policy, now, known.checkpoints)
            )
            known = replace(known, lost_as=f"{state} {uid}", lost_at=now)
        known = replace(known, due=(), boots={}, away={}, checkpoints={})
    if seen.phase == READY and seen.uid:
        known = _ready(known, seen, any_past)
    elif seen.rests:
        known = replace(known, due=(), boots={}, away={})
    elif known.phase == READY and seen.phase != "unknown" and not known.lost_at:
        known = replace(known, lost_at=now)
    # Nothing is known of a zone that does not answer, so earlier knowledge stays.
    phase = known.phase if seen.phase == "unknown" else seen.phase
    # Usually nothing is new, and there may be a thousand slices.
    return known if phase == known.phase else replace(known, phase=phase), messages


def _lost_uid(known: SliceMemory) -> str:
    return known.lost_as.partition(" ")[2]


def _is_gone(known: SliceMemory, seen: SliceSeen) -> bool:
    """Return whether a node disappeared without being deleted by the fleet."""
    unseen = seen.uid or seen.phase == "unknown"
    return bool(known.uid) and known.phase == READY and not unseen and not seen.rests


def _ready(known: SliceMemory, seen: SliceSeen, any_past: bool) -> SliceMemory:
    if seen.uid == known.uid:
        if known.phase == READY or not known.phase:
            return known
        return replace(known, due=_with(known.due, f"it was {known.phase}"))
    fresh = replace(
        known,
        uid=seen.uid,
        boots={},
        away={},
        failures=0,
        next_at=0.0,
        resumed=(),
        healed="",
        mark="",
        idle_since=0.0,
        rest_failures=0,
        rest_at=0.0,
    )
    # A slice that was set up before the first watcher is not set up again, if its workers say so.
    if not known.uid and not any_past:
        return fresh
    return replace(fresh, due=("it is a new node",))


def jobs(
    memory: Memory,
    seen: Sequence[SliceSeen],
    *,
    busy: Iterable[str],
    others: Sequence[str] = (),
    together: Mapping[str, Set[str]] | None = None,
    gate_free: bool,
    slots: int,
    now: float,
) -> list[Job]:
    """Return the playbooks to start now, the most urgent first.

    Others are actions of the planner that belong to no declared slice. Slices that train together
    are set up together, because they need each other's addresses.
    """
    taken, friends = set(busy), together or {}
    found: list[Job] = []
    due = [
        one.name
        for one in seen
        if one.phase == READY
        and memory.slice(one.name).due
        and memory.slice(one.name).next_at <= now
        and one.name not in taken
        and not taken & friends.get(one.name, set())
    ]
    if due:
        why = tuple(f"{name}: {', '.join(memory.slice(name).due)}" for name in due)
        told = {friend for name in due for friend in friends.get(name, ())} - {*due, *taken}
        too = [one.name for one in seen if one.phase == READY and one.name in told]
        found.append(Job((*due, *too), why, api=gate_free))
    wanted = [one for one in seen if one.wants and one.name not in taken]
    if (wanted or others) and memory.next_at <= now and gate_free and not due:
        why = (*(one.wants for one in wanted), *others)
        found.append(Job(tuple(one.name for one in wanted), why, asks=True))
    return found[: max(0, slots)]


def done(
    memory: Memory,
    seen: Sequence[SliceSeen],
    outcome: Outcome,
    now: float,
    together: Mapping[str, Set[str]] | None = None,
) -> tuple[Memory, Mapping[str, str]]:
    """Record the outcome of a job; return its failures by the key of their trouble.

    `seen` is the state of the slices after it.
    """
    troubles: dict[str, str] = {}
    if outcome.kind == INTERRUPTED:
        return memory, troubles
    job = outcome.job
    if job.asks or (job.api and outcome.kind):
        # No capacity is no trouble: the planner reports it and requests again.
        waits = outcome.kind == "timeout" or not outcome.kind
        failures = 0 if waits else memory.failures + 1
        rest = NOT_YET if waits else pause(failures, AGAIN, MOST / 4)
        memory = replace(memory, failures=failures, next_at=now + rest)
        if not waits:
            troubles["provision"] = outcome.says()
    for one in seen:
        known = memory.slice(one.name)
        hosts = [well for host, well in outcome.hosts.items() if is_of(host, one.name)]
        if one.name in job.slices and not known.due and not job.asks:
            # It only needed the new addresses of another slice.
            known = known if all(hosts) and hosts else replace(known, due=(TOLD,))
        if one.name not in job.slices or not known.due:
            continue
        if all(hosts) and len(hosts) >= max(1, len(one.addresses)):
            memory = memory.with_slice(one.name, _set_up(one.name, known, now))
            # Slices that train do not wait together with slices that wait for capacity.
            friends = (together or {}).get(one.name, set()) if job.asks else set()
            for friend in sorted(friends - set(job.slices)):
                before = memory.slice(friend)
                memory = memory.with_slice(friend, replace(before, due=_with(before.due, TOLD)))
            continue
        failures = known.failures + 1
        first, most = (AGAIN, MOST) if hosts else (NOT_YET, 10 * AGAIN)
        again = now + pause(failures, first, most)
        memory = memory.with_slice(one.name, replace(known, failures=failures, next_at=again))
        missing = f"{len(hosts)} of its {len(one.addresses)} workers took part"
        troubles[f"setup:{one.name}"] = outcome.says(one.name) or missing
    return memory, troubles


def is_of(host: str, slice_name: str) -> bool:
    """Return whether a host is a worker of a slice, by its name."""
    return re.fullmatch(rf"{re.escape(slice_name)}(-w\d+)?(\.[\w-]+)?", host) is not None


def _set_up(name: str, known: SliceMemory, now: float) -> SliceMemory:
    healed = f"{name} is set up\n"
    if known.lost_at:
        healed = f"{name} is back\nIt was lost for {long(now - known.lost_at)}. "
    healed += f"Set up because {', '.join(known.due)}."
    return replace(
        known, due=(), failures=0, next_at=0.0, lost_as="", lost_at=0.0, healed=healed, phase=READY
    )


def _with(due: tuple[str, ...], reason: str) -> tuple[str, ...]:
    return due if reason in due else (*due, reason)
