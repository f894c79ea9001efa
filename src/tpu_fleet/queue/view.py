"""What is in the queue: what waits in which order and why, what runs where, what has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import gone_by_api
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    DOING,
    RUNNING,
    WAITING,
    Doing,
    Submitted,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Place, places
from ansible_collections.tpu.fleet.plugins.module_utils._queue.saying import Said
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Listing, Queue

from ..show.figures import amount
from ..show.table import Column, Table
from ..show.times import long
from .fleet import QueueOfFleet

GOOD_FOR = 5 * DOING
"""Seconds for which what a slice does is shown; its clock may differ from this computer's."""
MOST_ENDED = 20
"""Runs that have ended, the latest first, that a table shows."""
COLUMNS = (
    Column("#", 6, right=True),
    Column("RUN"),
    Column("STATE"),
    Column("PERSON", 3),
    Column("SLICE", 1),
    Column("ATTEMPT", 5, right=True),
    Column("FOR", 4, right=True),
)


@dataclass(frozen=True)
class QueueView:
    """All runs of a queue, at one look."""

    address: str
    runs: Sequence[Submitted]
    places: Mapping[str, Place]
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why objects of the bucket were refused, by their name."""
    now: float = 0.0
    failed: Mapping[str, str] = field(default_factory=dict)
    """What a slice could not do for a run that waits."""

    def why(self, run: Submitted) -> str:
        """Return why a run is in its state; empty for one that just runs."""
        place = self.places.get(run.name)
        told = [place.reason if place else "", run.reason]
        told[1:1] = [self.failed.get(run.name, "")] if place else []
        return "; ".join(dict.fromkeys(one for one in told if one))

    @property
    def waiting(self) -> list[Submitted]:
        """Return the runs that wait."""
        return [one for one in self.runs if one.state == WAITING]

    def in_order(self) -> list[Submitted]:
        """Return those that run, those that wait in their order, and the others, latest first."""
        return sorted(self.runs, key=self._rank)

    def _rank(self, run: Submitted) -> tuple[float, ...]:
        if run.state == RUNNING:
            return (0, run.started_at or 0.0)
        place = self.places.get(run.name)
        if run.state == WAITING:
            last = place is None or not place.position
            return (1, last, place.position if place else 0, -run.priority, run.turn)
        return (2, -(run.ended_at or 0.0))

    def to_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "queue": self.address,
            "runs": [self._told(one) for one in self.in_order()],
            "refused": dict(self.refused),
        }

    def _told(self, run: Submitted) -> dict[str, Any]:
        place, owner = self.places.get(run.name), run.owner
        return {
            "run": run.name,
            "state": run.state,
            "person": run.person,
            "position": place.position if place else None,
            "why": self.why(run) or None,
            "slice": owner.slice if owner else None,
            "last_slice": run.last or None,
            "attempt": run.attempt,
            "failures": run.failures,
            "round": run.round,
            "priority": run.priority,
            "exit_code": run.exit_code,
            "submitted_at": run.submitted_at,
            "started_at": run.started_at,
            "ended_at": run.ended_at,
            "after": list(run.after),
            "types": list(run.types),
            "slices": list(run.slices),
            "venv": run.venv or None,
            "sweep": run.sweep or None,
            "parameters": dict(run.parameters),
            "step": run.step,
            "loss": run.loss,
        }

    def row(self, run: Submitted) -> dict[str, Any]:
        """Return what is shown of a run beside the fleet."""
        place = self.places.get(run.name)
        return {
            "place": place.position if place else None,
            "run": run.name,
            "state": run.state,
            "person": run.person,
            "slice": run.owner.slice if run.owner else "",
            "since": run.started_at if run.state == RUNNING else run.changed_at,
            "why": self.why(run),
        }


def look(fleet: QueueOfFleet, queue: Queue, now: float) -> QueueView:
    """Return what is in the queue; a run whose slice is gone by the API waits again. NoAnswer."""
    listing = queue.all()
    if any(_is_gone(fleet, one) for one in listing.states):
        # Without the right to write, it stays for a watcher or a leader.
        with contextlib.suppress(NoAnswer):
            queue.tend(nodes=fleet.node_of)
            listing = queue.all()
    return with_doing(fleet, queue, listing, now)


def with_doing(fleet: QueueOfFleet, queue: Queue, listing: Listing, now: float) -> QueueView:
    """Return a list of the queue with what its slices do now. NoAnswer."""
    return view_of(fleet, listing, now, fresh(queue.said(), now))


def fresh(said: Mapping[str, Said], now: float) -> list[Doing]:
    """Return what slices do; one that has not said so lately does it no more."""
    found = [one.doing for one in said.values() if one.doing.why]
    return [one for one in found if now - one.at < GOOD_FOR]


def _is_gone(fleet: QueueOfFleet, run: Submitted) -> bool:
    node = fleet.node_of(run.owner) if run.owner and run.state == RUNNING else None
    return node is not None and run.owner is not None and bool(gone_by_api(run.owner, node))


def view_of(
    fleet: QueueOfFleet, listing: Listing, now: float, doing: Sequence[Doing] = ()
) -> QueueView:
    """Return a list of the queue with the order and the reasons of what waits.

    `doing` is what slices without a run do.
    """
    runs = listing.states
    builds = {
        one: f"{one.why}, {long(max(0.0, now - one.since))} so far" for one in doing if one.venv
    }
    prepared = {one.run: f"{one.slice} {told}" for one, told in builds.items()}
    busy = {one.slice: told for one, told in builds.items()}
    where = places(runs, fleet.serving(runs, busy), fleet.limits, prepared, now=now)
    failed = {one.run: one.why for one in doing if one.run and not one.venv}
    return QueueView(fleet.queue.address, runs, where, listing.refused, now, failed)


def table_of(view: QueueView) -> Table:
    """Draw the queue; of what has ended only the latest."""
    table = Table(COLUMNS, note="WHY")
    ended = 0
    for run in view.in_order():
        ended += not run.is_open
        if ended > MOST_ENDED:
            break
        place = view.places.get(run.name)
        since = run.ended_at or (run.started_at if run.state == RUNNING else run.changed_at)
        table.add(
            str(place.position) if place and place.position else "-",
            run.name,
            run.state,
            run.person,
            run.owner.slice if run.owner else run.last or "-",
            _attempt(run),
            long(max(0.0, view.now - (since or view.now))),
            notes=[view.why(run)],
            style="red" if run.state == "failed" else "yellow" if run.state == WAITING else "",
        )
    return table


def _attempt(run: Submitted) -> str:
    """Return the number of a run's last attempt; not known yet while a slice has just taken it."""
    is_known = run.attempt and not (run.state == RUNNING and run.changed_at == run.started_at)
    return str(run.attempt) if is_known else "-"


def left_out(view: QueueView) -> str:
    """Return how many ended runs the table has not; empty if it has all."""
    more = sum(not one.is_open for one in view.runs) - MOST_ENDED
    return (
        f"{amount(more, 'more run')} ended before: tpu-fleet runs --queue --json"
        if more > 0
        else ""
    )
