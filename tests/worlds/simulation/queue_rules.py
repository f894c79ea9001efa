"""What must always be true of a queue, whatever happens."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ansible_collections.tpu.fleet.plugins.module_utils._queue import limits, objects, order
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import Stored
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import present_turn, turn_of

from simulation.tasks import START

if TYPE_CHECKING:
    from simulation.queue_world import Program, QueueWorld, Slice, Sweep

PEOPLE = 3
LATE = 800.0
"""Seconds of which a leader may not know yet who used chips."""
SLOW = 100.0
"""Seconds that a write may take: a state has the time at which it was begun."""
PROMPT = 90.0
"""Seconds after a wish to stop a run after which its end is no success."""


class Rules:
    """The ledger of a world, and what was broken."""

    def __init__(self, world: QueueWorld) -> None:
        self.broken: list[str] = []
        self.story: list[str] = []
        self.open: set[str] = set()
        self.states: dict[str, objects.Submitted] = {}
        """What the bucket has of each run, in the order in which they were submitted."""
        self._world = world
        self._programs: list[Program] = []
        self._ends: Counter[tuple[str, int]] = Counter()
        self._asked: set[tuple[str, int]] = set()
        self._wished: dict[tuple[str, int], float] = {}
        self._overtaken: Counter[str] = Counter()
        self._most: dict[str, float] = {}
        self._order: dict[str, int] = {}
        self._waiting: dict[int, dict[str, objects.Submitted]] = {}
        self.given_back = 0
        self._since: dict[str, tuple[float, int]] = {}
        self._used: list[tuple[str, float, float, int]] = []
        self._thawed: dict[str, float] = {}

    def broke(self, what: str) -> None:
        """Note what is not as it must be."""
        self.tell(f"BROKEN {what}")
        self.broken.append(what)

    def tell(self, what: str) -> None:
        """Note what happens."""
        self.story.append(f"{self._world.clockwork.now:9.1f} {what}")

    # What is written

    def written(self, host: Any, before: Stored | None, data: bytes) -> None:
        """Judge a state that was written over another."""
        new = objects.run_of(data)
        old = objects.run_of(before.data) if before else None
        self.tell(f"{host.name}: {new.name} {new.state} claim {new.claims} {new.reason}")
        self._step(old, new)
        self._note_use(new)
        self.states[new.name] = new
        self._order.setdefault(new.name, len(self._order))
        self._waiting.setdefault(new.priority, {}).pop(new.name, None)
        if new.state == objects.WAITING:
            self._waiting[new.priority][new.name] = new
        if new.state in objects.ENDED:
            self._ended(host, new)
        else:
            self.open.add(new.name)
        if new.state == objects.RUNNING and (old is None or old.claims != new.claims):
            self._overtakes(new)
        if new.failures:
            self.broke(f"a failure of {new.name} was counted that is none")

    def _step(self, old: objects.Submitted | None, new: objects.Submitted) -> None:
        if old is None:
            return
        if (new.round, new.claims) < (old.round, old.claims) or new.attempt < old.attempt:
            self.broke(f"{new.name} goes back: claim {old.claims} to {new.claims}")
        if old.state == new.state == objects.RUNNING and old.claims != new.claims:
            self.broke(f"{new.name} was taken from one that has it")
        if new.state == objects.WAITING and old.state == objects.RUNNING:
            self.given_back += 1

    def _note_use(self, new: objects.Submitted) -> None:
        """Keep for how long which slice had a run."""
        now = self._world.clockwork.now
        if new.owner is not None:
            self._since.setdefault(new.name, (now, new.owner.chips))
        elif new.name in self._since:
            begun, chips = self._since.pop(new.name)
            # One that ends it may be frozen before the request that says so.
            self._used.append((new.person, begun, min(now, new.changed_at - START), chips))

    def _ended(self, host: Any, new: objects.Submitted) -> None:
        self.open.discard(new.name)
        key = (new.name, new.round)
        self._ends[key] += 1
        if self._ends[key] > 1:
            self.broke(f"{new.name} ended twice")
        now, truth = self._world.clockwork.now, self._world.truth[new.name]
        if new.state == objects.STOPPED and key not in self._asked:
            self.broke(f"{new.name} was stopped, which was not asked for")
        if new.state == objects.FAILED and not truth.is_bad:
            self.broke(f"{new.name} failed although its program did not")
        if new.state == objects.DONE and truth.left > 0:
            self.broke(f"{new.name} is done although its program is not")
        if new.state == objects.DONE and self._is_late(key, now):
            self.broke(f"{new.name} went on although it was to be stopped")

    def _is_late(self, key: tuple[str, int], now: float) -> bool:
        """Say whether a wish is so old that it must have been carried out, in calm."""
        wished = max(self._wished.get(key, now), self._world.shape.trouble)
        return now - wished > PROMPT

    # What runs

    def begins(self, program: Program, run: objects.Submitted) -> None:
        """Judge a program that begins."""
        self.tell(f"{program.slice.name}: program of {program.run} begins, claim {program.claim}")
        self._programs = [one for one in self._programs if not one.is_over]
        self._programs.append(program)
        self._alone(program)
        self._within_limits(program, run)
        self._within_at_once(program, run)
        self._within_hours(program, run)
        if program.slice.serving.keeps_out(run.person):
            self.broke(f"{run.name} is on a slice that is reserved")
        for name in run.after:
            before = self.states.get(name)
            if before is None or before.state != objects.DONE:
                self.broke(f"{run.name} began before {name} was done")

    def thawed(self, slice_: Slice) -> None:
        """Judge a program that goes on because its machine does."""
        self._thawed[slice_.name] = self._world.clockwork.now
        if slice_.program:
            self._alone(slice_.program)

    def _alone(self, program: Program) -> None:
        now = self._world.clock()
        others = [one for one in self._programs if one.run == program.run and one is not program]
        if program.may_run(now) and any(one.may_run(now) for one in others):
            names = sorted({program.slice.name, *(one.slice.name for one in others)})
            self.broke(f"{program.run} runs twice: {names}")

    def _within_limits(self, program: Program, run: objects.Submitted) -> None:
        limit, now = self._world.limit, self._world.clock()
        people = [one for one in self._programs if one.run.split("-")[0] == run.person]
        alive = [one for one in people if one.may_run(now) and one is not program]
        held = [limits.Held(one.run, one.slice.serving.chips) for one in alive]
        if limits.over(limit, run.person, held, program.slice.serving.chips):
            self.broke(f"{run.person} has more than the limit")

    def _within_at_once(self, program: Program, run: objects.Submitted) -> None:
        if run.at_once is None:
            return
        now = self._world.clock()
        alive = [one.run for one in self._programs if one.may_run(now) and one.run != program.run]
        same = [name for name in alive if self._swept(name) == self._swept(run.name)]
        if len(same) + 1 > run.at_once:
            self.broke(f"{run.name} is one arm too many beside {sorted(same)}")

    def _swept(self, name: str) -> tuple[str, float]:
        definition = self._world.truth[name].definition
        return definition.sweep, definition.submitted_at

    def _within_hours(self, program: Program, run: objects.Submitted) -> None:
        limit = self._world.limit
        # A machine that has booted, or thawed, goes on with what it has.
        now = self._since.get(run.name, (self._world.clockwork.now, 0))[0]
        if limit.chip_hours is None or now - self._thawed.get(program.slice.name, -LATE) < LATE:
            return
        open_ = [
            (name.split("-")[0], begun, now, chips) for name, (begun, chips) in self._since.items()
        ]
        first, last = now - limit.window, now - LATE
        used = sum(
            chips * max(0.0, min(end - SLOW, last) - max(begun, first))
            for person, begun, end, chips in (*self._used, *open_)
            if person == run.person
        )
        if used >= limit.chip_hours * 3600:
            self.broke(f"{run.name} began although {used / 3600:.1f} chip hours were used up")

    # People

    def submits(self, definition: objects.Definition, sweep: Sweep) -> None:
        """Note by how many later ones a run may be overtaken."""
        self.tell(f"{definition.name} is submitted")
        priority = definition.priority
        if sweep.counts[priority] == 1:
            same = [one for one in sweep.known if one.priority == priority]
            turn = turn_of(definition.person, priority, same)
            sweep.ahead[priority] = turn - present_turn(same)
        ahead = sweep.ahead[priority] + sweep.counts[priority] - 1
        self._most[definition.name] = PEOPLE * (ahead + 2) + 2 * len(self._world.slices)

    def _overtakes(self, new: objects.Submitted) -> None:
        """Count which runs are overtaken by one that was submitted later."""
        shape = self._world.shape
        is_plain = self._world.limit == limits.NO_LIMITS and not shape.at_once
        if not is_plain or shape.reserved or new.round > 1:
            return
        mine = self._order[new.name]
        for name, run in self._waiting[new.priority].items():
            if self._order[name] > mine or run.after or run.types or run.round > 1:
                continue
            self._overtaken[name] += 1
            if self._overtaken[name] == int(self._most[name]) + 1:
                self.broke(f"{name} was overtaken {self._overtaken[name]} times")

    def asks_to_stop(self, name: str) -> None:
        """Note that a run may be stopped from now on, in whatever round it is."""
        run = self.states.get(name)
        self._asked.add((name, run.round if run else 1))

    def asked_to_stop(self, run: objects.Submitted) -> None:
        """Note that the wish is written."""
        self._wished.setdefault((run.name, run.round), self._world.clockwork.now)

    # The end

    def _can_end(self, run: objects.Submitted) -> bool:
        states = {}
        for name in run.after:
            before = self.states.get(name)
            states[name] = before.state if before else None
            if before is not None and before.state == objects.WAITING:
                return self._can_end(before)
        why = order.held_back(run, states)
        return not why or why.endswith("to end")

    def is_over(self) -> bool:
        """Say whether all that can end has ended."""
        runs = [self.states.get(name) for name in self.open]
        has_come = self._world.finished == PEOPLE
        return has_come and not any(run and self._can_end(run) for run in runs)

    def at_the_end(self) -> None:
        """Judge what is left."""
        for name in sorted(self.open):
            run = self.states.get(name)
            if run and self._can_end(run):
                self.broke(f"{name} does not end: {run.state}")
