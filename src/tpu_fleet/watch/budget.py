"""Decide what becomes of slices when the budget is spent. Pure.

Runs stop first, with the mark that keeps them stopped; then their slices are stopped or deleted. A
slice that costs nothing, because the grant pays for it, goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import READY
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import Rest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import (
    Over,
    Rate,
    unpriced_text,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.budget import DELETE, STOP
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.slices import why_never_stopped
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import ENDED_OR_STOPPED

from ..history.causes import OWN_DISK
from ..notify.message import Message
from .decide import Finish, SliceSeen
from .hosts import HostSeen
from .memory import Memory

BY = "budget"
"""The name in the mark that keeps a run stopped."""


@dataclass(frozen=True)
class Measures:
    """What a spent budget asks for."""

    stop: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The runs to stop, by slice."""
    finishes: Mapping[str, Finish] = field(default_factory=dict)
    """The slices to stop or delete, on which no run is active."""
    rests: Mapping[str, Rest] = field(default_factory=dict)
    """The slices without a node that are not to be created."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """The slices that go on to cost, each with why."""


def costing(seen: Iterable[SliceSeen], rates: Mapping[str, Rate | None]) -> set[str]:
    """Return the declared slices that cost now; those of an unknown price are not among them."""
    names = {name.split("/")[1] for name, rate in rates.items() if rate is not None and rate.usd}
    return {one.name for one in seen if one.name in names}


def measures(
    over: Over,
    on_exceed: str,
    seen: Sequence[SliceSeen],
    cost: set[str],
    memory: Memory,
    looks: Mapping[str, Mapping[str, HostSeen]],
    would_cost: bool,
    now: float,
) -> Measures:
    """Return the measures; `looks` are answers of workers, as far as they were asked.

    `would_cost` says whether a slice that is created now would cost.
    """
    stop: dict[str, tuple[str, ...]] = {}
    finishes: dict[str, Finish] = {}
    rests: dict[str, Rest] = {}
    kept: dict[str, str] = {}
    for one in seen:
        if not one.uid and would_cost and not one.rests and one.phase != "unknown":
            rests[one.name] = _rest(one, over)
        # Also one that rests: a stop or deletion that was cut off is begun again.
        if one.name not in cost or one.phase != READY:
            continue
        hosts = looks.get(one.name, {})
        answers = [host for host in hosts.values() if host.reached]
        if not hosts or len(answers) < max(1, len(one.addresses)):
            if hosts:
                kept[one.name] = "not all of its workers answer, so its runs are not known"
            continue
        active = _active(answers)
        if active:
            stop[one.name] = active
        elif memory.slice(one.name).rest_at <= now:
            how, why = _how(one, on_exceed, _own_disk(memory, one.name, answers))
            kept |= {one.name: why} if why else {}
            if how:
                finishes[one.name] = Finish(how, over.why, f"{BY} {over.key}", held=True)
    return Measures(stop, finishes, rests, kept)


def _rest(one: SliceSeen, over: Over) -> Rest:
    return Rest(DELETE, one.want.mark, ends=f"{BY} {over.key}", why=over.why, done=True, held=True)


def _active(answers: Iterable[HostSeen]) -> tuple[str, ...]:
    """Return the runs that are to stop: all but those that have ended, or stopped."""
    found = {run.run for host in answers for run in host.runs if run.state not in ENDED_OR_STOPPED}
    return tuple(sorted(found))


def _own_disk(memory: Memory, name: str, answers: Iterable[HostSeen]) -> list[str]:
    """Return the runs with checkpoints on the slice's own disk."""
    places = {run.run: run.checkpoints_on for host in answers for run in host.runs}
    places |= {run: on for run, on in memory.slice(name).checkpoints.items() if not places.get(run)}
    return sorted(run for run, on in places.items() if on == OWN_DISK)


def _how(one: SliceSeen, on_exceed: str, own_disk: Sequence[str]) -> tuple[str, str]:
    """Return how a slice is put to rest, or why it stays."""
    obstacle = why_never_stopped(one.want)
    if on_exceed == DELETE and not own_disk:
        return DELETE, ""
    if not obstacle:
        return STOP, ""
    if on_exceed == DELETE:
        runs = ", ".join(own_disk)
        return "", f"checkpoints of {runs} are on its own disk, and the API {obstacle}"
    return "", f"the API {obstacle}"


def spent(over: Over, on_exceed: str, slices: Iterable[str], now: float) -> Message:
    """Return the message that a budget is spent."""
    what = {
        STOP: "The watcher stops the runs of the slices that cost, and then these slices",
        DELETE: "The watcher stops the runs of the slices that cost, and deletes these slices",
    }.get(on_exceed, "Nothing is stopped, because on_exceed is warn")
    names = ", ".join(sorted(slices)) or "none"
    return Message(
        event="budget",
        title=f"The budget of ${over.limit:,.2f} a {over.period} is spent",
        text=(
            f"By list prices, ${over.spent:,.2f} were spent this {over.period}. Slices that cost: "
            f"{names}. {what}."
        ),
        at=now,
        key=f"budget:{over.key}:{over.limit:g}",
    )


def uncounted(unpriced: Mapping[str, str], now: float) -> Message:
    """Return the message that slices count nothing; one for each new set of unknown prices."""
    text = unpriced_text(unpriced)
    return Message(
        event="budget",
        title="The budget does not count all slices",
        text=f"{text[:1].upper()}{text[1:]}.",
        at=now,
        key=f"budget-unpriced:{'; '.join(sorted(set(unpriced.values())))}",
    )


def goes_on(name: str, why: str, over: Over, now: float) -> Message:
    """Return the message that a slice costs although the budget is spent."""
    return Message(
        event="budget",
        title=f"{name} still costs money",
        text=(
            f"{over.why[:1].upper()}{over.why[1:]}, and {name} is kept: {why}. Its runs are "
            f"stopped. Save what you need, then: tpu-fleet slice delete {name}"
        ),
        at=now,
        slice=name,
        key=f"budget-kept:{name}:{over.key}",
    )
