"""Decide which slices come, and which rest again, for the runs that wait in the queue. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import (
    ENDED,
    READY,
    UNASKED,
    unasked,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import Rest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import FleetQueue
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import ENDED_OR_STOPPED
from ansible_collections.tpu.fleet.plugins.module_utils._roles.here import names_on

from ..queue.demand import COMES, RESTS, STUCK, UP, Need, Offer
from .decide import SliceSeen


def occupied(runs: Iterable[Mapping[str, Any]], submitted: Collection[str]) -> set[str]:
    """Return the slices on which runs are active that were not submitted."""
    return {
        str(run["slice"])
        for run in runs
        if run["state"] not in ENDED_OR_STOPPED and run["run"] not in submitted
    }


def offers(
    seen: Iterable[SliceSeen],
    queue: FleetQueue,
    venvs: Iterable[Mapping[str, Any]],
    used: Collection[str],
) -> list[Offer]:
    """Return the slices that serve the queue, but for those that only a user brings."""
    declared = list(venvs)
    return [
        Offer(
            *(one.name, _types(one), names_on(declared, one.name), how, one.name in used),
            reserved=queue.reserved_for(one.name),
        )
        for one in seen
        if queue.is_served_by(one.name)
        for how in [_how(one)]
        if how is not None
    ]


def _how(one: SliceSeen) -> int | None:
    """Return how a slice is to the queue; None if no run can bring it."""
    if one.phase == READY or (one.phase in COMES and not one.rests):
        return UP
    if one.rests:
        held = one.rest is not None and one.rest.held
        return RESTS if one.want.on_queue and one.phase == ENDED and not held else None
    return STUCK if one.want.on_queue else None


def _types(one: SliceSeen) -> tuple[str, ...]:
    node = one.status.node
    return (node.accelerator_type,) if node and node.accelerator_type else one.want.types


def changes(
    seen: Sequence[SliceSeen], needed: Mapping[str, Need], may_wake: bool
) -> dict[str, Rest]:
    """Return what to record: slices that come for a run, and those that none needs any more.

    One that is there rests by its idle_after; here only one that was not created yet is given up.
    """
    found = {}
    for one in seen:
        rest = one.rest or unasked(one.want)
        if not one.want.on_queue or rest is None:
            continue
        if one.rests and one.name in needed and may_wake and one.phase == ENDED:
            why = needed[one.name].why
            found[one.name] = replace(rest, awake=True, by_queue=True, why=why)
        gone = not one.uid and one.phase not in (READY, "unknown")
        if rest.awake and rest.by_queue and gone and one.name not in needed:
            found[one.name] = replace(rest, awake=False, by_queue=False, why=UNASKED, done=True)
    return found
