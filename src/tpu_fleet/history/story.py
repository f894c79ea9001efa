"""What became of each run: attempts, what interrupted them, downtime and goodput. Pure."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.run_times import KINDS
from ansible_collections.tpu.fleet.plugins.module_utils._host import run_states
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import (
    ENDED,
    ENDED_OR_STOPPED,
    RUNNING,
)

from ..workers.ask.run_view import RunView
from .causes import (
    NO_INTERRUPTION,
    PREEMPTED,
    REMOVED,
    STOPPED,
    SUCCEEDED,
    WANTED,
    WORDS,
    cause_of,
    of_checkpoints,
)
from .look import STEP
from .store import GAP, Event, Point, Span

BEGUN, FIRST = "attempt-started", "first-step"
QUIET = frozenset({
    BEGUN, FIRST, "attempt-ended", "progress", "queue-left", "peer-back", "agent-started",
})  # fmt: skip
"""Events that are no news: the attempts themselves show them, or they end another one."""
AT_ONCE = 120.0
"""Seconds within which the workers of a gang report one event."""
NO_VIEW = RunView("", "")
TOGETHER = 600.0
"""Seconds within which the workers of a gang begin one attempt."""


@dataclass(frozen=True)
class Attempt:
    """One attempt on all workers, and how it ended."""

    number: int
    begun: float
    ended: float | None = None
    """None while it runs."""
    kind: str = ""
    """How it ended: a word of `causes`."""
    why: str = ""
    first_step: int | None = None
    step: int | None = None
    again: int = 0
    """Steps that the next attempt had to do again."""
    down: float | None = None
    """Seconds from its end until the next attempt began, or until now."""
    start_parts: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Seconds until its first step, by `run_times.PARTS`, of the slowest worker."""
    start_counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Programs compiled there until then, by `run_times.COUNTS`."""
    inside: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Its seconds by `run_times.KINDS`; empty if not known."""

    @property
    def words(self) -> str:
        """How it ended, for people."""
        return WORDS.get(self.kind, self.kind)

    @property
    def interrupted(self) -> bool:
        """Whether something ended it before the run was done."""
        return bool(self.kind) and self.kind not in NO_INTERRUPTION


@dataclass(frozen=True)
class RunStory:
    """A run of a slice, from its first known attempt on."""

    slice: str
    run: str
    user: str = ""
    state: str = ""
    """As it was last seen; empty if it is no longer known."""
    view: RunView = NO_VIEW
    """Its figures at the last look that has seen it."""
    seen_at: float = 0.0
    """When that look was."""
    attempts: tuple[Attempt, ...] = ()
    marks: tuple[Event, ...] = ()
    """What else happened, by its event log and the watcher."""
    curves: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    chips: int = 0
    until: float = 0.0
    """Until when anything is known of it."""

    @property
    def name(self) -> str:
        """Its slice and its name."""
        return f"{self.slice}/{self.run}"

    @property
    def word(self) -> str:
        """Its state, as `runs` and `top` show it."""
        return self.view.word if self.view.state == self.state else self.state

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is alive, and nothing starts it."""
        return self.state in (*ENDED_OR_STOPPED, REMOVED)

    @property
    def begins(self) -> list[tuple[float, int]]:
        """When attempts began, and at which step; see `by_step`."""
        return begins_of(self.attempts)

    @property
    def interruptions(self) -> list[Attempt]:
        """The attempts that something ended, the newest first."""
        return [one for one in reversed(self.attempts) if one.interrupted]

    @property
    def faults(self) -> list[Attempt]:
        """The interruptions that no person wanted, the newest first."""
        return [one for one in self.interruptions if one.kind not in WANTED]

    @property
    def down(self) -> float:
        """Return the seconds without a program, from the first attempt on."""
        return sum(one.down or 0.0 for one in self.attempts)

    @property
    def span(self) -> float:
        """Return the seconds from the first attempt to the end of the run, or as far as known."""
        if not self.attempts:
            return 0.0
        last = self.attempts[-1]
        # What has no downtime after its end was over, until it was declared again.
        stands = last.ended is not None and (self.is_over or last.down is None)
        until = last.ended if stands and last.ended is not None else self.until
        rests = (
            later.begun - one.ended
            for one, later in pairwise(self.attempts)
            if one.ended is not None and one.down is None
        )
        return max(0.0, until - self.attempts[0].begun - sum(rests))

    @property
    def goodput(self) -> float | None:
        """Return the share of that time in which the run did steps that count."""
        whole = self.span
        return self.spent["step"] / whole if whole else None

    @property
    def spent(self) -> dict[str, float]:
        """Return the seconds of that time by their kind: those of `run_times`, `again`, `down`.

        `again` is for steps that were done again; `step` has also what is not known better.
        """
        found = dict.fromkeys(KINDS, 0.0)
        for one in self.attempts:
            for kind, seconds in one.inside.items():
                found[kind] += seconds
        found["again"] = sum(one.again for one in self.attempts) * (self.pace or 0.0)
        found["down"] = self.down
        found["step"] = 0.0
        found["step"] = max(0.0, self.span - sum(found.values()))
        return found

    @property
    def knows_inside(self) -> bool:
        """Return whether anything is known of where the time inside its attempts went."""
        return any(one.inside for one in self.attempts)

    @property
    def pace(self) -> float | None:
        """Seconds that a step takes, by the median of what the attempts reported."""
        points = self.curves.get(STEP, ())
        spans = [
            (later.at - sooner.at) / (later.step - sooner.step)
            for one in self.attempts
            for sooner, later in pairwise(_between(points, one.begun, one.ended))
            if later.step > sooner.step
        ]
        if spans:
            return statistics.median(spans)
        return 1 / self.view.speed if self.view.speed else None

    @property
    def saved_age(self) -> float | None:
        """Seconds since the newest checkpoint was written; None if none is known."""
        return self._now(self.view.saved_age)

    @property
    def age(self) -> float | None:
        """Seconds in its state."""
        return self._now(self.view.age)

    def _now(self, age: float | None) -> float | None:
        """Return an age of the last look as it is by now."""
        return None if age is None else age + max(0.0, self.until - self.seen_at)

    @property
    def at_risk(self) -> float | None:
        """Return the seconds of work that would be lost if it ended now.

        None if nothing runs, or the time is unknown.
        """
        if self.state != RUNNING or not self.attempts or self.view.saved_at is None:
            return None
        ages = [self.until - self.attempts[-1].begun, self.saved_age]
        return max(0.0, min(age for age in ages if age is not None))


def runs_of(
    events: Iterable[Event],
    spans: Sequence[Span],
    nodes: Sequence[Span],
    curves: Mapping[tuple[str, str], Mapping[str, Sequence[Point]]],
    facts: Mapping[str, tuple[float, Any]],
    since: float,
    now: float,
) -> list[RunStory]:
    """Return the story of each run since a time.

    `facts` has what was last said of it by `slice/run`. Of the events from before there are the
    begins of attempts.
    """
    by_run: dict[tuple[str, str], list[Event]] = {}
    of_slice: dict[str, list[Event]] = {}
    for event in events:
        if event.run:
            by_run.setdefault((event.slice, event.run), []).append(event)
        elif event.slice:
            of_slice.setdefault(event.slice, []).append(event)
    seen = {(span.name.partition("/")[0], span.name.partition("/")[2]) for span in spans}
    chips = {span.name: int(span.value.get("chips") or 0) for span in nodes}
    last = {span.name: span for span in spans}
    found = []
    for name, run in sorted(seen | by_run.keys()):
        told = by_run.get((name, run), [])
        key = f"{name}/{run}"
        own = curves.get((name, run), {})
        seen_at, told_now = facts.get(key, (0.0, {}))
        view = RunView.from_dict({**told_now, "slice": name, "run": run})
        span = last.get(key)
        value: Mapping[str, Any] = span.value if span else {}
        state = str(value.get("state") or view.state)
        lost = [e.at for e in of_slice.get(name, ()) if e.name == "preempted"]
        # Of a run that was not seen for long, nothing is known since then.
        until = now if span is None or now - span.seen <= GAP else span.seen
        attempts = attempts_of(told, lost, own.get(STEP, ()), state, until)
        followed = [later.begun for later in attempts[1:]]
        attempts = attempts[sum(begun < since for begun in followed) :]
        attempts = [_explained(one, view, one is attempts[-1]) for one in attempts]
        if not attempts and span is not None:
            attempts = _from_spans([one for one in spans if one.name == key], state, view.since)
        marks = news_of(told) + of_slice.get(name, [])
        if not attempts and span is None and not marks:
            continue  # it ended before
        found.append(
            RunStory(
                name,
                run,
                user=str(value.get("user") or view.user),
                state=state,
                view=view,
                seen_at=seen_at,
                attempts=tuple(attempts),
                marks=tuple(sorted(marks)),
                curves=own,
                chips=chips.get(name, 0),
                until=until,
            )
        )
    return found


def news_of(events: Iterable[Event]) -> list[Event]:
    """Return what is news, each event of a gang once: `workers` has those that report it."""
    found: list[Event] = []
    newest: dict[tuple[Any, ...], int] = {}
    for event in sorted(one for one in events if one.name not in QUIET):
        detail = {key: value for key, value in event.detail.items() if key != "boot_id"}
        about = (event.slice, event.run, event.name, event.attempt, str(detail))
        at = newest.get(about)
        if event.worker >= 0 and at is not None and event.at - found[at].at <= AT_ONCE:
            workers = {*workers_of(found[at]), event.worker}
            found[at] = replace(found[at], detail={**found[at].detail, "workers": sorted(workers)})
        else:
            newest[about] = len(found)
            found.append(event)
    return found


def workers_of(event: Event) -> list[int]:
    """Return the workers that report an event."""
    return list(event.detail.get("workers") or [event.worker])


def _explained(one: Attempt, view: RunView, is_last: bool) -> Attempt:
    """Add what became of the checkpoints of a lost slice, and that a run was removed."""
    if one.kind == PREEMPTED:
        said = (one.why, of_checkpoints(view.checkpoints_on))
        return replace(one, why="; ".join(text for text in said if text))
    if is_last and one.kind == STOPPED and view.state == REMOVED:
        return replace(one, kind=REMOVED, why="")
    return _with_times(one, view) if is_last and view.attempt == one.number else one


def _with_times(one: Attempt, view: RunView) -> Attempt:
    """Add where the time of the last attempt went, as far as its events do not say it."""
    start = (one.start_parts, one.start_counts)
    parts, counts = start if one.start_parts else (view.start_parts, view.start_counts)
    return replace(one, start_parts=parts, start_counts=counts, inside=one.inside or view.inside)


def begins_of(attempts: Iterable[Attempt]) -> list[tuple[float, int]]:
    """Return when attempts began, and at which step, as far as that is known."""
    return [(one.begun, one.first_step) for one in attempts if one.first_step is not None]


def attempts_of(
    events: Sequence[Event], lost: Sequence[float], steps: Sequence[Point], state: str, now: float
) -> list[Attempt]:
    """Return the attempts of a run from its events, in the order of time.

    `lost` has the times at which its slice was lost, `steps` those that it reported.
    """
    found: list[tuple[int, float, list[Event]]] = []
    over: set[int] = set()
    for event in events:
        number, begun, own = found[-1] if found else (-1, 0.0, [])
        if event.name == BEGUN and not (
            event.attempt == number and event.worker not in over and event.at - begun < TOGETHER
        ):
            found.append((event.attempt, event.at, [event]))
            over = set()
            continue
        ends = event.name == "attempt-ended"
        if ends and event.attempt == number:
            over.add(event.worker)
        # A clock that is behind: it is of the attempt before all the same.
        late = ends and len(found) > 1 and event.attempt == found[-2][0] != number
        (found[-2][2] if late else own).append(event)
    until = [*(begun for _number, begun, _own in found[1:]), None]
    attempts = [
        _attempt(number, begun, end, own, lost, steps, state, now)
        for (number, begun, own), end in zip(found, until, strict=False)
    ]
    following = [*(one.first_step for one in attempts[1:]), None]
    return [_with_again(one, first) for one, first in zip(attempts, following, strict=False)]


def _attempt(
    number: int,
    begun: float,
    until: float | None,
    own: Sequence[Event],
    lost: Sequence[float],
    points: Sequence[Point],
    state: str,
    now: float,
) -> Attempt:
    ends = [e for e in own if e.name == "attempt-ended" and e.attempt == number]
    starts = [e for e in own if e.name == FIRST and e.attempt == number]
    told = [e.detail.get("first_step") for e in (*starts, *ends)]
    firsts = [step for step in told if isinstance(step, int)]
    steps = [e.detail["step"] for e in own if isinstance(e.detail.get("step"), int)]
    own_points = _between(points, begun, until)
    if not ends:
        firsts += [point.step for point in own_points[:1]]
    steps += [point.step for point in own_points]
    gone = next((at for at in lost if begun <= at and (until is None or at < until)), None)
    longest = max(
        (e.detail for e in starts),
        key=lambda said: sum((said.get("parts") or {}).values()),
        default={},
    )
    inside = [e.detail["inside"] for e in own if e.attempt == number and e.detail.get("inside")]
    attempt = Attempt(
        number,
        begun,
        first_step=min(firsts, default=None),
        step=max(steps, default=None),
        start_parts=longest.get("parts") or {},
        start_counts=longest.get("counts") or {},
        inside=max(inside, key=lambda seconds: sum(seconds.values()), default={}),
    )
    if until is None and not ends and gone is None and state not in ENDED:
        return attempt
    cause = cause_of(own, gone)
    ended = max((e.at for e in ends), default=0.0)
    if cause.kind != SUCCEEDED and ends:
        ended = min(e.at for e in ends)
    if not ends:
        # What an agent writes in another boot, or on another machine, is of the time after it.
        boots = {event.detail.get("boot_id") for event in own if event.name == BEGUN}
        own = [event for event in own if event.detail.get("boot_id") in {None, *boots}]
        signs = [*(point.at for point in own_points), *(event.at for event in own)]
        heard = [at for at in signs if begun <= at <= (until or now)]
        last = max(heard, default=begun)
        ended = last if gone is None else min(gone, last)
    over = cause.kind == SUCCEEDED or (until is None and (state in ENDED or cause.kind == STOPPED))
    down = None if over else max(0.0, (until or now) - ended)
    return replace(attempt, ended=max(begun, ended), kind=cause.kind, why=cause.text, down=down)


def _between(points: Sequence[Point], begun: float, until: float | None) -> Sequence[Point]:
    """Return the points of an interval; they are in the order of time."""
    first = bisect_left(points, begun, key=lambda point: point.at)
    last = len(points) if until is None else bisect_left(points, until, key=lambda p: p.at)
    return points[first:last]


def _with_again(one: Attempt, first: int | None) -> Attempt:
    """Add how many steps the next attempt did again."""
    if one.step is None or first is None or first > one.step:
        return one
    return replace(one, again=one.step - first + 1)


def _from_spans(spans: Sequence[Span], state: str, since: float | None) -> list[Attempt]:
    """Return attempts from what looks have seen, for a run whose event log is not known.

    `since` is when it came into its state, which may be before the first look that saw it there.
    """
    found: list[Attempt] = []
    running = [span for span in spans if span.value.get("state") == RUNNING]
    for index, span in enumerate(running):
        last = index == len(running) - 1
        number = int(span.value.get("attempt") or 0)
        ended = None if last and state == RUNNING else span.seen
        after = None if last else max(0.0, running[index + 1].begun - span.seen)
        done = last and state == run_states.SUCCEEDED
        kind = "" if ended is None else (SUCCEEDED if done else "other")
        begun = span.begun
        if last and state == RUNNING and since is not None:
            before = running[index - 1].seen if index else 0.0
            begun = max(before, min(begun, since))
        found.append(Attempt(number, begun, ended, kind, down=after))
    return found
