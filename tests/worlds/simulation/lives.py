"""One test run as a state machine: a fleet file, a cloud, others who act, controllers that die."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from typing import Any
from unittest import mock

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import Backoff
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apis import apis_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import FleetApplier, Pace
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.cloud import Cloud
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.tpu_api import TpuApi
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._wire import transport as _transport
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from simulation import scenarios
from simulation.rules import Declared, Rules, claims_on, generation, is_dead
from simulation.scenarios import AROUND, AROUND_BOTH, Around, Deed, Neighbour
from simulation.things import COMPUTE, NEIGHBOUR, TPU
from simulation.world import PROJECT, START, Beside, Killed, Process, World

# How long a fleet may take once nothing is in its way: requests that wait for each other, twice.
CALM_SECONDS = 6 * 3600.0
CALM_LIVES = 3
# A few long pauses instead of many: the moments that matter lie between them anyway.
PACE = Pace(poll=Backoff(first=2.0, factor=2.0, most=120.0), report=120.0)
# At which of its requests a controller may die: most lives are short.
REQUESTS = st.one_of(st.integers(1, 8), st.integers(1, 30))


def fleet_of(params: dict[str, Any]) -> Fleet:
    """Return a fleet, also one whose file alone shows that it leaves the grant.

    The rules of the file would refuse it before the planner had to; the planner is what is tested.
    """
    return Fleet.from_params(params, PROJECT)


def controller(
    process: Process,
    params: dict[str, Any],
    timeout: float,
    api: Callable[[Client, Fleet], Cloud] = lambda client, _fleet: TpuApi(client),
) -> FleetApplier:
    """Return a controller as the module `fleet` makes it, with one worker: steps have an order."""
    fleet = fleet_of(params)
    return FleetApplier(
        api(process.client, fleet),
        fleet,
        wait=True,
        timeout=timeout,
        progress=process.world.say,
        strict=False,
        workers=1,
        pace=PACE,
    )


def controller_of_both(process: Process, params: dict[str, Any], timeout: float) -> FleetApplier:
    """Return a controller that knows both APIs, as all do."""
    return controller(process, params, timeout, apis_of)


@contextmanager
def wrong_clock(world: World, hours: int) -> Iterator[None]:
    """Let the clock of the computer be wrong: it shows another time."""
    wrong = timedelta(hours=hours)

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Wrong:
            there = world.wall + wrong
            return cls.fromtimestamp(there.timestamp(), tz)

    with (
        mock.patch.object(_transport, "datetime", Wrong),
        mock.patch.object(time, "time", side_effect=lambda: (world.wall + wrong).timestamp()),
    ):
        yield


def _go_on(before: Callable[[], None], beside: Beside, steps: int) -> None:
    before()
    for _step in range(steps):
        beside.go_on()


class Lives(RuleBasedStateMachine):
    """Whatever happens, the rules hold; and when it ends, the fleet is as declared."""

    calm_seconds = CALM_SECONDS
    make_controller: Callable[[Process, dict[str, Any], float], Any] = staticmethod(controller)

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.rules = Rules(self.world)
        self.params: dict[str, Any] = {"slices": [], "allocations": None}

    # What happens -------------------------------------------------------------------------------

    @initialize(
        params=scenarios.fleets(),
        there=st.lists(scenarios.strangers(), max_size=3),
        on=st.lists(scenarios.faults(), max_size=2),
        asleep=st.sampled_from([False, False, True]),
    )
    def begin(
        self, params: dict[str, Any], there: list[Deed], on: list[dict[str, Any]], asleep: bool
    ) -> None:
        """There is a fleet file, and the project is not empty."""
        self.start(params, there, on, asleep)

    def start(
        self, params: dict[str, Any], there: list[Deed], on: list[dict[str, Any]], asleep: bool
    ) -> None:
        """Make what there is in the beginning."""
        self.params = params
        for deed in scenarios.stopped_slices(params) if asleep else ():
            scenarios.do(self.world, deed)
        for deed in there:
            scenarios.do(self.world, deed)
        for fault in on:
            scenarios.switch_on(self.world, fault)

    @rule(
        names=st.lists(st.sampled_from(scenarios.NAMES), min_size=1, max_size=2), back=st.booleans()
    )
    def file_changes(self, names: list[str], back: bool) -> None:
        """The person takes slices out of the fleet file, or gives them other labels."""
        kept = []
        for entry in self.params["slices"]:
            if entry["name"] not in names:
                kept.append(entry)
            elif back:
                kept.append({**entry, "labels": {"team": "c"}})
        self.params = {**self.params, "slices": kept or self.params["slices"]}

    @rule(seconds=st.sampled_from([-1, 600, 3600]), stop=st.booleans())
    def the_grant_is_shortened(self, seconds: float, stop: bool) -> None:
        """The person finds out that the grant ends earlier, and may stop what is there."""
        if stop:
            for which in range(len(self.world.cloud.nodes)):
                scenarios.do(self.world, Deed("stop", which))
            self.world.pass_time(60)
        ends = self.world.now - START + seconds
        grant = scenarios.shortened(self.params["allocations"], ends)
        self.params = {**self.params, "allocations": grant}

    @rule(around=AROUND)
    def a_controller_runs(self, around: Around) -> None:
        """A controller works until it is done, or its time is over."""
        self.life(around)

    @rule(around=AROUND, at=REQUESTS, answered=st.booleans())
    def a_controller_is_killed(self, around: Around, at: int, answered: bool) -> None:
        """It ends at one of its requests, before or after that was carried out."""
        self.life(around, dies_at=at, answered=answered)

    @rule(around=AROUND, at=st.integers(1, 8))
    def a_person_interrupts(self, around: Around, at: int) -> None:
        """It ends by Ctrl-C while it waits."""
        self.life(around, interrupted_at=at)

    def life(self, around: Around, **end: Any) -> None:
        """Others act, things go wrong, and a controller does its work for a while."""
        world = self.world
        if around.neighbour is not None:
            # What two may leave is certain only where each of them sees all.
            world.cloud.faults.clear()
        for fault in around.trouble if around.neighbour is None else ():
            scenarios.switch_on(world, fault)
        for deed in around.deeds:
            scenarios.do(world, deed)
        world.pass_time(around.pause)
        during = {
            number: functools.partial(scenarios.do, world, deed)
            for number, deed in around.during.items()
        }
        beside = self._beside(around.neighbour, during)
        with wrong_clock(world, around.skew):
            result = self.live(Process(world, during=during, **end), around.timeout)
            # Who is gone looks at nothing any more.
            if beside is not None and beside.finish() is not None and result is not None:
                self.rules.overrun()
        self.check()

    def _beside(
        self, neighbour: Neighbour | None, during: dict[int, Callable[[], None]]
    ) -> Beside | None:
        """Let the controller of another fleet make its steps between our requests."""
        if neighbour is None:
            return None
        params, timeout = neighbour.params(self.params), neighbour.timeout
        beside = Beside(self.world, functools.partial(self._neighbour, params, timeout), NEIGHBOUR)
        for number, steps in neighbour.steps.items():
            before = during.get(number, lambda: None)
            during[number] = functools.partial(_go_on, before, beside, steps)
        return beside

    def _neighbour(self, params: dict[str, Any], timeout: float, process: Process) -> Any:
        try:
            return self.make_controller(process, params, timeout).apply()
        except TpuError as error:
            self.world.note(f"        the neighbour gave up: {error}")
        return None

    # What must be true --------------------------------------------------------------------------

    def live(self, process: Process, timeout: float) -> Any:
        """Let a controller run until it ends, one way or another; return what it says."""
        self.world.begin_life(f"a controller starts, {timeout:.0f} s")
        self.rules.begin(Declared(self.params))
        try:
            return self.make_controller(process, self.params, timeout).apply()
        except (Killed, KeyboardInterrupt) as end:
            self.world.note(f"        the controller ended: {type(end).__name__}")
        except TpuError as error:
            self.world.note(f"        the controller gave up: {error}")
        return None

    def check(self, *problems: str) -> None:
        """Fail, with the story of how it came to that."""
        found = [*self.rules.broken, *problems]
        if found:
            shown = "\n".join(found)
            raise AssertionError(f"{shown}\n\n{self.params}\n\n{self.world.story()}")

    def teardown(self) -> None:
        """When nothing is in the way any more, the fleet becomes as declared, and stays so."""
        try:
            if not self.rules.broken and self.params["slices"]:
                self.calm()
        finally:
            self.world.close()

    def calm(self) -> None:
        """Let the fleet converge, and look at it."""
        world = self.world
        scenarios.soon_over(world)
        # What was made a moment ago may still be out of sight, and nobody's to prune.
        world.pass_time(60)
        started, result = world.now, None
        for _life in range(CALM_LIVES):
            result = self.live(Process(world), self.calm_seconds)
            self.check()
            lost = any(fault["kind"] == "unreachable" for fault in world.cloud.faults.list())
            lost = lost or bool(self.rules.lost)
            world.cloud.faults.clear()
            # What is in a zone that does not answer is left to the next controller.
            if result is not None and not result.timed_out and not lost:
                break
        self.check(*self.not_as_declared(result))
        if world.now - started > self.calm_seconds * CALM_LIVES:
            self.check("it took too long until the fleet was as declared")
        world.cloud.faults.clear()
        if result is not None:
            self.again(result)

    def again(self, first: Any) -> None:
        """A second apply plans nothing and changes nothing; what was refused may be asked again."""
        refused = frozenset(name for name, s in first.slices.items() if s.phase == "refused")
        self.rules.refused = refused
        self.rules.begin(Declared(self.params))
        plan = self.make_controller(Process(self.world), self.params, 60).plan()
        for action in plan.actions:
            if not (action.kind.startswith("create") and action.slice in refused):
                self.check(f"the second plan is not empty: {action}")
        result = self.live(Process(self.world), 60)
        if result is None or result.changed:
            self.check(f"the second apply changed something: {result and result.actions}")
        self.rules.refused = None

    def not_as_declared(self, result: Any) -> list[str]:
        """Return what the cloud holds otherwise than the fleet file, without a good reason."""
        declared = Declared(self.params)
        if result is None:
            return ["the controller gave up although nothing was in its way"]
        problems = []
        for name in declared.slices:
            status = result.slices[name]
            problems += self._one(declared, name, str(status.text))
        if declared.prune:
            problems += [
                f"not pruned: {thing}"
                for thing in self.world.things.values()
                if thing.ours and not thing.names & set(declared.slices)
            ]
        return problems

    def _one(self, declared: Declared, name: str, said: str) -> list[str]:
        world, entry = self.world, declared.slices[name]
        things = list(world.things.values())
        claims = claims_on(name, things)
        if len(claims) > 1:
            return [f"{len(claims)} slices with the name {name}: {'; '.join(map(str, claims))}"]
        if claims:
            thing = claims[0]
            if thing.state == "READY" and self.as_declared(declared, thing):
                return []
            if thing.state == "STOPPED" and self.as_declared(declared, thing) and said:
                could = self._could_start(declared, thing)
                return [f"{name} could be started, and is not ({said}): {thing}"] if could else []
            # What differs may not be made anew, or not without leaving the grant.
            stays = not entry.get("recreate") or not self._places(declared, name, but=thing)
            if thing.is_slice and thing.state in ("READY", "STOPPED") and said and stays:
                return []
            return [f"{name} is not as declared ({said}): {thing}"]
        if not said:
            return [f"{name} is not there, and nobody says why"]
        here = [t for t in things if t.name == name and (t.parts or t.api != COMPUTE)]
        left = [t for t in here if t.ours or entry.get("adopt")]
        if left and entry.get("on_preempt") == "keep":
            return []
        places = self._places(declared, name)
        return [f"{name} could be in {place}, and is not ({said})" for place in places]

    def _places(self, declared: Declared, name: str, but: Any = None) -> list[tuple[str, str]]:
        """Return where a slice could be, if one thing were not there."""
        places = declared.places(name)
        return [place for place in places if self._could(declared, name, place, but=but)]

    def as_declared(self, declared: Declared, node: Any) -> bool:
        """Say whether a node is what the file declares."""
        part, entry = node.parts[0], declared.slices[node.name]
        return (
            (node.zone, part.accelerator_type) in declared.places(node.name)
            and node.api == declared.api(node.name)
            and part.tier == declared.tier(node.name)
            and all(part.labels.get(k) == v for k, v in (entry.get("labels") or {}).items())
        )

    def _could_start(self, declared: Declared, node: Any) -> bool:
        """Say whether the grant has room for a stopped node."""
        part = node.parts[0]
        things = [thing for thing in self.world.things.values() if thing is not node]
        place = (node.zone, part.accelerator_type)
        fits = declared.fits(place, part.tier, node.api, things, self.world.wall)
        return fits and not is_dead(node)

    def _could(self, declared: Declared, name: str, place: tuple[str, str], *, but: Any) -> bool:
        """Say whether a place offers the type, has the name free, and the grant has room."""
        (zone, kind), api = place, declared.api(name)
        offered = scenarios.FAMILIES[generation(kind)][0]
        if zone not in (offered if api == TPU else scenarios.COMPUTE_ZONES):
            return False
        things = [thing for thing in self.world.things.values() if thing is not but]
        where = (zone, zone.rpartition("-")[0])
        if any(t.zone in where and t.name == name and t.api == api and not t.ours for t in things):
            return False
        return declared.fits(place, declared.tier(name), api, things, self.world.wall)


class BothLives(Lives):
    """The same for a fleet that has slices of both APIs."""

    make_controller = staticmethod(controller_of_both)

    @initialize(
        params=scenarios.fleets_of_both(),
        there=st.lists(scenarios.strangers_of_both(), max_size=2),
        on=st.lists(scenarios.faults_of_both(), max_size=2),
        asleep=st.sampled_from([False, False, True]),
    )
    def begin(
        self, params: dict[str, Any], there: list[Deed], on: list[dict[str, Any]], asleep: bool
    ) -> None:
        """There is a fleet file, and the project is not empty."""
        self.start(params, there, on, asleep)

    @rule(entry=scenarios.changed_slices())
    def a_slice_changes(self, entry: dict[str, Any]) -> None:
        """The person writes a slice again, perhaps for the other API."""
        kept = [one for one in self.params["slices"] if one["name"] != entry["name"]]
        self.params = {**self.params, "slices": [*kept, entry]}

    @rule(around=AROUND_BOTH)
    def a_controller_runs(self, around: Around) -> None:
        """A controller works until it is done, or its time is over."""
        self.life(around)

    @rule(around=AROUND_BOTH, at=REQUESTS, answered=st.booleans())
    def a_controller_is_killed(self, around: Around, at: int, answered: bool) -> None:
        """It ends at one of its requests, before or after that was carried out."""
        self.life(around, dies_at=at, answered=answered)

    @rule(around=AROUND_BOTH, at=st.integers(1, 8))
    def a_person_interrupts(self, around: Around, at: int) -> None:
        """It ends by Ctrl-C while it waits."""
        self.life(around, interrupted_at=at)

    @rule(around=AROUND_BOTH, at=st.one_of(st.none(), REQUESTS), which=st.integers(0, 3))
    def a_slice_is_taken_down(self, around: Around, at: int | None, which: int) -> None:
        """A person has a slice deleted, and it may come back later."""
        declared = self.params
        name = declared["slices"][which % len(declared["slices"])]["name"]
        self.params = {**declared, "teardown": [name]}
        self.life(around, dies_at=at)
        self.params = declared

    def calm(self) -> None:
        """Let the fleet converge, and look at it; then have it deleted."""
        super().calm()
        names = [entry["name"] for entry in self.params["slices"]]
        self.params = {**self.params, "teardown": names}
        result = self.live(Process(self.world), self.calm_seconds)
        left = [t for t in self.world.things.values() if t.ours and t.names & set(names)]
        if result is None or result.timed_out:
            self.check("the teardown did not end")
        self.check(*(f"left after the teardown: {thing}" for thing in left))
