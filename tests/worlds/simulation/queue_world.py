"""A queue in a bucket, with slices that take runs, people who submit, and controllers that tend it.

What they do with the bucket is the queue's own code. Made up are time, machines, programs and the
bucket's server, so that each can fail between any two requests. A world is drawn from a seed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._queue import claims, limits, objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer, Stored
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Lease, Node, Outcome
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import NO_LIMITS, Limits
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Definition, Signed
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Exists, Queue, Seen
from memory_bucket import MemoryBucket

from simulation.queue_rules import Rules
from simulation.tasks import START, Clockwork, Host, Task

ZONES = ("us-central2-b", "europe-west4-a")
TYPES = {"v4-8": 4, "v4-16": 8}
PEOPLE = ("alice", "bob", "zoe")


@dataclass(frozen=True)
class Shape:
    """How large a world is, and how it is disturbed."""

    runs: int = 18
    slices: int = 4
    trouble: float = 5400.0
    """Seconds in which things go wrong; then all is calm, until everything has ended."""
    work: tuple[float, float] = (60.0, 900.0)
    """Seconds that a program takes at least and at most."""
    tick: float = 1.0
    """Seconds between two looks of a leader at its program."""
    look: float = 30.0
    bell: float = 5.0
    """Seconds between two looks at the bell."""
    tend: float = 300.0
    between: float = 200.0
    """Mean seconds between two disturbances of one slice."""
    batch: int = 1
    """Runs that a person submits in one go."""
    meddle: float = 0.15
    """How often a person stops a run, or retries one, after a submission."""
    limit: Limits | None = None
    """None: one that is drawn."""
    is_calm: bool = False
    """Whether nothing goes wrong, and no clock."""
    at_once: int | None = None
    """Arms of what a person submits in one go that may run at the same time."""
    reserved: bool = False
    """Whether the first slice takes runs of the first person alone."""
    has_jumps: bool = True
    """Whether clocks are set wrong."""
    take_after: bool | None = None
    """Whether time counts as evidence; None: in every second world."""


class Weather:
    """What becomes of the requests of a world."""

    def __init__(self, chance: random.Random) -> None:
        self.is_calm = False
        self._chance = chance
        self._bad = {
            "refused": chance.choice((0.0, 0.02, 0.1, 0.5)),
            "lost": chance.choice((0.0, 0.02, 0.1)),
            "late": chance.choice((0.0, 0.01, 0.03)),
        }
        self._slow = chance.choice((0.0, 0.05, 0.3))

    def of(self, host: Host, method: str) -> tuple[str, float]:
        """Return what becomes of a request, and how long its way is."""
        pace = self._chance.uniform(0.02, 0.2)
        if self.is_calm:
            return "", pace
        if isinstance(host, Slice) and host.is_cut_off:
            return "refused", 5.0
        if method == "list" and self._chance.random() < self._slow:
            pace = self._chance.uniform(3.0, 60.0)
        drawn = self._chance.random()
        for trouble, share in self._bad.items():
            if drawn < share:
                return trouble, pace
            drawn -= share
        return "", pace


class SentBucket:
    """The bucket as one host reaches it."""

    def __init__(self, world: QueueWorld, host: Host) -> None:
        self._world, self._host = world, host

    def get(self, name: str) -> Stored | None:
        return self._sent("get", name)

    def put(
        self,
        name: str,
        data: bytes,
        metadata: Any,
        generation: int | None = None,
        metageneration: int | None = None,
    ) -> int | None:
        return self._sent("put", name, data, metadata, generation, metageneration)

    def patch(self, *words: Any) -> int | None:
        return self._sent("patch", *words)

    def list(self, *words: Any) -> tuple[list[Stored], str]:
        return self._sent("list", *words)

    def delete(self, name: str, generation: int | None = None) -> bool:
        return self._sent("delete", name, generation)

    def _sent(self, method: str, *words: Any) -> Any:
        world = self._world
        trouble, pace = world.weather.of(self._host, method)
        world.clockwork.sleep(pace / 2)
        if trouble == "refused":
            raise NoAnswer("429")
        if trouble == "late" and method != "get":
            after = world.chance.uniform(1.0, 90.0)
            late = partial(world.answer, self._host, method, *words)
            world.clockwork.spawn(world.network, late, after=after)
            world.clockwork.sleep(15.0)
            raise NoAnswer("timed out")
        answer = world.answer(self._host, method, *words)
        world.clockwork.sleep(pace / 2)
        if trouble == "lost":
            raise NoAnswer("reset")
        return answer


@dataclass(eq=False)
class Program:
    """The program of a run on a slice."""

    run: str
    claim: int
    slice: Slice
    lease: Lease
    task: Task | None = None
    is_over: bool = False
    code: int | None = None

    def may_run(self, now: float) -> bool:
        """Say whether it can do something at this moment."""
        if self.is_over or self.slice.frozen_since is not None:
            return False
        return self.lease.left(now) > 0

    def end(self) -> None:
        """End it, as a signal does."""
        self.is_over = True
        if self.task:
            self.task.end()


class Slice(Host):
    """A slice that serves the queue: its leader, its program, and what its disk keeps."""

    def __init__(self, world: QueueWorld, number: int) -> None:
        super().__init__(f"s-{number}")
        self.world = world
        self.type = world.chance.choice(tuple(TYPES))
        self.zone = ZONES[0]
        self.is_reserved = world.shape.reserved and not number
        self.nodes = self.boots = 0
        self.state = ""
        self.disk: dict[str, Any] = {}
        self.program: Program | None = None
        self.is_cut_off = self.is_leaving = False
        self.leader: Task | None = None

    @property
    def owner(self) -> objects.Owner:
        """Return what it is at present."""
        node, boot = f"{self.name}-n{self.nodes}", f"b{self.boots}"
        return objects.Owner(self.name, self.zone, self.type, TYPES[self.type], node, boot)

    @property
    def serving(self) -> Serving:
        """Return what it can run."""
        only = frozenset(PEOPLE[:1]) if self.is_reserved else None
        return Serving(self.name, self.type, TYPES[self.type], frozenset({"jax"}), reserved=only)

    # Its life

    def create(self) -> None:
        """Begin as a new node."""
        self.nodes += 1
        self.disk = {}
        self.boot()

    def boot(self) -> None:
        """Boot."""
        self.boots += 1
        self.state = "READY"
        self.is_there, self.is_leaving = True, False
        self.start_leader()

    def start_leader(self) -> None:
        """Begin its leader, beside whatever runs."""
        self.leader = self.world.clockwork.spawn(self, self._lead)

    def go(self, state: str) -> None:
        """End all of it at once."""
        self.state = state
        if self.program:
            self.program.is_over = True
        self.program = None
        self.world.clockwork.kill(self)
        self.is_there = False

    # Its leader

    def _lead(self) -> None:
        world = self.world
        self.queue = world.queue_of(self)
        self.mine: Seen | None = None
        self.lease = Lease(0.0, world.take_after)
        self._heard = -1
        self._due = {"look": 0.0, "tend": world.chance.uniform(0, world.shape.tend)}
        while True:
            try:
                if self.disk.get("run"):
                    self._look_after()
                elif not self.is_leaving:
                    self._look_for_one()
            except NoAnswer:
                world.clockwork.sleep(5.0)
            world.clockwork.sleep(world.shape.tick if self.disk.get("run") else world.shape.bell)

    def _is_due(self, what: str, seconds: float) -> bool:
        now = self.world.clock()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + seconds
        return True

    def _look_for_one(self) -> None:
        world = self.world
        if self._is_due("tend", world.shape.tend):
            self.queue.tend(self.owner, (), world.take_after)
        heard = self.queue.heard()
        if heard == self._heard and not self._is_due("look", world.shape.look):
            return
        sent = world.clock()
        mine = self.queue.claim_next(self.serving, self.owner, world.limit)
        self._heard = heard
        if mine is None:
            return
        self.disk = {"run": mine.run.name, "claim": mine.run.claims}
        self._take_up(mine, sent)

    def _take_up(self, mine: Seen, sent: float) -> None:
        self.mine, self.lease = mine, Lease(sent, self.world.take_after)
        self._due.update(beat=sent + claims.BEAT, wish=0.0)

    def _look_after(self) -> None:
        world = self.world
        if self.mine is None and not self._take_up_again():
            return
        assert self.mine is not None
        if self._is_due("beat", 0.0) and not self._renew():
            return
        program = self.program
        if self._is_due("wish", claims.STOP_LOOK) and self.queue.wish(self.mine.run):
            wish = self.queue.wish(self.mine.run)
            self._end(Outcome(objects.STOPPED, f"stopped by {wish.person if wish else ''}"))
        elif program and program.code is not None:
            state = objects.FAILED if program.code else objects.DONE
            self._end(Outcome(state, exit_code=program.code))
        elif self.is_leaving:
            self._give_back()
        elif (program is None or program.is_over) and self.lease.left(world.clock()) > 0:
            self.program = world.begin(self, self.mine.run, self.lease)

    def _take_up_again(self) -> bool:
        sent = self.world.clock()
        mine = self.queue.adopt(self.disk["run"], self.owner)
        if mine is None or mine.run.claims != self.disk["claim"]:
            self._forget()
            return False
        self._take_up(mine, sent)
        if self.program:
            self.program.lease = self.lease
        return True

    def _renew(self) -> bool:
        assert self.mine is not None
        self._due["beat"] = 0.0
        sent = self.world.clock()
        mine = self.queue.renew(self.mine)
        if mine is None:
            self._forget()
            return False
        self.mine = mine
        self.lease.renewed(sent)
        self._due["beat"] = self.world.clock() + claims.BEAT
        return True

    def _end(self, outcome: Outcome) -> None:
        self._stop_program()
        assert self.mine is not None
        self.queue.finish(self.mine, outcome)
        self._forget()

    def _give_back(self) -> None:
        self._stop_program()
        assert self.mine is not None
        self.queue.give_back(self.mine, f"{self.name} is preempted")
        self._forget()

    def _stop_program(self) -> None:
        if self.program and not self.program.is_over:
            self.program.end()

    def _forget(self) -> None:
        self._stop_program()
        self.program, self.mine, self.disk = None, None, {}


@dataclass
class Truth:
    """What a submitted run is in truth."""

    definition: Definition
    work: float
    is_bad: bool
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.work


class Sweep:
    """What a person submits in one go, after one look at the queue."""

    def __init__(self, known: list[objects.Submitted]) -> None:
        self.known = known
        self.counts: Counter[int] = Counter()
        """What was submitted of it, by priority."""
        self.ahead: dict[int, int] = {}
        """How far its turns are ahead of the queue's, by priority; for the rules."""
        self._turns: dict[int, int] = {}

    def turn_of(self, definition: Definition) -> int:
        """Return the turn of the next run."""
        priority = definition.priority
        if priority not in self._turns:
            turn = limits.turn_of(definition.person, priority, self.known)
            self._turns[priority] = turn
        self.counts[priority] += 1
        return self._turns[priority] + self.counts[priority] - 1


class QueueWorld:
    """One queue with all that is around it."""

    def __init__(self, seed: int, shape: Shape = Shape()) -> None:
        self.seed, self.shape = seed, shape
        self.chance = random.Random(seed)  # noqa: S311 - repeatable
        self.clockwork = Clockwork()
        self.network = Host("network")
        self.bucket = MemoryBucket()
        self.weather = Weather(self.chance)
        by_time = shape.take_after
        self.take_after = 600.0 if (seed % 2 if by_time is None else by_time) else None
        drawn = self.chance.choice((NO_LIMITS, NO_LIMITS, Limits(runs=2), Limits(chips=12)))
        self.limit = drawn if shape.limit is None else shape.limit
        self.slices = [Slice(self, number) for number in range(shape.slices)]
        self.truth: dict[str, Truth] = {}
        self.rules = Rules(self)
        self.nonces = 0
        self.words = ""
        """A world ends when a rule is broken by these words; empty: never before its end."""
        self.deadline = 0.0
        self.finished = 0
        """People who have done all they wanted."""

    def clock(self) -> float:
        """Return the seconds since the boot that every host has."""
        return 1000.0 + self.clockwork.now

    def answer(self, host: Host, method: str, *words: Any) -> Any:
        """Have the bucket carry a request out."""
        before = self.bucket.items.get(words[0]) if method == "put" else None
        answer = getattr(self.bucket, method)(*words)
        if method == "put" and answer is not None and words[0].startswith(objects.RUNS):
            self.rules.written(host, before, words[1])
        return answer

    def queue_of(self, host: Host) -> Queue:
        """Return the queue as one host reaches it."""

        def nonce() -> str:
            self.nonces += 1
            return f"{self.nonces:032x}"

        return Queue(
            SentBucket(self, host),
            now=lambda: max(0.0, START + self.clockwork.now + host.wall_ahead),
            clock=self.clock,
            pause=self.clockwork.sleep,
            nonce=nonce,
            chance=self.chance,
        )

    # Programs

    def begin(self, slice_: Slice, run: objects.Submitted, lease: Lease) -> Program:
        """Begin the program of a run."""
        program = Program(run.name, run.claims, slice_, lease)
        self.rules.begins(program, run)
        program.task = self.clockwork.spawn(slice_, lambda: self._work(program))
        return program

    def _work(self, program: Program) -> None:
        truth = self.truth[program.run]
        while truth.left > 0:
            step = min(truth.left, 20.0)
            self.clockwork.sleep(step)
            if program.lease.left(self.clock()) <= 0:
                program.is_over = True  # the guard beside it
                return
            truth.left -= step
        program.code = 1 if truth.is_bad else 0

    # People

    def submits(self, host: Host, person: str, count: int, is_steady: bool) -> None:
        """Submit runs as one person does; then stop and retry some."""
        queue, chance, shape = self.queue_of(host), self.chance, self.shape
        for first in range(0, count, shape.batch):
            self.clockwork.sleep(chance.uniform(0.0, shape.trouble * shape.batch / count))
            sweep = Sweep(self._until_answered(queue.all).states)
            name = f"{person}-{first}"
            for number in range(first, min(count, first + shape.batch)):
                definition = self._drawn(host, person, number, is_steady)
                self._submit(queue, self._arm(definition, name), sweep)
            while is_steady and self.clockwork.now < shape.trouble and self.is_open(name):
                self.clockwork.sleep(20.0)
            if not is_steady and chance.random() < shape.meddle:
                self._stop_one(queue, person)
            if not is_steady and chance.random() < shape.meddle:
                self._retry_one(queue, person)
        self.finished += 1

    def _drawn(self, host: Host, person: str, number: int, is_steady: bool) -> Definition:
        """Return what a person submits next."""
        chance = self.chance
        own = [f"{person}-{before}" for before in range(max(0, number - 10), number)]
        after = (chance.choice(own),) if own and chance.random() < 0.15 else ()
        types = (chance.choice(tuple(TYPES)),) if chance.random() < 0.2 else ()
        others = [one for one in self.slices if not one.serving.keeps_out(person)]
        fits = any(not types or one.type in types for one in others)
        priority = chance.choice((0, 0, 0, 3))
        return Definition(
            *(f"{person}-{number}", person, person, ("true",), "jax", self.wall(host)),
            after=() if is_steady else after,
            types=types if fits else (),
            priority=0 if is_steady else priority,
        )

    def _arm(self, definition: Definition, first: str) -> Definition:
        """Return a run as an arm of what begins with the first, where sweeps have a maximum."""
        if self.shape.at_once is None:
            return definition
        begun = self.truth[first].definition.submitted_at if first in self.truth else None
        return replace(
            definition,
            sweep=definition.person,
            at_once=self.shape.at_once,
            after=(),
            submitted_at=definition.submitted_at if begun is None else begun,
        )

    def wall(self, host: Host) -> float:
        """Return what a host takes for the time."""
        return max(0.0, START + self.clockwork.now + host.wall_ahead)

    def _submit(self, queue: Queue, definition: Definition, sweep: Sweep) -> None:
        chance = self.chance
        is_bad = chance.random() < 0.07
        self.truth[definition.name] = Truth(definition, chance.uniform(*self.shape.work), is_bad)
        signed = Signed(objects.definition_text(definition), "signature")
        turn = sweep.turn_of(definition)
        self.rules.submits(definition, sweep)
        self._until_answered(lambda: self._submitted_once(queue, definition, signed, turn))

    def _submitted_once(
        self, queue: Queue, definition: Definition, signed: Signed, turn: int
    ) -> None:
        try:
            queue.submit(definition, signed, turn)
        except Exists:
            # An answer was lost, and it has ended meanwhile.
            found = queue.read(definition.name)
            assert found
            if found.run.definition != objects.sha_of(signed.signed):
                self.rules.broke(f"{definition.name} exists, and is another's")

    def _stop_one(self, queue: Queue, person: str) -> None:
        names = sorted(name for name in self.rules.open if name.startswith(person))
        if names:
            self.stop(queue, self.chance.choice(names), person)

    def stop(self, queue: Queue, name: str, person: str) -> None:
        """Stop a run."""
        self.rules.asks_to_stop(name)
        run = self._until_answered(lambda: queue.stop(name, person))
        if run and run.state == objects.RUNNING:
            self.rules.asked_to_stop(run)

    def _retry_one(self, queue: Queue, person: str) -> None:
        for name, truth in self.truth.items():
            state = self.state(name)
            if (
                state
                and name.startswith(person)
                and state.state in (objects.FAILED, objects.STOPPED)
            ):
                truth.is_bad = False
                self._until_answered(lambda name=name: queue.retry(name, person))
                return

    def _until_answered(self, do: Callable[[], Any]) -> Any:
        while True:
            try:
                return do()
            except NoAnswer:
                self.clockwork.sleep(20.0)

    # Controllers

    def controls(self, host: Host) -> None:
        """Tend the queue by what the API has, as a watcher does."""
        queue = self.queue_of(host)
        while True:
            self.clockwork.sleep(self.shape.tend * self.chance.uniform(0.3, 0.7))
            try:
                queue.tend(take_after=self.take_after, nodes=self.node)
            except NoAnswer:
                continue

    def node(self, owner: objects.Owner) -> Node | None:
        """Answer as the API does, a little later than it was so."""
        slice_ = next(one for one in self.slices if one.name == owner.slice)
        node = f"{slice_.name}-n{slice_.nodes}"
        found = Node(slice_.state, node if slice_.state else "")
        self.clockwork.sleep(self.chance.uniform(0.1, 2.0))
        return None if not self.weather.is_calm and self.chance.random() < 0.1 else found

    # Fate

    def disturbs(self, slice_: Slice) -> None:
        """Do to a slice what happens to slices."""
        chance, clockwork = self.chance, self.clockwork
        while clockwork.now < self.shape.trouble:
            clockwork.sleep(chance.expovariate(1 / self.shape.between))
            if slice_.state == "READY" and clockwork.now < self.shape.trouble:
                chance.choice(self.fates)(slice_)

    @property
    def fates(self) -> list[Callable[[Slice], None]]:
        """Return what can happen to a slice."""
        return [self._preempt, self._reboot, self._freeze, self._cut_off, self._restart_leader]

    def _preempt(self, slice_: Slice) -> None:
        if self.chance.random() < 0.4:
            slice_.is_leaving = True  # the notice
            self.clockwork.sleep(self.chance.uniform(5.0, 60.0))
        slice_.go("PREEMPTED")
        self.clockwork.sleep(self.chance.uniform(10.0, 300.0))
        slice_.state = ""
        self.clockwork.sleep(self.chance.uniform(10.0, 600.0))
        slice_.create()

    def _reboot(self, slice_: Slice) -> None:
        slice_.go("READY")
        self.clockwork.sleep(self.chance.uniform(20.0, 200.0))
        slice_.boot()

    def _freeze(self, slice_: Slice) -> None:
        self.clockwork.freeze(slice_, asleep=False)
        self.clockwork.sleep(self.chance.choice((10.0, 100.0, 700.0, 1500.0)))
        self.clockwork.thaw(slice_)
        self.rules.thawed(slice_)

    def _cut_off(self, slice_: Slice) -> None:
        slice_.is_cut_off = True
        self.clockwork.sleep(self.chance.choice((20.0, 150.0, 400.0, 1000.0)))
        slice_.is_cut_off = False

    def _restart_leader(self, slice_: Slice) -> None:
        if slice_.leader:
            slice_.leader.end()
        slice_.start_leader()

    def jumps(self, hosts: list[Host]) -> None:
        """Set the clocks of hosts wrong, again and again."""
        while True:
            self.clockwork.sleep(self.chance.expovariate(1 / 300.0))
            self.chance.choice(hosts).wall_ahead = self.chance.choice((0.0, -9e5, 3600.0, 1e6))

    # All of it

    def state(self, name: str) -> objects.Submitted | None:
        """Return what the bucket has of a run."""
        return self.rules.states.get(name)

    def is_open(self, name: str) -> bool:
        """Return whether a run has not ended."""
        return name in self.rules.open

    def live(self) -> list[str]:
        """Live the world; return which rules were broken."""
        people = [Host(person) for person in PEOPLE]
        controllers = [Host("watcher"), Host("laptop")][: 1 if self.shape.is_calm else 2]
        steady = self.chance.random() < 0.5
        share = -(-self.shape.runs // len(PEOPLE))
        for host in people:
            is_steady = steady and host.name == "alice"
            do = partial(self.submits, host, host.name, share, is_steady)
            self.clockwork.spawn(host, do)
        for host in controllers:
            self.clockwork.spawn(host, partial(self.controls, host))
        self.weather.is_calm = self.shape.is_calm
        if not self.shape.is_calm and self.shape.has_jumps:
            self.clockwork.spawn(self.network, lambda: self.jumps([*people, *self.slices]))
        for slice_ in self.slices:
            slice_.create()
            if not self.shape.is_calm:
                self.clockwork.spawn(self.network, partial(self.disturbs, slice_))
        self._run(self.shape.trouble)
        self.weather.is_calm = True
        for slice_ in self.slices:
            self.clockwork.thaw(slice_)
        self._calm()
        if not self._is_found():
            self.rules.at_the_end()
        for host in (*self.slices, *people, *controllers, self.network):
            self.clockwork.kill(host)
        return self.rules.broken

    def _calm(self) -> None:
        longest = self.shape.work[1]
        rounds = 2 + 3 * self.shape.runs / self.shape.slices
        until = 2 * self.shape.trouble + 3000.0 + longest * rounds
        while self.clockwork.now < until and not self.rules.is_over() and not self._is_found():
            self.clockwork.run(self.clockwork.now + 60.0)

    def _run(self, until: float) -> None:
        while self.clockwork.now < until and not self._is_found():
            self.clockwork.run(min(until, self.clockwork.now + 60.0))

    def _is_found(self) -> bool:
        return bool(self.words) and any(self.words in one for one in self.rules.broken)

    def told(self) -> str:
        """Return what happened, and before that what was broken."""
        return "\n".join([*self.rules.broken, *self.rules.story])


def worlds(seeds: Iterable[int], shape: Shape, words: str) -> QueueWorld | None:
    """Live one world after the other until a rule is broken in one by these words; return it."""
    for seed in seeds:
        world = QueueWorld(seed, shape)
        world.words = words
        if any(words in one for one in world.live()):
            return world
    return None
