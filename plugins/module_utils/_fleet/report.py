# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show plans and results of a fleet to users and to playbooks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._tpu.node_apply import only_changed
from .._tpu.workers import node_facts
from .plan_terms import Action, Plan, Status


def plan_lines(plan: Plan) -> list[str]:
    """Return what would be done, and the status of all other slices."""
    lines = [str(action) for action in plan.actions]
    acted = {action.slice for action in plan.actions}
    lines += [f"! {status}" for status in plan.refusals]
    settled = {status.slice for status in plan.refusals}
    lines += [f"= {s}" for s in plan.statuses if s.slice not in acted | settled]
    return lines


def orphan_warning(plan: Plan) -> str | None:
    """Return a warning about undeclared resources that are kept, or None."""
    if plan.prunes or not plan.orphans:
        return None
    return (
        f"not declared, and left as it is: {', '.join(map(str, plan.orphans))}. "
        "Declare it again, or delete it with prune: true (-e fleet_prune=true)"
    )


def diff_of(actions: Iterable[Action]) -> dict[str, Any]:
    """Return the changes, field by field, as --diff shows them."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for action in actions:
        verb, what = action.verb, f"{action.what} ({action.zone})"
        if verb == "create":
            after[what] = action.body
        elif verb == "delete":
            before[what] = action.detail
            after.pop(what, None)
        elif verb == "start":
            before[what], after[what] = {"state": "STOPPED"}, {"state": "READY"}
        elif verb == "stop":
            before[what], after[what] = {"state": "READY"}, {"state": "STOPPED"}
        else:
            pairs = {item.field: only_changed(item.have, item.want) for item in action.differences}
            before[what] = {name: have for name, (have, _want) in pairs.items()}
            after[what] = {name: want for name, (_have, want) in pairs.items()}
    return {"before": before, "after": after}


def answer(plan: Plan, actions: Sequence[Action]) -> dict[str, Any]:
    """Return the module's result: the statuses, and the actions that led to them."""
    slices = [slice_facts(status) for status in plan.statuses]
    there = [item["tpu_vm"] for item in slices if item["phase"] == "ready" and item["tpu_vm"]]
    return {
        "changed": bool(actions),
        "plan": plan_lines(plan),
        "actions": [str(action) for action in actions],
        "slices": slices,
        "hosts": [worker["host"] for node in there for worker in node["workers"]],
        "orphans": [str(orphan) for orphan in plan.orphans],
        "diff": diff_of(actions),
    }


def is_settled(plan: Plan) -> bool:
    """Return whether everything is as declared."""
    return plan.done and all(status.fine for status in plan.statuses)


def warnings_of(plan: Plan) -> list[str]:
    """Return what a user should know, whatever is done."""
    return [text for text in (*plan.warnings, orphan_warning(plan)) if text]


def slice_facts(status: Status) -> dict[str, Any]:
    """Return the facts of a slice, with its workers if it has a node."""
    node = status.node
    return {
        "name": status.slice,
        "phase": status.phase,
        "text": status.text,
        "next_at": status.next_at.isoformat() if status.next_at else None,
        "tpu_vm": node_facts(node) if node is not None else {},
    }
