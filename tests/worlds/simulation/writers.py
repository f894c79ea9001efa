"""A run whose slice is lost and created again, with its checkpoints and its fence in a bucket.

The decisions are the agent's own: the leader and the gang, what worker 0 looks at and writes before
an attempt, and what stands beside the program. Made up are time, machines, network, processes and
the bucket's server, so that each of them can fail at any moment. A life is drawn from a seed.
"""

from __future__ import annotations

import http.client
import json
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, unquote, urlsplit

import object_server

from simulation.tasks import START, Clockwork, Host, HostTime, Task

# The agent lies in a role, where no import path leads.
sys.path.insert(0, str(Path(__file__).parents[3] / "roles/training_run/files"))

from run_agent.act import (
    as_user,
    bucket_guard,
    bucket_requests,
    environment,
    fence_object,
    helper,
    preparation,
    terminal,
)
from run_agent.decide import checkpoints, member, status
from run_agent.decide.config import Config, Paths, Timing
from run_agent.decide.gang_state import GATHERING, Report
from run_agent.decide.run_states import FAILED, SUCCEEDED
from run_agent.talk import clock as gang_clock
from run_agent.talk import leader as gang_leader

from simulation.writer_rules import BUCKET, STILL, Rules

FENCE = "lm/.tpu-fleet-attempt.lm"
STORAGE = "http://127.0.0.1:1"
DEFINITION = "d"
TICK, LOST, GRACE = 1.0, 30.0, 45.0
EVERY, REQUEST = 10.0, fence_object.SECONDS
PROMISE = 2 * EVERY + REQUEST + 2.0
"""Seconds after which a program that is over has ended, once its machines see the bucket."""
TROUBLE_SECONDS, CALM_SECONDS = 700.0, 420.0
"""How long things go wrong in a life, and for how long they do not then."""
REFUSALS = {"403": 403, "429": 429, "503": 503}
KINDS = (*REFUSALS, "silent", "reset", "lost answers")


class Objects(object_server.Objects):
    """The bucket, and what became of its objects."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def upload(self, query: dict[str, str], data: bytes) -> tuple[int, Any]:
        """Write an object for an agent; a program's come by `put`."""
        done = super().upload(query, data)
        if done[0] == 200:
            self._world.rules.agent_wrote(query["name"], data, self._world.programs())
        return done

    def answer(
        self, method: str, path: str, query: dict[str, str], data: bytes = b""
    ) -> tuple[int, Any]:
        """Answer; see what is deleted."""
        done = super().answer(method, path, query, data)
        if method == "DELETE" and done[0] == 204:
            self._world.rules.broke(f"an agent deleted {path}")
        return done


class Connection:
    """As much of http.client's connection as the agent uses."""

    def __init__(self, world: World, _netloc: str, timeout: float) -> None:
        self.timeout = timeout
        self.sock = SimpleNamespace(settimeout=self._settle)
        self._world = world
        self._wait, self._answer = timeout, (0, b"", "")
        self._lost: OSError | None = None

    def _settle(self, seconds: float) -> None:
        self._wait = seconds

    def request(self, method: str, path: str, body: Any = None, headers: Any = None) -> None:
        """Send a request, which may be carried out, or not."""
        world = self._world
        host = world.clockwork.host
        assert isinstance(host, Machine)
        trouble, latency = world.weather(host)
        self._lost, self._later = None, latency / 2
        if trouble == "reset":
            raise ConnectionResetError("reset")
        world.clockwork.sleep(latency / 2)
        if trouble == "silent":
            self._lost = TimeoutError("timed out")
            return
        if trouble in REFUSALS:
            self._answer = (REFUSALS[trouble], b"{}", "")
            return
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        code, found = world.objects.answer(method, parts.path, query, body or b"")
        name = unquote(parts.path.rpartition("/o/")[2])
        is_content = isinstance(found, bytes) and method == "GET"
        generation = world.objects.items[name]["generation"] if is_content else ""
        self._answer = (code, _bytes(found), generation)
        if trouble == "lost answers":
            self._lost = TimeoutError("timed out")

    def getresponse(self) -> Any:
        """Return the answer, if it is not lost."""
        sleep = self._world.clockwork.sleep
        if self._lost is not None or self._later > self._wait:
            sleep(self._wait)
            raise self._lost or TimeoutError("timed out")
        sleep(self._later)
        code, body, generation = self._answer
        parts = iter([body] if body else [])
        return SimpleNamespace(
            status=code,
            headers={"x-goog-generation": generation},
            read1=lambda _most: next(parts, b""),
            close=lambda: None,
        )

    def close(self) -> None:
        """There is nothing to close."""


def _bytes(found: Any) -> bytes:
    if isinstance(found, bytes) or found is None:
        return found or b""
    return object_server._json(found)


class Kept:
    """A file on the disk of a machine."""

    error = ""

    def __init__(self, path: Path, _spare: Path, world: World) -> None:
        host = world.clockwork.host
        assert isinstance(host, Machine)
        self._disk, self._name = host.disk, path.name

    def load(self) -> dict[str, Any] | None:
        """Return what was written last."""
        return self._disk.get(self._name)

    def save(self, data: dict[str, Any]) -> None:
        """Write."""
        self._disk[self._name] = dict(data)


class Thread:
    """A thread; one of a program's parent ends with it."""

    def __init__(
        self,
        world: World,
        target: Callable[..., None],
        args: Any,
        daemon: bool,
        parent: Task | None,
    ) -> None:
        assert daemon
        self._world, self._parent = world, parent
        self._body = lambda: target(*args)
        self._task: Task | None = None

    def start(self) -> None:
        """Begin."""
        host = self._world.clockwork.host
        assert host is not None
        self._task = self._world.clockwork.spawn(host, self._body, self._parent)

    def is_alive(self) -> bool:
        """Return whether it goes on."""
        return self._task is not None and not self._task.is_over

    def join(self, seconds: float) -> None:
        """Wait for its end."""
        clockwork = self._world.clockwork
        until = clockwork.now + seconds
        while self.is_alive() and clockwork.now < until:
            clockwork.sleep(0.1)


def look(world: World, argv: list[str]) -> Any:
    """Do what the process does that looks at the fence; it may outlive the agent that began it."""
    asked = json.loads(argv[-1])
    world.rules.searched_from(asked["claim"])
    return SimpleNamespace(out=json.dumps(fence_object.answer(asked)).encode())


class Heard:
    """The file in which an agent notes that worker 0 has answered."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def stat(self) -> Any:
        """Return its time."""
        return SimpleNamespace(st_mtime=self._machine.heard)


@dataclass(eq=False)
class Program:
    """A program of an attempt on one worker: it saves, part by part."""

    machine: Machine
    attempt: int
    owner: str
    pid: int
    place: str
    task: Task = field(init=False)
    code: int | None = None
    signal: int | None = None
    over: bool = False
    asked_to_stop: bool = False
    writing: str = ""

    @property
    def is_stopped(self) -> bool:
        """Return whether it is held."""
        return self.task.is_held

    def ended(self) -> None:
        """Note the end."""
        self.over = True
        self.machine.programs.pop(self.pid, None)


class Hand:
    """Sees a disk that is never full."""

    def free_bytes(self, _folder: Path) -> int:
        """Return a number of bytes."""
        return 1 << 40


class Machine(Host):
    """One worker: what its disk keeps, and what runs there."""

    def __init__(self, world: World, name: str, index: int, config: Config) -> None:
        super().__init__(name)
        self.world, self.index = world, index
        self.config = config
        self.peers: list[Machine] = []
        self.disk: dict[str, dict[str, Any]] = {}
        self.boot = 0
        self.boot_id = ""
        self.record: dict[str, Any] | None = None
        self.result: dict[str, Any] | None = None
        self.heard = 0.0
        self.programs: dict[int, Program] = {}
        self.parents: dict[int, Task] = {}
        self.leader: gang_leader.Leader | None = None
        self.agent_task: Task | None = None
        self.leaving = False
        self.away_until = -1.0
        self.cut_off_until = -1.0
        self.trouble = ""
        self.disturbances: list[tuple[float, float, str]] = []

    # Its life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Boot."""
        self.boot += 1
        self.boot_id = f"{self.name} {self.boot}"
        self.record = self.result = None
        self.heard = 0.0
        self.parents.clear()
        self.start_agent()

    def start_agent(self) -> None:
        """Begin the agent, beside whatever runs."""
        self.leader = None
        self.leaving = False
        self.agent_task = self.world.clockwork.spawn(self, self._agent)

    @property
    def leads(self) -> Machine:
        """Return worker 0 of its gang."""
        return self.peers[0]

    def is_up(self) -> bool:
        """Return whether it runs."""
        return self.is_there and self.frozen_since is None

    def _agent(self) -> None:
        world, config = self.world, self.config
        clock = world.time
        memory = status.Memory.from_json(self.disk.get("status", {}), DEFINITION)
        leader = gang_leader.Leader(config, self.boot_id) if config.leader else None
        self.leader = leader
        ready = preparation.Preparation(config, Hand())  # type: ignore[arg-type]
        order: member.Order | None = None
        answered = born = clock.monotonic()
        signalled: float | None = None
        cause = ""
        while True:
            idle = memory.program != "running"
            if not idle:
                seen = self._look_at_program(memory, clock.monotonic() - born)
                memory = seen.memory
                if not seen.alive:
                    if signalled is not None and not memory.fenced:
                        memory = replace(memory, cause=cause)
                    memory = status.ended(memory, memory.cause, clock.time())
                    signalled, cause = None, ""
                    self.kill_programs()
                    ready.forget()
            elif self.programs:
                self.kill_programs()  # those of an agent that lost its memory
            phase = leader.gang.phase if leader else order.phase if order else ""
            blocked, leaving = "", self.leaving
            if memory.program != "running" and phase in (GATHERING, "") and not leaving:
                blocked = ready.obstacle(leader.gang if leader else None)
            # An agent that was ended before it saw its name may come again.
            world.rules.named.setdefault(ready.named, world.clockwork.now)
            sent = clock.monotonic()
            report = Report(
                worker=self.index,
                boot_id=self.boot_id,
                definition=DEFINITION,
                last_started=memory.attempt,
                program=memory.program,
                exit_code=memory.exit_code,
                signal=memory.signal,
                cause=memory.cause,
                leaving=leaving,
                sent=sent,
                heard=order.token if order else "",
                blocked=blocked,
                **facts_of(ready),
            )
            answer = world.exchange(self, report)
            if answer is not None:
                order, answered = answer, sent
                if leader is None:
                    self.note_heard(order)
            local = member.Local(
                definition=DEFINITION,
                last_started=memory.attempt,
                program=memory.program,
                exit_code=memory.exit_code,
                silence=clock.monotonic() - answered,
                stopping_for=None if signalled is None else clock.monotonic() - signalled,
                ended=memory.ended,
                leaving=leaving,
            )
            todo = member.decide(order, local, LOST, GRACE)
            if todo == member.START and order is not None:
                memory = status.begun(memory, order, self.boot_id, clock.time())
                self.disk["status"] = {**asdict(memory), "definition": DEFINITION}
                born, signalled = clock.monotonic(), None
                ready.forget()
                self._begin(order)
            elif todo in (member.SIGNAL, member.KILL):
                cause = cause or member.stop_cause(order, local, LOST)
                signalled = clock.monotonic() if signalled is None else signalled
                for one in self.programs.values():
                    one.asked_to_stop = True
                if todo == member.KILL:
                    self.kill_programs()
            memory = status.remember(memory, order, DEFINITION)
            self.disk["status"] = {**asdict(memory), "definition": DEFINITION}
            if todo == member.EXIT:
                self._leave(ready)
                return
            clock.sleep(TICK)

    def _leave(self, ready: preparation.Preparation) -> None:
        """Do what the agent does last."""
        if self.leader is not None:
            if self.config.workers > 1:
                self.world.time.sleep(2.0)
            until = self.world.time.monotonic() + 5.0
            while self.leader.ending() and self.world.time.monotonic() < until:
                self.world.time.sleep(TICK)
            gang = self.leader.ended()
            if gang is not None and not self.programs:
                ready.release(gang, 5.0)
        self.leader = None

    def _look_at_program(self, memory: status.Memory, age: float) -> status.Seen:
        def started(parent: int) -> int | None:
            return parent if parent in self.parents else None

        return status.look(memory, self.record, self.result, self.boot_id, started, age)

    def note_heard(self, order: member.Order) -> None:
        """Note that worker 0 has answered that it reads the fence."""
        if order.guards:
            self.heard = bucket_guard.now()

    def kill_programs(self) -> None:
        """Send SIGKILL."""
        for one in list(self.programs.values()):
            one.signal = 9
            one.task.end()

    # The program's parent -----------------------------------------------------------------------

    def _begin(self, order: member.Order) -> None:
        config = self.config
        owner = order.token.partition(" ")[0]
        told = terminal._fence(config, order.run_id, order.attempt, owner)
        env = {
            "TPU_FLEET_CHECKPOINT_DIR": environment.checkpoint_dir(config, order.attempt),
            "TPU_FLEET_RESTORE_DIR": "" if config.attempt_folders else config.checkpoint_dir,
        }
        launch = {"fence": told, "env": env, "look_every": config.timing.fence_in_bucket}
        self.record = self.result = None
        number = self.world.number()
        task = self.world.clockwork.spawn(
            self, lambda: self._parent(number, launch, order.attempt, owner), after=0.2
        )
        self.parents[number] = task
        task.ends.append(lambda: self.parents.pop(number, None) and None)

    def _parent(self, number: int, launch: dict[str, Any], attempt: int, owner: str) -> None:
        """Do what `program.py` does."""
        world, clock = self.world, self.world.time
        result: dict[str, Any] = {"attempt": attempt, "exit_code": None, "signal": None}
        guard = bucket_guard.BucketGuard(launch, lambda _text: None)
        if guard._heard is not None:
            guard._heard = Heard(self)  # type: ignore[assignment]
        begun, asked = clock.monotonic(), world.clockwork.now
        try:
            out = guard.claim()
        except bucket_guard.NotNamed as error:
            self.result = {**result, "end": clock.time(), "not_started": str(error)}
            return
        if clock.monotonic() - begun > bucket_guard.LATE_SECONDS:
            return
        if out:
            self.result = {**result, "end": clock.time(), "fenced": out}
            return
        clock.sleep(world.chance.choice([0.01, 0.1]))
        place = launch["env"]["TPU_FLEET_CHECKPOINT_DIR"]
        one = Program(self, attempt, owner, world.number(), place.partition("lab/")[2])
        restore = launch["env"]["TPU_FLEET_RESTORE_DIR"]
        world.rules.started(one, asked, restore)
        step = world.newest_step(restore)
        one.task = world.clockwork.spawn(self, lambda: self._program(one, step))
        one.task.ends.append(one.ended)
        self.programs[one.pid] = one
        self.record = {"attempt": attempt, "pid": one.pid, "parent": number}
        self.record["parent_started"] = number
        guard.watch(one.pid)
        while not one.over:
            clock.sleep(1.0)
        code = None if one.signal else one.code
        result.update(exit_code=code, signal=one.signal, end=clock.time())
        if guard.shut_out:
            result["fenced"] = guard.shut_out
        self.result = result

    def _program(self, one: Program, step: int) -> None:
        """Train: each worker writes its part of a step, worker 0 the mark when all are there."""
        world, clock = self.world, self.world.time
        parts = [f"d/{worker}" for worker in range(self.config.workers)]
        pace, key = world.pace, (one.attempt, one.owner)
        while True:
            step += 1
            if key in world.finished:
                self._save_at_the_end(one, step)
                one.code = 0
                return
            if self.index == 0:
                world.put(one, f"{step}/_CHECKPOINT_METADATA")
            for number in range(4):
                clock.sleep(pace / 4)
                world.put(one, f"{step}/rest/{self.index}.{number}")
                if one.asked_to_stop:
                    self._save_at_the_end(one, step)
                    return
            clock.sleep(0.3)
            world.put(one, f"{step}/{parts[self.index]}")
            while not all(world.wrote(one, f"{step}/{part}") for part in parts):
                clock.sleep(0.5)
                if key in world.finished:
                    break
                if one.asked_to_stop:
                    return
            if self.index == 0:
                world.put(one, f"{step}/commit_success.txt")
                world.rotate(one, step)
                if world.chance.random() < world.done_chance:
                    world.finished.add(key)
                    one.code = 0
                    return
            while not world.wrote(one, f"{step}/commit_success.txt"):
                clock.sleep(0.5)
                if key in world.finished:
                    break
                if one.asked_to_stop:
                    return

    def _save_at_the_end(self, one: Program, step: int) -> None:
        for number in range(self.world.chance.choice([1, 10, 40])):
            self.world.put(one, f"{step}/last/{self.index}.{number}")
            self.world.time.sleep(1.0)
        one.code = 1


def facts_of(ready: preparation.Preparation) -> dict[str, Any]:
    """Return what a report says of the fence."""
    names = ("floor", "run_id", "elsewhere", "named")
    return {name: getattr(ready, name) for name in names}


@dataclass
class Slice:
    """One time that the slice was created."""

    number: int
    machines: list[Machine]


class World:
    """A bucket, the machines of a slice that is lost again and again, and what goes wrong."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.clockwork = Clockwork()
        self.time = HostTime(self.clockwork)
        self.workers = self.chance.choice([1, 2, 2])
        self.own_folders = self.chance.random() < 0.5
        self.pace = self.chance.choice([3.0, 6.0, 15.0])
        self.done_chance = self.chance.choice([0.0, 0.0, 0.02, 0.1])
        self.rules = Rules(self.clockwork, FENCE, PROMISE, self.own_folders)
        self.objects = Objects(self)
        self.slices: list[Slice] = []
        self.finished: set[tuple[int, str]] = set()
        self.is_calm = False
        self._written: dict[str, tuple[int, str]] = {}
        self._numbers = 0
        self._hand, self._network = Host("hand"), Host("network")

    @property
    def broken(self) -> list[str]:
        """Return what was broken."""
        return self.rules.broken

    def number(self) -> int:
        """Return another number each time."""
        self._numbers += 1
        return self._numbers

    def machines(self) -> list[Machine]:
        """Return all that are there, also those of lost slices."""
        return [one for made in self.slices for one in made.machines if one.is_there]

    def story(self) -> str:
        """Return what happened, as text."""
        return "\n".join(self.rules.story)

    # A life -------------------------------------------------------------------------------------

    def live(self) -> None:
        """Let things go wrong for a while, and then not."""
        with self._patched():
            self.clockwork.spawn(self._hand, self._create)
            self.clockwork.spawn(self._hand, self._go_wrong, after=20.0)
            self.clockwork.spawn(self._hand, self._look)
            try:
                self.clockwork.run(TROUBLE_SECONDS)
                self._calm()
                self.clockwork.run(TROUBLE_SECONDS + 150.0)
                self._take_back()
                self.clockwork.run(TROUBLE_SECONDS + CALM_SECONDS)
                self._goes_on()
            finally:
                for host in [*self.machines(), self._hand, self._network]:
                    self.clockwork.kill(host)

    @contextmanager
    def _patched(self) -> Iterator[None]:
        fake = SimpleNamespace(
            HTTPConnection=lambda netloc, timeout: Connection(self, netloc, timeout),
            HTTPSConnection=None,
            HTTPException=http.client.HTTPException,
        )
        users = SimpleNamespace(
            run_as=lambda _user, argv, _env, **_more: look(self, argv), UserError=as_user.UserError
        )
        timed = (
            *(bucket_guard, bucket_requests, fence_object, preparation, terminal),
            *(gang_clock, gang_leader, object_server),
        )
        with ExitStack() as stack:
            for module in timed:
                stack.enter_context(mock.patch.object(module, "time", self.time))
            for module, name, value in (
                (bucket_requests, "http", SimpleNamespace(client=fake)),
                (gang_leader, "Kept", lambda path, spare: Kept(path, spare, self)),
                (helper, "threading", SimpleNamespace(Thread=self._looks_thread, Event=Event)),
                (helper, "as_user", users),
                (terminal, "user_environment", lambda _user: {}),
                (bucket_guard, "processes", Processes(self)),
                (bucket_guard, "threading", SimpleNamespace(Thread=self._guards_thread)),
            ):
                stack.enter_context(mock.patch.object(module, name, value))
            yield

    def _guards_thread(self, target: Callable[..., None], args: Any, daemon: bool) -> Thread:
        return Thread(self, target, args, daemon, self.clockwork.task)

    def _looks_thread(self, target: Callable[..., None], args: Any, daemon: bool) -> Thread:
        return Thread(self, target, args, daemon, None)

    # What goes wrong ----------------------------------------------------------------------------

    def _create(self) -> None:
        """Create the slice, with disks on which nothing is."""
        number = len(self.slices) + 1
        hosts = [f"10.{number}.0.{worker}" for worker in range(self.workers)]
        machines = [
            Machine(self, f"s{number}w{worker}", worker, self._config(hosts, worker))
            for worker in range(self.workers)
        ]
        for machine in machines:
            machine.peers = machines
        self.slices.append(Slice(number, machines))
        self.rules.note(f"create  {number}")
        for machine in machines:
            machine.start()

    def _config(self, hosts: list[str], worker: int) -> Config:
        return Config(
            run="lm", definition=DEFINITION, user="u", command="", workdir="", hosts=hosts,
            worker=worker, port=3, peer_port=1, coordinator_port=2, checkpoint_dir="gs://lab/lm",
            retries=10**6, fail_fast_seconds=600.0, stop_signal="TERM", grace_seconds=GRACE,
            multislice={}, paths=Paths(Path("/s"), Path("/r"), Path("/l/run.log")),
            timing=Timing(lost=LOST), log_bytes=0, log_files=0, slice="pair", storage=STORAGE,
            min_free_bytes=0, fence="lm", attempt_folders=self.own_folders,
        )  # fmt: skip

    def _go_wrong(self) -> None:
        deeds: dict[Callable[[], None], int] = {
            self._preempt: 4, self._stand_still: 4, self._take_bucket_away: 4, self._cut_off: 2,
            self._reboot: 1, self._restart_agent: 3, self._crash: 2, self._jump: 2,
            self._take_back: 2, self._clean_up: 1, self._shut_down: 4, self._stop_agent: 2,
        }  # fmt: skip
        while not self.is_calm:
            self.clockwork.sleep(self.chance.expovariate(1 / 20))
            if not self.is_calm:
                self.chance.choices(list(deeds), list(deeds.values()))[0]()

    def _one(self) -> Machine | None:
        there = self.machines()
        return self.chance.choice(there) if there else None

    def _later(self, seconds: float, deed: Callable[[], None]) -> None:
        self.clockwork.spawn(self._hand, deed, after=seconds)

    def _preempt(self) -> None:
        """Lose the slice; its machines end, go on, or stand still and wake."""
        chance, lost = self.chance, self.slices[-1]
        self.rules.note(f"preempt {lost.number}")
        fate = chance.choice(["end", "go on", "stand still", "stand still", "each its own"])
        for machine in lost.machines:
            own = chance.choice(["end", "go on", "stand still"]) if fate == "each its own" else fate
            if own == "end":
                self._remove(machine)
                continue
            if own == "stand still":
                self._freeze(machine, chance.choice([15.0, 40.0, 90.0, 200.0]))
                if chance.random() < 0.2:
                    self._later(chance.uniform(30.0, 200.0), machine_deed(machine, self._boot))
            seconds = chance.uniform(60.0, 400.0)
            self._later(seconds, machine_deed(machine, self._remove))
        for _twin in range(chance.choice([1, 1, 1, 2])):
            if not self.is_calm:
                self._later(chance.choice([1.0, 1.0, 5.0, 30.0]), self._create)

    def _shut_down(self) -> None:
        """Take the slice back with notice: its machines are told to stop, and are gone later."""
        lost = self.slices[-1]
        self.rules.note(f"notice  {lost.number}")
        for machine in lost.machines:
            machine.leaving = True
            self._later(self.chance.uniform(2.0, 60.0), machine_deed(machine, self._remove))
        for _twin in range(self.chance.choice([1, 1, 1, 2])):
            self._later(self.chance.choice([1.0, 5.0, 10.0, 30.0]), self._create)

    def _stop_agent(self) -> None:
        """Send SIGTERM to one agent; it comes back, unless its machine goes."""
        machine = self._one()
        if machine is None:
            return
        self.rules.note(f"stop    {machine.name}")
        machine.leaving = True

        def again() -> None:
            if machine.is_up() and machine.leaving:
                self._start_agent(machine)

        self._later(self.chance.uniform(3.0, 60.0), again)

    def _remove(self, machine: Machine) -> None:
        if machine.is_there:
            self.rules.note(f"gone    {machine.name}")
            self.clockwork.kill(machine)
            machine.is_there = False

    def _stand_still(self) -> None:
        machine = self._one()
        if machine is not None:
            self._freeze(machine, self.chance.choice([3.0, 8.0, 14.0, 18.0, 25.0, 40.0]))

    def _freeze(self, machine: Machine, seconds: float) -> None:
        if not machine.is_up():
            return
        asleep = self.chance.random() < 0.5
        self.rules.note(f"still   {machine.name} for {seconds} {asleep=}")
        self.clockwork.freeze(machine, asleep)
        until = self.clockwork.now + seconds
        machine.disturbances.append((self.clockwork.now, until, STILL))

        def wake() -> None:
            if machine.is_there:
                self.rules.note(f"wakes   {machine.name}")
                self.clockwork.thaw(machine)

        self._later(seconds, wake)

    def _take_bucket_away(self) -> None:
        chance, seconds = self.chance, self.chance.choice([3.0, 12.0, 30.0, 80.0])
        kind = chance.choice(KINDS)
        machines = self.machines() if chance.random() < 0.4 else [self._one()]
        for machine in machines:
            if machine is not None:
                self._lose_bucket(machine, kind, seconds)

    def _lose_bucket(self, machine: Machine, kind: str, seconds: float) -> None:
        now = self.clockwork.now
        self.rules.note(f"bucket  {kind} for {machine.name} for {seconds}")
        machine.trouble, machine.away_until = kind, now + seconds
        machine.disturbances.append((now, now + seconds + REQUEST, BUCKET))

    def _cut_off(self) -> None:
        machine = self._one()
        if machine is not None:
            machine.cut_off_until = self.clockwork.now + self.chance.choice([5.0, 20.0, 60.0])

    def _reboot(self) -> None:
        machine = self._one()
        if machine is not None:
            self._boot(machine)

    def _boot(self, machine: Machine) -> None:
        if machine.is_there:
            self.rules.note(f"reboot  {machine.name}")
            self.clockwork.kill(machine)
            machine.start()

    def _restart_agent(self) -> None:
        machine = self._one()
        if machine is None or not machine.is_up():
            return
        self._start_agent(machine)

    def _start_agent(self, machine: Machine) -> None:
        self.rules.note(f"agent   {machine.name} restarts")
        if machine.agent_task is not None:
            machine.agent_task.end()
        machine.leader = None
        machine.start_agent()

    def _crash(self) -> None:
        machine = self._one()
        for one in list(machine.programs.values()) if machine and machine.is_up() else []:
            self.rules.note(f"crash   attempt {one.attempt} on {one.machine.name}")
            self.rules.crashes += 1
            one.code = 1
            one.task.end()

    def _jump(self) -> None:
        machine = self._one()
        if machine is not None:
            machine.wall_ahead += self.chance.choice([-3600.0, -12.0, -6.0, 6.0, 3600.0])

    def _take_back(self) -> None:
        """Do what `tpu-fleet retry` does where the declared slice has failed."""
        leader = self.slices[-1].machines[0]
        if leader.is_up() and leader.leader and leader.leader.gang.phase == FAILED:
            self.rules.note(f"retry   {leader.name}")
            self._blame(leader.leader.gang)
            with self.clockwork.on(leader):
                leader.leader.again()

    def _clean_up(self) -> None:
        """Do what `tpu-fleet checkpoints --delete-leftovers` does."""
        found = [checkpoints.thing_of(item, "lm/") for item in self.objects.items.values()]
        things = [one for one in found if one is not None and not checkpoints.is_fence(one.name)]
        units = checkpoints.units_of(things)
        for unit in checkpoints.leftovers(checkpoints.judged(units)):
            self.rules.deletes(f"lm/{unit.name}", self.programs())
            for name in [n for n in self.objects.items if n.startswith(f"lm/{unit.name}/")]:
                del self.objects.items[name]
                self._written.pop(name, None)

    def _calm(self) -> None:
        """Let all trouble end, and what is left of lost slices."""
        self.is_calm = True
        for made in self.slices[:-1]:
            for machine in made.machines:
                self._remove(machine)
        if not all(machine.is_there for machine in self.slices[-1].machines):
            self._create()
            for machine in self.slices[-2].machines:
                self._remove(machine)
        for machine in self.machines():
            self.clockwork.thaw(machine)
            if machine.leaving:
                self._start_agent(machine)
            machine.away_until = machine.cut_off_until = -1.0
        self.rules.note("calm")

    def _goes_on(self) -> None:
        leader = self.slices[-1].machines[0].leader
        if leader is not None and leader.gang.phase == SUCCEEDED:
            return
        last = max(self.rules.whole.values(), default=0.0)
        if self.clockwork.now - last > 120.0:
            gang = leader.gang if leader else None
            self.rules.broke(f"the run does not go on: {gang and (gang.phase, gang.reason)}")

    def _blame(self, gang: Any) -> None:
        """A run has failed only because another has it that came later, or had never been there."""
        if "fenced by" not in gang.reason:
            self.rules.broke(f"the run has failed: {gang.reason}")
            return
        taker = self.rules.marks[-1][1].owner
        since = [at for at, mark in self.rules.marks if mark.owner == gang.owner]
        if since and self.rules.named.get(taker, since[0]) < since[0]:
            self.rules.broke(f"{taker} came again, after {gang.owner} had taken over from it")

    def _look(self) -> None:
        while True:
            self.clockwork.sleep(2.0)
            for one in self.programs():
                self.rules.look_at(one)

    def programs(self) -> list[Program]:
        """Return all that run."""
        return [one for machine in self.machines() for one in machine.programs.values()]

    # The network --------------------------------------------------------------------------------

    def weather(self, machine: Machine) -> tuple[str, float]:
        """Return what happens to a request, and how long its answer takes."""
        chance, now = self.chance, self.clockwork.now
        latency = chance.uniform(0.02, 0.2) if chance.random() < 0.85 else chance.uniform(0.5, 4.5)
        if now < machine.away_until:
            return machine.trouble, latency
        if not self.is_calm and chance.random() < 0.01:
            machine.disturbances.append((now, now + REQUEST, BUCKET))
            return chance.choice(KINDS), latency
        return "", latency

    def exchange(self, machine: Machine, report: Report) -> member.Order | None:
        """Carry a report to worker 0, and its order back."""
        first = machine.peers[0]
        if first is not machine:
            if self._is_cut(machine, first):
                self.clockwork.sleep(2.0)
                return None
            self.clockwork.sleep(0.02)
        if first.leader is None or self._is_cut(machine, first):
            return None
        with self.clockwork.on(first):
            order = first.leader.exchange(report)
        self.rules.decided(first.leader.gang)
        return order if first is machine or self.chance.random() < 0.99 else None

    def _is_cut(self, machine: Machine, first: Machine) -> bool:
        return first is not machine and not (
            first.is_up() and self.clockwork.now > max(first.cut_off_until, machine.cut_off_until)
        )

    # The programs' objects ----------------------------------------------------------------------

    def newest_step(self, restore: str) -> int:
        """Return the newest step with a mark in a folder."""
        prefix = f"{restore.removeprefix('gs://lab/')}/"
        marked = [
            name.removeprefix(prefix).split("/")
            for name in self.objects.items
            if restore and name.startswith(prefix) and name.endswith("/commit_success.txt")
        ]
        return max((int(parts[0]) for parts in marked if len(parts) == 2), default=0)

    def put(self, one: Program, name: str) -> None:
        """Write an object; what is on its way arrives, whatever becomes of the program."""
        while self.clockwork.now < one.machine.away_until:
            self.clockwork.sleep(1.0)
        self.rules.saves(one)
        whole_name, latency = f"{one.place}/{name}", self.chance.uniform(0.05, 0.5)
        one.writing = f"{one.place}/{name.partition('/')[0]}"

        def arrive() -> None:
            if whole_name in self.objects.items:
                self.rules.overwrites(one, whole_name)
            self.objects.put(whole_name, START + self.clockwork.now, 100)
            self._written[whole_name] = (one.attempt, one.owner)
            if name.endswith("/commit_success.txt"):
                self._whole(one, whole_name.rpartition("/")[0])

        self.clockwork.spawn(self._network, arrive, after=latency)
        self.clockwork.sleep(latency + 0.01)

    def _whole(self, one: Program, folder: str) -> None:
        parts = {f"{folder}/d/{worker}": (0, "") for worker in range(self.workers)}
        parts |= {n: who for n, who in self._written.items() if n.startswith(f"{folder}/d/")}
        self.rules.became_whole(one, folder, parts)

    def wrote(self, one: Program, name: str) -> bool:
        """Return whether an object is there that the attempt has written."""
        return self._written.get(f"{one.place}/{name}") == (one.attempt, one.owner)

    def rotate(self, one: Program, step: int) -> None:
        """Delete all but the last two steps of the program's own folder."""
        for name in list(self.objects.items):
            rest = name.removeprefix(f"{one.place}/").split("/")
            if name.startswith(f"{one.place}/") and rest[0].isdigit() and int(rest[0]) < step - 1:
                del self.objects.items[name]
                self._written.pop(name, None)
                self.rules.whole.pop(f"{one.place}/{rest[0]}", None)


class Processes:
    """The processes of a machine, by the numbers of its programs."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _found(self, pid: int) -> Program | None:
        host = self._world.clockwork.host
        assert isinstance(host, Machine)
        return host.programs.get(pid)

    def start_time(self, pid: int) -> int | None:
        """Return a number as long as the process is there."""
        return pid if self._found(pid) else None

    def descendants(self, _pid: int) -> list[int]:
        """Return none: a program has no children."""
        return []

    def send(self, pids: Any, number: int, _uid: int) -> None:
        """Send a signal."""
        for one in filter(None, map(self._found, pids)):
            if number == signal.SIGKILL:
                one.signal = number
                one.task.end()
            elif number == signal.SIGSTOP:
                self._world.clockwork.hold(one.task)
            elif number == signal.SIGCONT:
                self._world.clockwork.let_go(one.task)


def machine_deed(machine: Machine, deed: Callable[[Machine], None]) -> Callable[[], None]:
    """Return something to do with a machine later."""
    return lambda: deed(machine)


def lives(seeds: Iterator[int], found: Callable[[list[str]], bool]) -> World | None:
    """Live one life after the other until something is found in one; return it."""
    for seed in seeds:
        world = World(seed)
        world.live()
        if found(world.broken):
            return world
    return None
