"""The rows of the screen, from what the API and the workers say. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import shown
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.workers import natural_key

from ..commands.status import Row
from ..show.cost import time_left, total
from ..show.fleet import NOTHING
from ..show.times import long
from ..workers.fleet_facts import FleetView
from ..workers.hosts import Known, place_of
from ..workers.run_answers import NOT_BACK, Run
from ..workers.run_follow import Heard

TROUBLE, WAITS, IDLE, WORKS = range(4)
"""How urgent a row is; the first come first."""
RANKS = {
    "failed": TROUBLE,
    "restarting": TROUBLE,
    NOT_BACK: TROUBLE,
    "pending": WAITS,
    "not started": WAITS,
    "running": WORKS,
}
# Which of several runs of a slice a row is about.
CHOSEN = ("running", NOT_BACK, "restarting", "pending", "failed", "not started")
OLD = 180.0
"""Seconds after which an answer of the API is called old."""
SHORT = {NOT_BACK: "rebooted"}
NOT_HEARD = "asking"
LOST = "no answer"

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
    run: str = ""
    worker: int = 0
    user: str = ""
    attempt: int = 0
    step: int | None = None
    speed: float | None = None
    loss: float | str | None = None
    saved: float | None = None
    """Seconds since the newest checkpoint."""
    age: float | None = None
    """Seconds in this state."""
    workers: int = 1
    chips: int | None = None
    disk: int | None = None
    type: str = ""
    zone: str = ""
    tier: str = ""
    runs: tuple[Run, ...] = ()
    """All runs that the row stands for."""
    hosts: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What the row is about, also after another look."""
        return (self.name, self.slice, self.run)

    def words(self) -> str:
        """Return what a filter looks through."""
        texts = (self.name, self.slice, self.state, self.why, self.run, self.user)
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

    def standing(self, run: Run | None) -> tuple[int, str, str]:
        """Return rank, state and reason, for one of its runs."""
        if self.row.problem:
            return TROUBLE, self.row.state.lower() or "unusable", self.row.problem
        if self.heard is None:
            return WAITS, NOT_HEARD, ""
        if self.heard.says:
            return TROUBLE, LOST, self.heard.says
        if run is None:
            return IDLE, "idle", ""
        waits = f"waits for {run.waits_for}" if run.waits_for else ""
        why = "; ".join(text for text in (waits, run.reason, *run.problems) if text)
        state = SHORT.get(run.state, run.state) or "unknown"
        return RANKS.get(run.state, IDLE), state, why


@dataclass
class Slice:
    """A slice with its workers."""

    name: str
    members: list[Member] = field(default_factory=list)

    @cached_property
    def runs(self) -> dict[str, list[Run]]:
        """Return the runs of its workers by name, the one that a row is about first."""
        found: dict[str, list[Run]] = {}
        for member in self.members:
            for run in member.heard.runs if member.heard else ():
                found.setdefault(run.run, []).append(run)
        return dict(sorted(found.items(), key=lambda one: min(map(_weight, one[1]))))


def _weight(run: Run) -> tuple[int, float, str]:
    place = CHOSEN.index(run.state) if run.state in CHOSEN else len(CHOSEN)
    return place, -(run.since or 0.0), run.run


def rows_known(known: Known) -> list[Row]:
    """Return the workers of a stored ssh configuration, before the API has answered."""
    return [
        Row(name, place_of(name, known.fleet.groups)[0], "", "", "", "", "", "")
        for name in known.names
    ]


def by_slice(now: Now) -> list[Line]:
    """Return a line for each slice, about its most important run."""
    chips = chips_of(now.view)
    lines = []
    for one in now.slices:
        runs = one.runs
        first = next(iter(runs.values()), [])
        everything = tuple(run for those in runs.values() for run in those)
        more = f"and {len(runs) - 1} more runs" if len(runs) > 2 else "and another run"
        lines.append(
            line_of(
                one.name,
                one.members,
                first,
                now.at,
                chips,
                more if len(runs) > 1 else "",
                everything,
            )
        )
    return in_order(lines)


def by_worker(now: Now) -> list[Line]:
    """Return a line for each worker."""
    chips = chips_of(now.view)
    lines = []
    for one in now.slices:
        for member in one.members:
            runs = sorted(member.heard.runs if member.heard else (), key=_weight)
            name, everything = member.row.host, tuple(runs)
            lines.append(line_of(name, [member], runs[:1], now.at, chips, told=everything))
    return in_order(lines)


def by_run(now: Now) -> list[Line]:
    """Return a line for each run on each slice."""
    chips = chips_of(now.view)
    lines = []
    for one in now.slices:
        for name, runs in one.runs.items():
            there = {run.host for run in runs}
            members = [member for member in one.members if member.row.host in there]
            lines.append(line_of(name, members, runs, now.at, chips))
    return in_order(lines)


def in_order(lines: Iterable[Line]) -> list[Line]:
    """Sort lines: trouble first, then by name."""
    return sorted(lines, key=lambda line: (line.rank, key_of(line.name), key_of(line.slice)))


def line_of(
    name: str,
    members: Sequence[Member],
    runs: Sequence[Run],
    now: float,
    chips: Mapping[str, int | None],
    more: str = "",
    told: tuple[Run, ...] = (),
) -> Line:
    """Put one run on these workers into a line; the worst of the workers speaks for all.

    `more` says that there are other runs, `told` has them too.
    """
    by_host = {run.host: run for run in runs}
    standings = [(member, member.standing(by_host.get(member.row.host))) for member in members]
    # A worker without the run is idle only if none of them has it.
    busy = [one for one in standings if one[0].row.host in by_host or one[1][0] < IDLE]
    standings = busy or standings
    worst, (rank, state, why) = min(standings, key=lambda one: one[1][0])
    alike = sum(one[1][:2] == (rank, state) for one in standings)
    if alike < len(members):
        state = f"{state} {alike}/{len(members)}"
    first = members[0].row
    run = by_host.get(worst.row.host) or (runs[0] if runs else None)
    heard_at = {m.row.host: now - m.heard.at for m in members if m.heard is not None}
    steps = [one.step for one in runs if one.step is not None]
    speeds = [one.speed for one in runs if one.speed is not None]
    saved = [
        one.saved_age + heard_at.get(one.host, 0.0) for one in runs if one.saved_age is not None
    ]
    disks = [m.heard.disk.percent for m in members if m.heard and m.heard.disk]
    return Line(
        name=name,
        slice=first.slice or first.host,
        host=worst.row.host,
        rank=rank,
        state=state,
        why="; ".join(text for text in (why, more) if text),
        run=run.run if run else "",
        worker=run.worker if run else 0,
        user=run.user if run else "",
        attempt=run.attempt if run else 0,
        # Who is behind holds up the others.
        step=min(steps, default=None),
        speed=min(speeds, default=None),
        loss=next((one.loss for one in runs if one.loss is not None), None),
        saved=min(saved, default=None),
        age=None if run is None or run.age is None else run.age + heard_at.get(run.host, 0.0),
        workers=len(members),
        chips=chips.get(first.slice),
        disk=max(disks, default=None),
        type=first.type,
        zone=first.zone,
        tier=first.tier,
        runs=told or tuple(runs),
        hosts=tuple(member.row.host for member in members),
    )


def chips_of(view: FleetView) -> dict[str, int | None]:
    """Return the chips of each node by name."""
    return {node["name"]: node["chips"] for node in view.nodes}


VIEWS: dict[str, Callable[[Now], list[Line]]] = {
    "slices": by_slice,
    "workers": by_worker,
    "runs": by_run,
}


def matching(lines: Sequence[Line], words: str) -> list[Line]:
    """Return the lines that have all of these words."""
    wanted = words.lower().split()
    if not wanted:
        return list(lines)
    return [line for line in lines if all(word in line.words() for word in wanted)]


def head_of(now: Now) -> list[str]:
    """Return what is said of the whole fleet, in three lines."""
    return [_workers(now), _money(now.view), _notes(now)]


def _workers(now: Now) -> str:
    slices = now.slices
    members = [member for one in slices for member in one.members]
    answer = sum(member.answers for member in members)
    chips = chips_of(now.view)
    states: dict[str, int] = {}
    busy = 0
    for one in slices:
        runs = one.runs
        for those in runs.values():
            state = min(those, key=_weight).state
            states[state] = states.get(state, 0) + 1
        works = any(run.state == "running" for those in runs.values() for run in those)
        busy += (chips.get(one.name) or 0) if works else 0
    told = ", ".join(f"{count} {SHORT.get(state, state)}" for state, count in _by_count(states))
    parts = [f"{answer}/{len(members)} workers answer"]
    if chips:
        parts.append(f"{busy}/{sum(count or 0 for count in chips.values())} chips busy")
    return " | ".join([*parts, f"runs: {told or 'none'}"])


def _by_count(states: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(states.items(), key=lambda one: (-one[1], one[0]))


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
    return f"queue {len(view.queued)} | billed {hour}/h, {so_far} so far | {grant}"


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
