# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the plan of a fleet: look, decide, act and wait, until nothing is left to do.

A controller may die at any moment. All that another controller needs to continue is in the fleet
file, in the labels and in the API's operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from .._core import threads
from .._core.error_table import Reaction
from .._core.errors import (
    AlreadyExists,
    BadRequest,
    Busy,
    NotFound,
    RateLimited,
    Refused,
    TpuError,
    Unavailable,
    from_status,
    row_of,
)
from .._core.wait import Backoff
from .._fleet_file.declared import Fleet
from .._tpu.model import COMPUTE, Listing, Node, Operation
from .._tpu.operations import PROPAGATION_SECONDS
from .._tpu.queued_resources import QueuedResource
from .awaited import ALL, Awaited
from .cloud import Cloud
from .memory import Key, Memory
from .plan import plan_fleet
from .plan_terms import ENDED, READY, STUCK, Action, Plan, Status, Thing, World, thing_of
from .resting import Rest

Outcome = Operation | TpuError
# Another controller's change to what rests is noticed after this time at the latest.
REST_SECONDS = 300.0
# After this time, a new resource can no longer get the same creation time as an earlier one.
SECOND_LOOK_SECONDS = 1.0
PAID = frozenset({"create_node", "create_queued", "start_node"})


@dataclass(frozen=True)
class Pace:
    """The lengths of the pauses, in seconds."""

    poll: Backoff = field(default_factory=lambda: Backoff(first=2.0, factor=1.5, most=30.0))
    # Between two requests for one slice at one place.
    again: Backoff = field(default_factory=lambda: Backoff(first=30.0, factor=1.5, most=600.0))
    # How long a requested resource may stay invisible.
    settle: float = PROPAGATION_SECONDS
    stuck: float = 900.0
    report: float = 30.0


@dataclass(frozen=True)
class Result:
    """What an apply has done, and the resulting status of each slice."""

    actions: tuple[Action, ...]
    statuses: tuple[Status, ...]
    plan: Plan
    # The seconds that it waited before the time limit ended the wait; None if that did not happen.
    waited: float | None = None

    @property
    def timed_out(self) -> bool:
        """Return whether the time limit ended the wait before all slices were there."""
        return self.waited is not None

    @property
    def changed(self) -> bool:
        """Return whether anything was changed."""
        return bool(self.actions)

    @property
    def slices(self) -> dict[str, Status]:
        """Return the statuses by the slices' names."""
        return {status.slice: status for status in self.statuses}

    @property
    def missing(self) -> tuple[Status, ...]:
        """Return the statuses of wanted slices that are not there."""
        return tuple(status for status in self.statuses if not status.fine)


class FleetApplier:
    """Brings the slices of one project to the state that a fleet file declares."""

    def __init__(
        self,
        cloud: Cloud,
        fleet: Fleet,
        *,
        wait: bool = True,
        awaited: Awaited = ALL,
        timeout: float = 1800.0,
        strict: bool = True,
        progress: Callable[[str], None] = lambda _line: None,
        workers: int = 8,
        pace: Pace | None = None,
        rest: Callable[[], Mapping[str, Rest]] | None = None,
        seen: Callable[[Status | Action], None] = lambda _what: None,
    ) -> None:
        """`progress` gets lines for people; `seen` each new status, and each action that was done.

        `rest` returns the slices that rest.
        """
        self.cloud = cloud
        self.fleet = fleet
        self._wait = wait
        self._awaited = awaited
        self._ready: frozenset[str] | None = None
        self._timeout = timeout
        self._strict = strict
        self._progress = progress
        self._seen = seen
        self._shown: dict[str, Status] = {}
        self._workers = workers
        self._pace = pace or Pace()
        self._memory = Memory(fleet, self._pace.again, self._pace.settle, self._pace.stuck)
        self._queued: Listing[QueuedResource] | None = None
        self._world: World | None = None
        self._read_rest = rest
        # The slices that rest, and when they were read.
        self._rest: tuple[float, Mapping[str, Rest]] | None = None
        self._learnt: set[str] = set()
        self._done: list[Action] = []
        # What this apply has created, and when; kept until a later look finds room for it.
        self._made: dict[Thing, datetime] = {}
        # Whether something was created since the last look.
        self._unlooked = False
        # When a failed action is due again, and how often it has failed.
        self._pauses: dict[tuple[str, str, str], tuple[int, datetime]] = {}
        self._told: dict[str, str] = {}
        self._told_at: float | None = None

    def plan(self) -> Plan:
        """Look and decide, without changing anything."""
        return self._look()

    def foresee(self) -> Plan:
        """Look, decide, and check that the zones offer what would be created; change nothing."""
        while True:
            plan = self._look()
            refused = False
            for action in plan.actions:
                if action.place is None or not action.kind.startswith("create"):
                    continue
                error = self.cloud.not_offered(action)
                if error is not None:
                    self._memory.refused((action.slice, action.place), error, self._now())
                    refused = True
            if not refused:
                return plan

    @property
    def world(self) -> World | None:
        """Return what the last look has read; None before the first look."""
        return self._world

    def apply(self) -> Result:
        """Act and wait until all slices are there, a user has to act, or the time limit is over."""
        clock, deadline = self.cloud.clock, self.cloud.clock.now() + self._timeout
        plan = self._look()
        if self._strict:
            self._require_possible(plan)
        pauses = self._pace.poll.delays()
        timed_out = False
        while True:
            self._report(plan)
            acted = self._perform(plan)
            one_more = self._one_more(plan)
            if not self._wait or self._awaited.enough(plan, one_more):
                break
            if clock.now() >= deadline:
                timed_out = True
                break
            if acted:
                pauses = self._pace.poll.delays()
            clock.sleep(self._pause(plan, next(pauses), deadline - clock.now()))
            seen = self._look_again(deadline)
            if seen is None:
                timed_out = True
                break
            plan = seen
        if self._unlooked:
            plan = self._look_twice(plan)
        self._report(plan, last=True)
        waited = self._timeout if timed_out else None
        return Result(tuple(self._done), plan.statuses, plan, waited)

    def _look_twice(self, plan: Plan) -> Plan:
        """Look once more after a creation; delete the new resource if another fleet was earlier.

        An apply that waits does this with each look. This method serves applies that do not wait,
        or no longer wait.
        """
        clock = self.cloud.clock
        deadline = clock.now() + self._pace.settle
        while True:
            clock.sleep(SECOND_LOOK_SECONDS)
            seen = self._look_again(deadline)
            if seen is None:
                return plan
            late = tuple(action for action in seen.actions if self._takes_back(action))
            if not late:
                return plan
            plan = seen
            self._perform(replace(seen, actions=late))
            if clock.now() >= deadline:
                return plan

    def _takes_back(self, action: Action) -> bool:
        return action.verb == "delete" and action.thing in self._made

    def _one_more(self, plan: Plan) -> bool:
        """Return whether a slice is ready that was not ready at the previous look."""
        before = self._ready
        self._ready = frozenset(status.slice for status in plan.statuses if status.phase == READY)
        return before is not None and bool(self._ready - before)

    def _require_possible(self, plan: Plan) -> None:
        """Raise Refused, before any change, for slices that no waiting could bring about."""
        refused = [
            status
            for status in plan.statuses
            if status.phase == "refused" and self._awaited.waits_for(status.slice)
        ]
        if refused:
            lines = "\n".join(f"  {status.slice}: {status.text}" for status in refused)
            raise Refused(
                f"Nothing was changed, because {len(refused)} of {len(plan.statuses)} slices "
                f"cannot be created:\n{lines}"
            )

    # Looking -----------------------------------------------------------------------------------

    def _look(self) -> Plan:
        """Read the nodes, and the queued resources where they matter, and decide."""
        nodes = self.cloud.nodes()
        fresh = self._queued is None or self._queue_matters(nodes)
        if fresh:
            self._queued = self._list_queued()
        plan = self._decide(nodes)
        if not fresh and any(action.kind.startswith("create") for action in plan.actions):
            # Requests that others have queued since the last list count against the grant, too.
            self._queued = self._list_queued()
            plan = self._decide(nodes)
        return plan

    def _list_queued(self) -> Listing[QueuedResource]:
        # Only a version of the API that knows these tiers lets the grant distinguish them.
        return self.cloud.queued({want.tier for want in self.fleet.slices})

    def _queue_matters(self, nodes: Listing[Node]) -> bool:
        known = self._queued
        return (
            any(want.queued or want.api == COMPUTE for want in self.fleet.slices)
            # A group of Compute Engine is a request until all of its machines are there.
            or any(node.api == COMPUTE for node in nodes.items)
            # A request that another controller has queued may be older than what was just created.
            or bool(self._made)
            or bool(known and (known.items or known.unreachable))
            or any(node.queued_resource for node in nodes.items)
        )

    def _decide(self, nodes: Listing[Node]) -> Plan:
        queued = self._queued or Listing([])
        now = self.cloud.now()
        unreachable = frozenset([*nodes.unreachable, *queued.unreachable])
        world = self._world = World(
            tuple(nodes.items),
            tuple(queued.items),
            unreachable,
            now,
            self._resting(),
            frozenset(self._made),
        )
        known = dict(self._memory.tries)
        plan = plan_fleet(self.fleet, world, known)
        if self._may_rest(plan):
            world = self._world = replace(world, rest=self._resting(anew=True))
            plan = plan_fleet(self.fleet, world, known)
        self._learn(world, plan)
        operations: dict[str, list[Operation] | None] = {}
        for key in self._memory.unseen(world):
            zone = key[1].zone
            if zone not in operations:
                operations[zone] = self._operations(zone)
            before = self._memory.tries[key].attempts
            self._memory.settle(key, operations[zone], now)
            if self._memory.tries[key].attempts > before:
                self._tell_refusal(key)
        # Planning a thousand slices takes a while, so an unchanged memory reuses the plan.
        same = self._memory.tries == known
        plan = plan if same else plan_fleet(self.fleet, world, self._memory.tries)
        self._confirm(world, plan)
        return plan

    def _confirm(self, world: World, plan: Plan) -> None:
        """Forget what was created so long ago that all others have seen it, and has found room."""
        self._unlooked = False
        if not self._made:
            return
        seen = {*map(thing_of, world.nodes), *map(thing_of, world.queued)}
        settled = world.now - timedelta(seconds=self._pace.settle)
        late = {action.thing for action in plan.actions} & set(self._made)
        for key, since in list(self._made.items()):
            if since <= settled and key in seen and key not in late:
                del self._made[key]

    def _may_rest(self, plan: Plan) -> bool:
        """Return whether another controller may just have put a slice to rest, or woken one."""
        marked = {want.name for want in self.fleet.slices if want.may_rest or self.fleet.holds}
        moves = any(s.slice in marked and s.phase not in (READY, ENDED) for s in plan.statuses)
        return moves and self._rest is not None and self.cloud.clock.now() > self._rest[0]

    def _resting(self, anew: bool = False) -> Mapping[str, Rest]:
        """Return the slices that rest; asks only if one may, because it costs a request."""
        may = self.fleet.holds or any(want.may_rest for want in self.fleet.slices)
        if self._read_rest is None or not may:
            return {}
        now = self.cloud.clock.now()
        if anew or self._rest is None or now - self._rest[0] >= REST_SECONDS:
            self._rest = (now, self._read_rest())
        return self._rest[1]

    def _learn(self, world: World, plan: Plan) -> None:
        """Read once an earlier controller's operations, in zones where they may create slices."""
        if self._learnt.issuperset(zone for want in self.fleet.slices for zone in want.zones):
            return
        wanted = {action.slice for action in plan.actions if action.kind.startswith("create")}
        wanted |= {s.slice for s in plan.statuses if s.phase == "ended"} & self.fleet.teardown
        zones = [zone for want in self.fleet.slices if want.name in wanted for zone in want.zones]
        for zone in dict.fromkeys(zones):
            operations = None if zone in self._learnt else self._operations(zone)
            if operations is not None:
                self._learnt.add(zone)
                self._memory.learn(operations, world.now)

    def _operations(self, zone: str) -> list[Operation] | None:
        """Return the operations of a zone; None when the API may answer later."""
        try:
            return self.cloud.operations(zone)
        except (Unavailable, RateLimited):
            return None
        except TpuError:
            return []  # Operations only make failures known earlier; the looks do without them.

    def _look_again(self, deadline: float) -> Plan | None:
        """Look; retry while the API is away; return None when the deadline has passed."""
        while True:
            try:
                return self._look()
            except (Unavailable, RateLimited) as error:
                now = self.cloud.clock.now()
                self._tell("the API", f"does not answer: {error.message}")
                if now >= deadline:
                    return None
                self.cloud.clock.sleep(min(self._pace.poll.most, max(0.05, deadline - now)))

    def _pause(self, plan: Plan, delay: float, left: float) -> float:
        due = plan.next_at
        if due is not None:
            now = self.cloud.now()
            delay = max(delay, min(self._pace.report, (due - now).total_seconds()))
        return max(0.05, min(delay, self._pace.report, left))

    # Acting ------------------------------------------------------------------------------------

    def _perform(self, plan: Plan) -> bool:
        """Carry out all actions that are due, several at a time; return whether any was done."""
        now = self._now()
        due = [action for action in plan.actions if self._is_due(action, now)]
        if not due:
            return False
        before = len(self._done)
        fatal: TpuError | None = None
        for action, outcome in self._outcomes(due):
            try:
                self._note(action, outcome)
            except TpuError as error:
                fatal = fatal or error
        if fatal is not None:
            raise fatal
        return len(self._done) > before

    def _outcomes(self, actions: Sequence[Action]) -> Iterator[tuple[Action, Outcome]]:
        if self._workers <= 1 or len(actions) == 1:
            for action in actions:
                yield action, self._call(action)
            return
        with threads.pool(min(self._workers, len(actions))) as pool:
            yield from pool.map(lambda action: (action, self._call(action)), actions)

    def _call(self, action: Action) -> Outcome:
        # Half of the report interval, so that no progress line is late.
        patience = self._pace.report / 2
        try:
            self.cloud.prepare(action, patience)
        except Unavailable as error:
            return Busy(error.message)  # Nothing of the slice itself was asked for.
        except TpuError as error:
            return error
        over = self._is_over(action)
        if over is not None:
            return over
        try:
            return self.cloud.do(action, patience)
        except TpuError as error:
            return error

    def _is_over(self, action: Action) -> TpuError | None:
        """Return an error if a grant for the requested node has ended since the decision."""
        place = action.place
        if action.kind not in PAID or place is None:
            return None
        want = next(want for want in self.fleet.slices if want.name == action.slice)
        now = self.cloud.now()
        if not self.fleet.grant.ends_between(place, want.tier, self._now(), now):
            return None
        text = f"The grant for {place} has ended meanwhile; nothing was asked for."
        self._tell(action.slice, text)
        return Busy(text)

    def _note(self, action: Action, outcome: Outcome) -> None:
        """Record the outcome of an action; raise it if only a user can correct the cause."""
        now = self._now()
        if not isinstance(outcome, TpuError):
            self._did(action)
            if action.place is not None and action.kind.startswith("create"):
                self._memory.asked((action.slice, action.place), outcome.name, now)
                self._did_make(action, now)
            elif action.kind in ("start_node", "stop_node"):
                self._pauses[_key(action)] = (0, now + timedelta(seconds=self._pace.settle))
            else:
                self._pauses.pop(_key(action), None)
            if action.kind.startswith("delete"):
                self._memory.taken_back(action.slice, action.zone)
                self._made.pop(action.thing, None)
            if action.failure and action.place is not None and action.slice:
                error = from_status(action.failure, action.name)
                self._memory.refused((action.slice, action.place), error, now)
            return
        if row_of(outcome).reaction is Reaction.STOP:
            raise outcome
        if action.place is not None and action.kind.startswith("create"):
            key = (action.slice, action.place)
            if isinstance(outcome, (Unavailable, AlreadyExists)):
                # The resource may exist now; the next look shows it.
                self._memory.asked(key, "", now)
                if isinstance(outcome, Unavailable):
                    self._did(action)
                    self._did_make(action, now)
            else:
                self._memory.refused(key, outcome, now)
                self._tell_refusal(key)
            return
        if isinstance(outcome, NotFound):
            return  # Another process has already deleted it, which was the aim.
        count = self._pauses.get(_key(action), (0, now))[0] + 1
        if isinstance(outcome, BadRequest) and count > 5:
            raise outcome
        delay = min(2.0**count, 60.0)
        self._pauses[_key(action)] = (count, now + timedelta(seconds=delay))
        self._tell(action.slice or action.name, f"{action.kind}: {outcome.message}")

    def _is_due(self, action: Action, now: datetime) -> bool:
        pause = self._pauses.get(_key(action))
        return pause is None or pause[1] <= now

    def _did(self, action: Action) -> None:
        self._done.append(action)
        self._progress(str(action))
        self._seen(action)

    def _did_make(self, action: Action, now: datetime) -> None:
        self._made[action.thing] = now
        self._unlooked = True

    # Reporting -----------------------------------------------------------------------------------

    def _report(self, plan: Plan, last: bool = False) -> None:
        """Report new statuses at once, and all that still wait once per report interval."""
        now = self.cloud.clock.now()
        due = self._told_at is None or now - self._told_at >= self._pace.report
        for status in plan.statuses:
            if self._shown.get(status.slice) != status:
                self._shown[status.slice] = status
                self._seen(status)
            waits = not status.settled or status.phase in STUCK
            if (due and waits) or self._told.get(status.slice) != status.phase:
                self._progress(str(status))
            self._told[status.slice] = status.phase
        if due or last:
            self._told_at = now

    def _tell_refusal(self, key: Key) -> None:
        known = self._memory.tries[key]
        text = known.message if known.never else f"{known.short} for {key[1]}"
        self._tell(key[0], f"{text}, attempt {known.attempts}")

    def _tell(self, who: str, text: str) -> None:
        self._progress(f"{who}: {text}")

    def _now(self) -> datetime:
        return self._world.now if self._world else self.cloud.now()


def _key(action: Action) -> tuple[str, str, str]:
    return action.kind, action.zone, action.name
