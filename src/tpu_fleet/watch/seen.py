"""The state of the slices, from the planner's data and decisions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import (
    READY,
    STUCK,
    Plan,
    Status,
    World,
    identity_of,
    is_dead,
    resting,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet, Slice
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import (
    allocation_facts,
    holdings_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node

from ..notify.message import Message
from . import tell
from .decide import SliceSeen


def slices_of(fleet: Fleet, world: World, plan: Plan) -> list[SliceSeen]:
    """Return the state of every declared slice."""
    wants = {action.slice: str(action) for action in reversed(plan.actions) if action.slice}
    policies = {want.name: want for want in fleet.slices}
    dead: dict[str, tuple[str, str]] = {}
    for queued in world.queued:
        # Its nodes were deleted with it, and the API no longer lists them.
        if queued.state == "SUSPENDED" and any(fleet.owns(node.labels) for node in queued.nodes):
            for asked in queued.nodes:
                dead[asked.name] = ("SUSPENDED", f"{queued.zone}/{queued.name}")
    for node in world.nodes:
        if is_dead(node) and fleet.owns(node.labels):
            dead[node.name] = (node.state, node.uid or f"{node.zone}/{node.create_time}")
    return [
        _slice(status, policies[status.slice], dead.get(status.slice), wants, world)
        for status in plan.statuses
    ]


def _slice(
    status: Status, want: Slice, dead: tuple[str, str] | None, wants: dict[str, str], world: World
) -> SliceSeen:
    node = status.node
    there = node is not None and node.is_ready and status.phase in (READY, "differs")
    # A dead node beside a live one is only deleted.
    lost, lost_uid = dead if dead and node is None else ("", "")
    return SliceSeen(
        want,
        replace(status, phase=READY) if there else status,
        uid=identity_of(node) if node is not None else "",
        addresses=_addresses(node) if node is not None else (),
        lost=lost,
        lost_uid=lost_uid,
        rest=world.rest.get(want.name),
        rests=resting(want, world) is not None,
        wants=wants.get(status.slice, ""),
    )


def _addresses(node: Node) -> tuple[str, ...]:
    return tuple(f"{one.internal_ip} {one.external_ip or '-'}" for one in node.endpoints)


def other_actions(plan: Plan) -> list[str]:
    """Return the actions that belong to no declared slice (pruning)."""
    return [str(action) for action in plan.actions if not action.slice]


def stuck(plan: Plan) -> dict[str, str]:
    """Return the slices that need a person's action, except those with `on_preempt: keep`."""
    return {
        status.slice: status.text
        for status in plan.statuses
        if status.phase in STUCK and status.phase != "kept"
    }


def grant_messages(fleet: Fleet, world: World, plan: Plan, now: float) -> list[Message]:
    """Return the parts of the grant that end soon, and what is outside the grant."""
    horizon = world.now + timedelta(seconds=fleet.warn_before)
    near = {
        entry.field: entry.ends
        for entry in fleet.grant.allocations
        if entry.ends and not entry.is_over(world.now) and entry.ends <= horizon
    }
    messages = []
    # Counted only if it is reported, because there may be a thousand nodes.
    held = holdings_of(world.nodes, world.queued) if near else []
    for entry in allocation_facts(fleet.grant, held, world.now) if near else ():
        ends = near.get(entry["field"])
        if ends is not None:
            used = entry["used"] or "none"
            text = f"{entry['text']}, until {entry['last_day']}; {used} of them are in use."
            last = ends - world.now <= timedelta(days=1)
            messages.append(tell.grant_ending(entry, text, last, now))
    said = tuple(f"{field}: " for field in near)
    costs = [line for line in plan.warnings if not (said and line.startswith(said))]
    return [*messages, *(tell.outside_the_grant(line, now) for line in costs)]


def book_of(seen: Sequence[SliceSeen]) -> str:
    """Return the usable nodes and addresses, which the ssh configuration must match."""
    ready = [one for one in seen if one.phase == READY]
    return "; ".join(f"{one.name} {one.uid} {' '.join(one.addresses)}" for one in ready)
