"""What a look has seen, as the history keeps it. Pure.

Values of intervals are what stays the same for long; what changes with each look is a fact. The
interval of a slice, worker or run is named by its slice first: `pair`, `pair/pair-w0`,
`pair/digits`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunEvent

from ..workers.ask.run_answers import Answers
from ..workers.ask.run_view import Run, view_of
from .store import Event, Look, Point

if TYPE_CHECKING:
    # It brings Ansible's inventory, which a command that only keeps what it saw does not need.
    from ..workers.inventory.fleet_facts import FleetView

MOST_RUNS = 100
"""Runs of one slice that are kept: more of them is a worker that invents some."""
STEP, DUTY = "step", "duty cycle"
"""Numbers of each run beside those that its program reports."""
OF_NODE = (
    *("name", "zone", "ours", "chips", "workers", "unavailable", "maintenance"),
    *("usd_per_hour_billed", "usd_so_far"),
)
"""What is kept of each node that the last look has seen."""
OF_MISSING = ("phase", "text", "accelerator_type", "zone", "tier")


def of_view(look: Look, view: FleetView) -> None:
    """Add nodes, queue and grant."""
    if view.problem:
        return
    look.spans["node"] = {
        node["name"]: {
            "state": str(node["state"]).lower(),
            "type": node["accelerator_type"],
            "zone": node["zone"],
            "tier": node["tier"],
            "chips": node["chips"] or 0,
            "ours": bool(node["ours"]),
            "usd": node["usd_per_hour"],
            "billed": node["usd_per_hour_billed"],
        }
        # Of two nodes of one name, one of them of another fleet, ours is kept.
        for node in sorted(view.nodes, key=lambda node: bool(node["ours"]))
    }
    look.spans["queued"] = {
        one["name"]: {
            "types": ", ".join(one["accelerator_types"]),
            "zone": one["zone"],
            "tier": one["tier"],
            "chips": one["chips"],
            "ours": bool(one["ours"]),
        }
        for one in view.queued
    }
    look.spans["grant"] = {
        entry["text"]: {"chips": entry["chips"], "used": entry["used"], "ends": entry["ends"]}
        for entry in view.grant.get("allocations", ())
    }
    look.facts["nodes"] = [{key: node.get(key) for key in OF_NODE} for node in view.nodes]
    if view.missing is not None:
        look.facts["slices"] = {
            one["name"]: {key: one[key] for key in OF_MISSING} for one in view.missing
        }
    look.facts["grant"] = {
        "unrestricted": view.grant.get("unrestricted", False),
        "warnings": list(view.warnings),
        "unreachable": list(view.unreachable_zones),
        "prices": str(view.prices.get("date", "")),
        "left": {
            entry["text"]: {key: entry.get(key) for key in ("last_day", "days_left", "over")}
            for entry in view.grant.get("allocations", ())
        },
    }
    if view.beside is not None:
        look.facts["beside"] = view.beside
    look.facts["queued"] = {one["name"]: one["reason"] for one in view.queued}


def of_workers(look: Look, answers: Mapping[tuple[str, str], str]) -> None:
    """Add which workers answer: (slice, host) with why it does not."""
    look.spans["worker"] = {
        f"{name}/{host}": {"state": "no answer" if why else "answers"}
        for (name, host), why in answers.items()
    }
    look.facts["workers"] = {f"{name}/{host}": why for (name, host), why in answers.items() if why}


def of_runs(look: Look, seen: Iterable[Run]) -> None:
    """Add runs: their states, steps, events and curves."""
    look.spans.setdefault("run", {})
    by_slice: dict[str, dict[str, list[Run]]] = {}
    for one in seen:
        of_slice = by_slice.setdefault(one.slice, {})
        if one.run in of_slice or len(of_slice) < MOST_RUNS:
            of_slice.setdefault(one.run, []).append(one)
            _past_of(look, one)
    for of_slice in by_slice.values():
        for runs in of_slice.values():
            view = view_of(runs)
            state = {"state": view.state, "user": view.user, "attempt": view.attempt}
            look.spans["run"][view.name] = state
            look.facts[f"run:{view.name}"] = view.to_dict()
            if view.duty_cycle is not None:
                at, step = runs[0].now, view.step or 0
                look.points.append(Point(view.slice, view.run, DUTY, at, step, view.duty_cycle))


def _past_of(look: Look, one: Run) -> None:
    """Add what a worker reports of a run's past, and its present step."""
    name, status, past = one.slice, one.status, one.status.past
    if status.step is not None and status.step_at is not None:
        step = Point(name, status.run, STEP, status.step_at, status.step, float(status.step))
        look.points.append(step)
    if past is None:
        return
    for event in past.events:
        event_seen(look, name, status.run, status.worker, event)
    for label, points in past.curves.items():
        look.points += [Point(name, status.run, label, at, step, v) for at, step, v in points]
    look.facts[f"place:{one.host}/{status.run}"] = past.place


def event_seen(look: Look, slice_name: str, run: str, worker: int, event: RunEvent) -> None:
    """Add an event of a run; of its progress, the points of its curves."""
    detail, at = event.detail, event.at
    if event.name == "progress" and isinstance(detail.get("step"), int):
        reached: int = detail["step"]
        look.points.append(Point(slice_name, run, STEP, at, reached, float(reached)))
        for label, value in (detail.get("numbers") or {}).items():
            look.points.append(Point(slice_name, run, label, at, reached, value))
        return
    look.events.append(Event(at, slice_name, run, worker, event.name, event.attempt, detail))


def answers_seen(look: Look, answers: Answers, places: Mapping[str, tuple[str, int]]) -> None:
    """Add what `ask_for_runs` has returned; `places` has slice and index of each worker."""
    of_workers(
        look,
        {
            (places[result.name][0], result.name): "" if result.ok else result.says or "no answer"
            for result in answers.results
            if result.name in places
        },
    )
    of_runs(look, answers.runs)


def places_of(facts: Mapping[str, tuple[float, Any]]) -> dict[str, dict[str, Any]]:
    """Return for each worker how far its runs' pasts are known: facts with the prefix `place:`."""
    found: dict[str, dict[str, Any]] = {}
    for name, (_at, place) in facts.items():
        host, _slash, run = name.rpartition("/")
        found.setdefault(host, {})[run] = place
    return found
