"""Lives of fleets with a budget: watchers count and act, slices are preempted, answers get lost.

A life is drawn from a seed. Its watchers have the real purse, planner and records, over HTTP; the
workers' answers are made up here. What was really spent is added up here once more, from the
trace of the cloud, and by no code of the fleet.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apis import apis_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import FleetApplier
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import (
    Rest,
    RestBook,
    book_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import Spend
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet

from simulation.lives import PACE
from simulation.rules import chips
from simulation.things import OWNER, Thing
from simulation.world import PROJECT, Event, Killed, Process, World
from tpu_fleet.watch import seen as watch_seen
from tpu_fleet.watch.decide import SliceSeen
from tpu_fleet.watch.hosts import HostSeen
from tpu_fleet.watch.memory import Memory
from tpu_fleet.watch.purse import Purse

EVERY = 60.0
"""Seconds between two looks of a watcher."""
ZONE = "us-central1-a"
TYPES = ("v5litepod-4", "v5litepod-8")
PRICE = 1.0
"""Dollars for a chip and an hour, of each tier."""
LOOKS = 150
HEALTHY = 12
"""Looks in a row, without trouble, after which nothing may cost any more that has to end."""
OWN_DISK, BUCKET = "own disk", "bucket"


@dataclass
class Run:
    """The run of a slice, on one node."""

    uid: str
    on: str
    state: str = "running"


@dataclass
class Settings:
    """What a watcher has read in the fleet file."""

    process: Process
    params: Mapping[str, Any]
    prices: list[dict[str, Any]]

    def client(self) -> Any:
        """Return the client of the watcher."""
        return self.process.client

    def rest_book(self, client: Any) -> RestBook:
        """Return the record of the slices that rest."""
        return book_of(client, OWNER, None)


@dataclass
class Clock:
    """The clock of a watcher."""

    world: World

    def now(self) -> float:
        """Return the cloud's time."""
        return self.world.now


@dataclass
class State:
    """As much of a watcher's state as its purse needs."""

    settings: Settings
    clock: Clock
    memory: Memory = field(default_factory=Memory)
    seen: list[SliceSeen] = field(default_factory=list)

    @property
    def ready(self) -> list[str]:
        """The slices that are ready."""
        return [one.name for one in self.seen if one.phase == "ready"]


class Told:
    """What people are notified of."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def tell(self, messages: Any) -> None:
        """Remember the messages."""
        self.keys |= {message.key for message in messages}


class MoneyLife:
    """One life, and what was broken in it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.world = World()
        self.world.on_event.append(self._event)
        self.broken: list[str] = []
        self.runs: dict[str, Run] = {}
        self.memories: dict[str, Memory] = {"one": Memory(), "two": Memory()}
        self.away: set[str] = set()
        self._own_deletion = ""
        self._ready: dict[str, tuple[float, int]] = {}
        self._spent: dict[str, float] = {}
        self._well = 0
        self._draw()

    def _draw(self) -> None:
        chance = self.chance
        kinds = [chance.choice(TYPES) for _slice in range(chance.randint(1, 3))]
        tier = chance.choice(["on_demand", "spot"])
        self.granted = chance.random() < 0.25
        self.budget = {
            "per_day": chance.choice([5.0, 12.0, 30.0]),
            "on_exceed": "delete" if tier == "spot" else chance.choice(["stop", "delete"]),
        }
        slices = [
            {"name": f"s{n}", "accelerator_type": kind, "zone": ZONE, "tier": tier}
            for n, kind in enumerate(kinds)
        ]
        grant = {"zone": ZONE, "generation": "v5e", "tier": tier, "chips": 64}
        self.params: dict[str, Any] = {
            "slices": slices,
            "allocations": [grant] if self.granted else "unrestricted",
            "budget": self.budget,
        }
        self.prices = [
            {"generation": "v5e", "region": "us-central1", "tier": one, "usd_per_chip_hour": PRICE}
            for one in ("on_demand", "spot")
        ]
        self.tier = tier

    # What happens -----------------------------------------------------------------------------

    def live(self) -> None:
        """Let time pass, and watchers look."""
        leader = "one"
        try:
            for _look in range(LOOKS):
                trouble = self._trouble()
                if self.chance.random() < 0.02:
                    leader = "two" if leader == "one" else "one"
                if self.chance.random() < 0.03:
                    self.memories[leader] = Memory()  # killed, and its disk is another
                gap = 30 * EVERY if self.chance.random() < 0.02 else EVERY
                self.world.pass_time(gap)
                self._account()
                self._look(leader, trouble)
        finally:
            self.world.close()

    def _trouble(self) -> bool:
        """Let something go wrong, now and then; return whether it does."""
        chance, cloud = self.chance, self.world.cloud
        nodes = [node for node in cloud.nodes.values() if node.state == "READY"]
        if nodes and self.tier == "spot" and chance.random() < 0.04:
            node = chance.choice(nodes)
            with self.world.by_hand(f"preempt {node.name}"):
                cloud.preempt(node.zone, node.name)
            return True
        self.away = {chance.choice(self._names())} if chance.random() < 0.04 else set()
        return bool(self.away)

    def _names(self) -> list[str]:
        return [entry["name"] for entry in self.params["slices"]]

    def _look(self, who: str, trouble: bool) -> None:
        """One look of a watcher, which may die, or lose an answer, at any request."""
        dies = self.chance.randint(1, 25) if self.chance.random() < 0.12 else None
        process = Process(self.world, dies_at=dies, answered=self.chance.random() < 0.5)
        state = State(
            Settings(process, {"budget": self.budget}, self.prices),
            Clock(self.world),
            self.memories[who],
        )
        purse = Purse(cast(Any, state), cast(Any, Told()), self._halt)
        try:
            self._work(process, state, purse)
        except Killed:
            trouble = True
        except TpuError as error:
            self.world.note(f"        the look failed: {error}")
            trouble = True
        self.memories[who] = state.memory
        self._well = 0 if trouble else self._well + 1
        self._check(purse, dies is not None)

    def _work(self, process: Process, state: State, purse: Purse) -> None:
        book = book_of(process.client, OWNER, None)
        applier = self._controller(process, self.params, book, 0.0)
        plan = applier.plan()
        assert applier.world is not None
        state.seen = watch_seen.slices_of(applier.fleet, applier.world, plan)
        purse.look(applier.fleet, applier.world)
        self._begin_runs()
        finishes = purse.measures(self._answers(state), cast(Any, object())) if purse.acts else {}
        for name, finish in finishes.items():
            self._finish(process, book, name, finish)
        if not finishes and plan.actions:
            applier.apply()

    def _controller(
        self, process: Process, params: dict[str, Any], book: RestBook, timeout: float
    ) -> FleetApplier:
        fleet = Fleet.from_params(params, PROJECT)
        return FleetApplier(
            apis_of(process.client, fleet),
            fleet,
            wait=True,
            timeout=timeout,
            progress=self.world.say,
            strict=False,
            workers=1,
            pace=PACE,
            rest=book.read,
        )

    def _finish(self, process: Process, book: RestBook, name: str, finish: Any) -> None:
        """Do what the module fleet does for `finish`: note it, end the slice, note it again."""
        item = {"name": name, "how": finish.how, "ends": finish.ends, "why": finish.why}
        params = {**self.params, "finish": [item]}
        fleet = Fleet.from_params(params, PROJECT)
        rest = Rest(finish.how, "", ends=finish.ends, why=finish.why, held=True)
        self.world.note(f"        {finish.how} {name}: {finish.why}")
        book.write({name: Rest(**{**vars(rest), "at": self.world.now})})
        self._own_deletion = name if finish.how == "delete" else ""
        applier = self._controller(process, params, book, 600.0)
        assert fleet.stop or fleet.teardown
        result = applier.apply()
        self._own_deletion = ""
        if result.slices[name].fine:
            book.write({name: Rest(**{**vars(rest), "at": self.world.now, "done": True})})

    def _begin_runs(self) -> None:
        """Let a run begin on each new node; where its checkpoints are is a matter of its file."""
        for thing in self._slices():
            name = thing.name
            if thing.state == "READY" and self.runs.get(name, Run("", "")).uid != thing.uid:
                self.runs[name] = Run(thing.uid, self.chance.choice([BUCKET, BUCKET, OWN_DISK]))

    def _halt(self, _book: Any, runs: Any, _by: str) -> dict[str, str]:
        for name in runs:
            self.runs[name].state = "stopped"
        return {}

    def _answers(self, state: State) -> dict[str, dict[str, HostSeen]]:
        found = {}
        for one in state.seen:
            run = self.runs.get(one.name)
            if one.phase != "ready" or run is None:
                continue
            told = RunStatus(
                run="lm", state=run.state, attempt=1, run_id="r", checkpoints_on=run.on
            )
            answer = HostSeen(True, boot_id="b", runs=(told,))
            hosts = {f"{one.name}-w{n}": answer for n in range(max(1, len(one.addresses)))}
            if one.name in self.away:
                hosts = {host: HostSeen(False, "no route") for host in hosts}
            found[one.name] = hosts
        return found

    # What must be true --------------------------------------------------------------------------

    def _slices(self) -> Iterator[Thing]:
        return (t for t in self.world.things.values() if t.is_slice and t.owner == OWNER)

    def _event(self, event: Event) -> None:
        """Add up what is really spent, and see who deletes what."""
        self._account()
        thing = event.thing
        call = event.call
        if call is None or not thing.is_slice or not call.method.endswith(".delete"):
            return
        run = self.runs.get(thing.name)
        going = event.kind == "gone" or thing.state == "DELETING"
        if not going or run is None or run.uid != thing.uid or not self._own_deletion:
            return
        if run.state == "running":
            self.broken.append(f"{thing.name} was deleted while its run was running")
        if run.on == OWN_DISK:
            self.broken.append(f"{thing.name} was deleted with the checkpoints of its run")

    def _account(self) -> None:
        """Count each slice that is ready, from the last time to now, by day."""
        now = self.world.now
        for uid, (since, count) in self._ready.items():
            self._add(count * PRICE, since, now)
            self._ready[uid] = (now, count)
        there = {
            thing.uid: sum(chips(part.accelerator_type) for part in thing.parts)
            for thing in self._slices()
            if thing.state not in ("CREATING", "STOPPED", "PREEMPTED", "TERMINATED")
        }
        self._ready = {uid: self._ready.get(uid, (now, count)) for uid, count in there.items()}

    def _add(self, usd_per_hour: float, begun: float, ended: float) -> None:
        # A life is shorter than a day, and begins at midnight.
        day = f"{datetime.fromtimestamp(begun, UTC):%Y-%m-%d}"
        self._spent[day] = self._spent.get(day, 0.0) + usd_per_hour * (ended - begun) / 3600

    @property
    def really_spent(self) -> float:
        """What was spent today outside of the grant."""
        self._account()
        day = f"{datetime.fromtimestamp(self.world.now, UTC):%Y-%m-%d}"
        return 0.0 if self.granted else self._spent.get(day, 0.0)

    def _check(self, purse: Purse, cut: bool) -> None:
        spend: Spend = purse.spend
        limit = self.budget["per_day"]
        counted = spend.of_day(self.world.now)
        if self.granted and (counted or purse.acts):
            self.broken.append(f"${counted:.2f} counted of what the grant pays")
        # A look that was cut off has counted nothing; an act of this look may have taken a while.
        if not cut and spend.at and not self.granted:
            self._not_too_low(counted, self.world.now - spend.at)
        if self._well >= HEALTHY and self.really_spent > limit and not self.granted:
            self.broken += [
                f"{thing.name} costs although ${self.really_spent:.2f} of ${limit:.2f} are spent"
                for thing in self._slices()
                if thing.uid in self._ready and not self._may_stay(thing)
            ]

    def _not_too_low(self, counted: float, since: float) -> None:
        rate = sum(count for _at, count in self._ready.values()) * PRICE
        most = len(self.params["slices"]) * max(map(chips, TYPES)) * PRICE
        really = self.really_spent - max(rate, most) * since / 3600
        if counted < really - 0.01:
            self.broken.append(f"only ${counted:.2f} were counted of ${really:.2f}")

    def _may_stay(self, thing: Thing) -> bool:
        """Return whether a slice is kept for its checkpoints: it is not stopped, and a spot one."""
        run = self.runs.get(thing.name)
        kept = run is not None and run.uid == thing.uid and run.on == OWN_DISK
        return kept and self.tier == "spot"


def lives(seeds: Iterator[int], found: Callable[[list[str]], bool]) -> MoneyLife | None:
    """Live one life after the other until something is found in one; return it."""
    for seed in seeds:
        life = MoneyLife(seed)
        life.live()
        if found(life.broken):
            return life
    return None
