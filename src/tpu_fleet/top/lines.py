"""The rows of the screen, from what the API and the workers say. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import STUCK
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import (
    NOT_STARTED,
    PENDING,
    RUNNING,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import natural_key

from ..commands.status import Row
from ..history.money import chips_in
from ..history.story import NO_VIEW
from ..queue.glance import Glance
from ..show.cost import dollars, time_left, total
from ..show.figures import amount
from ..show.fleet import NOTHING, planned
from ..show.times import long
from ..workers.ask.run_follow import Heard
from ..workers.ask.run_view import Run, RunView, view_of
from ..workers.inventory.fleet_facts import FleetView
from ..workers.inventory.hosts import Known, place_of
from .closer import Closer

TROUBLE, WAITS, IDLE, WORKS = range(4)
"""How urgent a row is; the first come first."""
OLD = 180.0
"""Seconds after which an answer of the API is called old."""
NOT_HEARD = "asking"
LOST = "no answer"
NO_RUN = "-"
"""The name of the row of a slice without a run, in the view of runs."""
Piece = tuple[str, str]
"""A text, and its style."""

key_of = lru_cache(maxsize=1 << 14)(natural_key)


@dataclass(frozen=True)
class Now:
    """What is known at this moment."""

    rows: Sequence[Row]
    heard: Mapping[str, Heard]
    view: FleetView
    at: float
    """The time, by the same clock as `Heard.at`."""
    api_at: float | None = None
    """When the API answered."""
    problems: tuple[str, ...] = ()
    """Why the API or the workers cannot be asked."""
    fleet: str = ""
    """Its name for people."""
    clock: float | None = None
    """The time of day, in seconds since 1970."""
    me: str = ""
    """The login of the person at this computer."""
    closer: Closer | None = None
    """What is known of the run that was selected last."""
    queue: Glance = field(default_factory=Glance)
    """The submitted runs."""

    @cached_property
    def slices(self) -> list[Slice]:
        """The slices with their workers, in the order of the inventory."""
        found: dict[str, Slice] = {}
        for row in self.rows:
            name = row.slice or row.host
            if name not in found:
                found[name] = Slice(name)
            found[name].members.append(Member(row, self.heard.get(row.host)))
        return list(found.values())


@dataclass(frozen=True)
class Line:
    """A row of the screen: a slice, a worker, or a run on a slice."""

    name: str
    slice: str
    host: str
    """The worker that the keys are about."""
    rank: int
    state: str
    why: str = ""
    view: RunView = NO_VIEW
    """The run that it is about, with its ages of now."""
    worker: int = 0
    workers: int = 1
    chips: int | None = None
    disk: int | None = None
    type: str = ""
    zone: str = ""
    tier: str = ""
    runs: tuple[RunView, ...] = ()
    """All runs that the row stands for."""
    hosts: tuple[str, ...] = ()

    @property
    def run(self) -> str:
        """The name of the run that it is about; empty without one."""
        return self.view.run

    @property
    def key(self) -> tuple[str, str, str]:
        """What the row is about, also after another look."""
        return (self.name, self.slice, self.run)

    def words(self) -> str:
        """Return what a filter looks through."""
        texts = (self.name, self.slice, self.state, self.why, self.run, self.view.user)
        return " ".join((*texts, self.type, self.zone, self.tier, *self.hosts)).lower()


@dataclass(frozen=True)
class Member:
    """A worker: what the API says of it, and what it says itself."""

    row: Row
    heard: Heard | None

    @property
    def answers(self) -> bool:
        """Whether it answers now."""
        return self.heard is not None and not self.heard.says and not self.row.problem

    def standing(self) -> tuple[int, str, str]:
        """Return rank, state and reason of the worker, without its runs."""
        if self.row.problem:
            return TROUBLE, self.row.state.lower() or "unusable", self.row.problem
        if self.heard is None:
            return WAITS, NOT_HEARD, ""
        if self.heard.says:
            return TROUBLE, LOST, self.heard.says
        return IDLE, "idle", ""


def rank_of(view: RunView) -> int:
    """Return how urgent a run is."""
    if view.is_troubled:
        return TROUBLE
    return {PENDING: WAITS, NOT_STARTED: WAITS, RUNNING: WORKS}.get(view.state, IDLE)


@dataclass
class Slice:
    """A slice with its workers."""

    name: str
    members: list[Member] = field(default_factory=list)

    @cached_property
    def runs(self) -> list[tuple[RunView, list[Run]]]:
        """Return its runs, the most urgent first, with what each worker says of them."""
        found: dict[str, list[Run]] = {}
        for member in self.members:
            for run in member.heard.runs if member.heard else ():
                found.setdefault(run.run, []).append(run)
        return sorted(
            ((view_of(runs), runs) for runs in found.values()), key=lambda one: one[0].order
        )


def rows_known(known: Known) -> list[Row]:
    """Return the workers of a stored ssh configuration, before the API has answered."""
    return [
        Row(name, place_of(name, known.fleet.groups)[0], "", "", "", "", "", "")
        for name in known.names
    ]


def by_slice(now: Now) -> list[Line]:
    """Return a line for each slice, about its run in trouble, or else the one that runs."""
    chips = chips_of(now.view)
    lines = []
    for one in now.slices:
        runs = sorted(one.runs, key=lambda run: rank_of(run[0]) not in (TROUBLE, WORKS))
        views, first = [view for view, _runs in runs], runs[0] if runs else None
        more = ", ".join(f"{view.run} is {view.word}" for view in views[1:3])
        more += f" and {len(views) - 3} more runs" if len(views) > 3 else ""
        lines.append(line_of(one.name, one.members, first, now.at, chips, more, tuple(views)))
    return in_order([*lines, *map(line_of_missing, now.view.missing or ())])


def line_of_missing(one: Mapping[str, Any]) -> Line:
    """Return the line of a declared slice that has no node."""
    rank = TROUBLE if one["phase"] in STUCK else WAITS
    where = {"type": one["accelerator_type"], "zone": one["zone"], "tier": one["tier"]}
    return Line(one["name"], one["name"], "", rank, one["phase"], one["text"], workers=0, **where)


def by_worker(now: Now) -> list[Line]:
    """Return a line for each worker; its chips are its part of the slice's."""
    chips = chips_of(now.view)
    lines = []
    for one in now.slices:
        whole = chips.get(one.name)
        own = {one.name: whole // len(one.members) if whole else whole}
        for member in one.members:
            here = [
                (view, [run for run in runs if run.host == member.row.host])
                for view, runs in one.runs
            ]
            told = [(replace(view_of(runs), **of_gang(view)), runs) for view, runs in here if runs]
            told.sort(key=lambda one: one[0].order)
            first, views = (told[0] if told else None), tuple(view for view, _runs in told)
            lines.append(line_of(member.row.host, [member], first, now.at, own, views=views))
    return in_order(lines)


def of_gang(view: RunView) -> dict[str, Any]:
    """Return what all workers of a run share, though often only one of them reports it."""
    names = ("saved_at", "saved_age", "loss", "loss_trouble", "tokens_per_second", "mfu")
    return {name: getattr(view, name) for name in names}


def by_run(now: Now) -> list[Line]:
    """Return a line for each run on each slice, and for each slice without a run."""
    chips = chips_of(now.view)
    lines = []
    for one in now.slices:
        for view, runs in one.runs:
            members = [member for member in one.members if member.row.host in view.hosts]
            lines.append(line_of(view.run, members, (view, runs), now.at, chips))
        if not one.runs:
            lines.append(line_of(NO_RUN, one.members, None, now.at, chips))
    missing = [replace(line_of_missing(one), name=NO_RUN) for one in now.view.missing or ()]
    return in_order([*lines, *missing])


def in_order(lines: Iterable[Line]) -> list[Line]:
    """Sort lines: trouble first, then by name."""
    return sorted(lines, key=lambda line: (line.rank, key_of(line.name), key_of(line.slice)))


def line_of(
    name: str,
    members: Sequence[Member],
    about: tuple[RunView, Sequence[Run]] | None,
    now: float,
    chips: Mapping[str, int | None],
    more: str = "",
    views: tuple[RunView, ...] = (),
) -> Line:
    """Put one run on these workers into a line; the worst of the workers speaks for all.

    `more` says that there are other runs, `views` has them too.
    """
    view, runs = about if about else (None, ())
    heard_at = {m.row.host: now - m.heard.at for m in members if m.heard is not None}
    standings = [(member, *member.standing()) for member in members]
    worst, rank, state, why = min(standings, key=lambda one: one[1])
    if rank < IDLE:
        alike = sum(one[1:3] == (rank, state) for one in standings)
        state += f" {alike}/{len(members)}" if alike < len(members) else ""
    host = worst.row.host
    # Beside a run that works or is over nothing is wrong with the workers.
    if view is not None and (rank_of(view) <= rank or rank == IDLE):
        rank, state, why, host = rank_of(view), view.word, view.why, view.host
    coming = next((m.row.maintenance for m in members if m.row.maintenance), "")
    disks = [m.heard.disk.percent for m in members if m.heard and m.heard.disk]
    first = members[0].row
    return Line(
        name=name,
        slice=first.slice or first.host,
        host=host,
        rank=rank,
        state=state,
        why="; ".join(text for text in (why, planned(coming), more) if text),
        workers=len(members),
        chips=chips.get(first.slice),
        disk=max(disks, default=None),
        type=first.type,
        zone=first.zone,
        tier=first.tier,
        runs=views or ((view,) if view else ()),
        hosts=tuple(member.row.host for member in members),
        view=_older(view, heard_at.get(view.host, 0.0)) if view else NO_VIEW,
        worker=next((run.worker for run in runs if run.host == host), 0),
    )


def _older(view: RunView, seconds: float) -> RunView:
    """Return a run with its ages so many seconds later."""
    ages = {"saved_age": view.saved_age, "age": view.age}
    now: dict[str, Any] = {name: age + seconds for name, age in ages.items() if age is not None}
    return replace(view, **now)


def chips_of(view: FleetView) -> dict[str, int | None]:
    """Return the chips of each node of this fleet by name."""
    return {node["name"]: node["chips"] for node in view.nodes if node["ours"]}


VIEWS: dict[str, Callable[[Now], list[Line]]] = {
    "runs": by_run,
    "slices": by_slice,
    "workers": by_worker,
}


def matching(lines: Sequence[Line], words: str) -> list[Line]:
    """Return the lines that have all of these words."""
    wanted = words.lower().split()
    if not wanted:
        return list(lines)
    return [line for line in lines if all(word in line.words() for word in wanted)]


SORTS: dict[str, Callable[[Line], Any]] = {
    "trouble": lambda line: line.rank,
    "name": lambda line: key_of(line.name),
    "slice": lambda line: key_of(line.slice),
    "user": lambda line: (not line.view.user, line.view.user),
    "loss": lambda line: (not isinstance(line.view.loss, float | int), _number(line.view.loss)),
    "speed": lambda line: (line.view.speed is None, line.view.speed or 0.0),
    "saved": lambda line: (line.view.saved_age is None, -(line.view.saved_age or 0.0)),
}
"""The orders of rows; the first is that of the views."""


def _number(value: float | str | None) -> float:
    return float(value) if isinstance(value, float | int) else 0.0


def users_of(line: Line) -> set[str]:
    """Return the people whose runs a row is about."""
    return {user for user in (line.view.user, *(view.user for view in line.runs)) if user}


def head_of(now: Now) -> list[list[Piece]]:
    """Return what is said of the whole fleet, as lines; the last one only if there is news."""
    notes = _notes(now)
    return [
        [*_moment(now), *_counts(now)],
        [(_chips(now), "")],
        [(_money(now.view), "")],
        *([[(notes, "wait")]] if notes else []),
    ]


def _moment(now: Now) -> list[Piece]:
    """Return the fleet, the time, and how old the newest answer of a worker is."""
    told = [(shown(now.fleet, 30), "title")] if now.fleet else []
    if now.clock is not None:
        told.append((datetime.fromtimestamp(now.clock, UTC).strftime("%H:%M:%S UTC"), ""))
    newest = max((one.at for one in now.heard.values() if not one.says), default=None)
    if newest is not None:
        told.append((f"seen {long(max(0.0, now.at - newest))} ago", ""))
    return [piece for one in told for piece in (one, ("  ", ""))]


def _counts(now: Now) -> list[Piece]:
    """Return how many runs are in which state, the most urgent first."""
    counts: dict[tuple[int, str], int] = {}
    for one in now.slices:
        for view, _runs in one.runs:
            key = (rank_of(view), shown(view.state_word, 20))
            counts[key] = counts.get(key, 0) + 1
    if not counts:
        return [("no runs", "")]
    styles = {TROUBLE: "bad", WAITS: "wait", WORKS: "good"}
    told = [
        (f"{count} {word}", styles.get(rank, "")) for (rank, word), count in sorted(counts.items())
    ]
    return [piece for one in told for piece in (one, ("  ", ""))][:-1]


def _chips(now: Now) -> str:
    members = [member for one in now.slices for member in one.members]
    parts = [f"{sum(member.answers for member in members)}/{len(members)} workers answer"]
    busy = {
        one.name for one in now.slices if any(view.state == RUNNING for view, _runs in one.runs)
    }
    chips = chips_in(now.view.nodes, busy)
    if chips.all:
        parts.append(f"{chips.busy}/{chips.all} chips busy")
    if now.queue.view is not None:
        parts.append(f"queue {now.queue.waiting}")
    if chips.idle:
        parts.append(f"{chips.idle} idle: {dollars(chips.idle_usd)}/h list price")
    if now.view.queued:
        parts.append(f"{amount(len(now.view.queued), 'request')} for slices")
    return " | ".join(parts)


def _money(view: FleetView) -> str:
    if not view.grant:
        return ""
    entries = view.grant["allocations"]
    if view.grant["unrestricted"]:
        grant = "grant unrestricted"
    elif entries:
        # The one that ends first.
        first = min(entries, key=lambda one: (one["last_day"] is None, one["last_day"] or ""))
        more = f" and {len(entries) - 1} more" if len(entries) > 1 else ""
        end = f", {time_left(first)}" if first["last_day"] is None else f" until {time_left(first)}"
        grant = f"grant {first['used']}/{first['chips']} chips{end}{more}"
    else:
        grant = "no grant"
    hour, so_far = total(view.nodes, "usd_per_hour_billed"), total(view.nodes, "usd_so_far")
    return f"billed {hour}/h, {so_far} so far | {grant}"


def _notes(now: Now) -> str:
    notes = list(now.problems)
    if now.view.grant and not (now.rows or now.view.nodes or now.view.queued):
        notes.append(NOTHING)
    if now.view.problem:
        notes.append(f"Grant and costs are unknown: {now.view.problem}")
    notes += now.view.warnings
    if notes:
        return "; ".join(shown(note) for note in notes)
    if now.api_at is None:
        return "Asking the API for nodes, grant and costs"
    # A fleet in which nothing happens is not drawn again only to say this.
    age = now.at - now.api_at
    return f"The API last answered {long(age)} ago" if age > OLD else ""
