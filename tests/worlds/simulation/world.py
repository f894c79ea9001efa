"""A local cloud whose time passes only during a sleep, and everything that happens in it.

`World` keeps a trace: after each request and at each moment at which something is due, what there
is now is compared with what there was. `Process` is one life of a controller: it looks at the
cloud over real HTTP, its sleep lets the cloud's time pass, and it can be killed at any request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client

from simulation.things import OWNER, Call, Thing, call_of, things_of
from simulation.wire import ENDPOINT, Answer, Sent, Wire, session_over
from tpu_local_cloud.machines import make_backend
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.store import Store
from tpu_local_cloud.serve.frontend import FrontEnd

PROJECT = "local-project"
# 2026-03-01, midnight UTC: when a world begins.
START = 1772323200.0


class Killed(BaseException):
    """The process of the controller is gone; nothing of it runs any more."""


@dataclass(frozen=True)
class Event:
    """Something that came, changed or went; `by` is client, service or hand."""

    at: float
    kind: str
    thing: Thing
    by: str
    call: Call | None = None

    def __str__(self) -> str:
        return f"{self.at - START:8.1f}  {self.by:7} {self.kind:7} {self.thing}"


class Forgetful(Store):
    """Stores nothing, because no cloud of the simulation starts again."""

    def save_all(self, kind: str, documents: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Write nothing."""

    def delete(self, kind: str, key: str) -> None:
        """There is nothing to delete."""


class World:
    """One cloud, its time, and the trace of what happened."""

    def __init__(self) -> None:
        self.cloud = Cloud(
            make_backend("none", Path()),
            Forgetful(None),
            Clock("manual", start=START),
            project=PROJECT,
        )
        self.front = FrontEnd(self.cloud)
        self.lock = threading.RLock()
        self.things: dict[tuple[str, str, str], Thing] = {}
        self.trace: list[Event | str] = []
        # What looks at each event, and at each request before it is carried out.
        self.on_event: list[Callable[[Event], None]] = []
        self.on_call: list[Callable[[Call], None]] = []
        # What looks at the answers to lists.
        self.on_answer: list[Callable[[Call, Any], None]] = []
        # What looks at the lists that are refused.
        self.on_refusal: list[Callable[[Call], None]] = []
        # Whose request is carried out, and when it was sent.
        self.caller, self.sent = OWNER, START
        # When each thing came, by its uid.
        self.born: dict[str, float] = {}
        self._agenda: list[tuple[float, Callable[[], None]]] = []
        self._said: set[str] = set()

    def close(self) -> None:
        """Let go of what the cloud holds."""
        self.cloud.close()

    @property
    def now(self) -> float:
        """Return the cloud's time."""
        return self.cloud.clock.now()

    @property
    def wall(self) -> datetime:
        """Return the cloud's time of day."""
        return datetime.fromtimestamp(self.now, UTC)

    def note(self, text: str) -> None:
        """Write a line into the trace."""
        self.trace.append(f"{self.now - START:8.1f}  {text}")

    def begin_life(self, text: str) -> None:
        """Note that a controller starts; it may say again what the one before has said."""
        self._said.clear()
        self.note(f"        {text}")

    def say(self, line: str) -> None:
        """Write down what a controller says, if it is new."""
        if line not in self._said:
            self._said.add(line)
            self.note(line)

    def story(self, last: int = 150) -> str:
        """Return the end of the trace as text."""
        return "\n".join(str(item)[:300] for item in self.trace[-last:])

    # Time ---------------------------------------------------------------------------------------

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something by hand when the time has come."""
        self._agenda.append((self.now + seconds, action))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, from one moment at which something is due to the next."""
        with self.lock:
            until = self.now + max(0.0, seconds)
            while True:
                due = [t.due for t in self.cloud.tasks.values() if not t.started]
                due += [moment for moment, _action in self._agenda]
                moment = min([m for m in due if self.now < m <= until], default=until)
                self.cloud.clock.advance(max(0.0, moment - self.now))
                self.cloud.advance()
                self.observe("service")
                self._act()
                if moment >= until:
                    return

    def _act(self) -> None:
        ready = [item for item in self._agenda if item[0] <= self.now]
        self._agenda = [item for item in self._agenda if item[0] > self.now]
        for _moment, action in ready:
            action()

    # What happens -------------------------------------------------------------------------------

    @contextmanager
    def by_hand(self, text: str) -> Iterator[None]:
        """Note what the test itself does to the cloud."""
        with self.lock:
            self.note(f"hand    {text}")
            yield
            self.observe("hand")

    def thing_of(self, call: Call) -> Thing | None:
        """Return what a request is about; of a machine the group that it belongs to."""
        found = self.things.get((call.what, call.zone, call.name))
        if found is not None or call.what != "instance":
            return found
        groups = (t for t in self.things.values() if t.what == "group" and t.zone == call.zone)
        return next((group for group in groups if call.name in group.machines), None)

    def observe(self, by: str, call: Call | None = None) -> None:
        """Compare what there is with what there was, and report it to the observers."""
        now = {thing.key: thing for thing in things_of(self.cloud)}
        before, self.things = self.things, now
        events = []
        for key, thing in now.items():
            old = before.get(key)
            if old is None or old.uid != thing.uid:
                if old is not None:
                    events.append(Event(self.now, "gone", old, by, call))
                events.append(Event(self.now, "created", thing, by, call))
            elif old.state != thing.state:
                events.append(Event(self.now, "state", thing, by, call))
            elif old != thing:
                events.append(Event(self.now, "changed", thing, by, call))
        events += [
            Event(self.now, "gone", old, by, call) for key, old in before.items() if key not in now
        ]
        for event in events:
            self.trace.append(event)
            self.born.setdefault(event.thing.uid, self.now)
            for watch in self.on_event:
                watch(event)


class Process:
    """One life of a controller; it is also the clock of its client."""

    def __init__(
        self,
        world: World,
        *,
        dies_at: int | None = None,
        answered: bool = False,
        interrupted_at: int | None = None,
        during: dict[int, Callable[[], None]] | None = None,
        owner: str = OWNER,
        gate: Callable[[], None] = lambda: None,
    ) -> None:
        self.world = world
        self.owner = owner
        self._gate = gate
        self.calls: list[Call] = []
        self.sleeps = 0
        self.dead = False
        self._dies_at, self._answered = dies_at, answered
        self._interrupted_at = interrupted_at
        self._during = dict(during or {})
        self._thread = threading.current_thread()
        self.client = Client(
            PROJECT,
            endpoint=ENDPOINT,
            clock=self,
            session=session_over(Wire(world.front, self._cut)),
        )

    def now(self) -> float:
        """Return the cloud's time."""
        return self.world.now

    def sleep(self, seconds: float) -> None:
        """Let the cloud's time pass; a person may press Ctrl-C meanwhile."""
        self._gate()
        with self.world.lock:
            self._check()
            self.world.pass_time(seconds)
            self.sleeps += 1
            if self.sleeps == self._interrupted_at and threading.current_thread() is self._thread:
                self.world.note("hand    Ctrl-C")
                raise KeyboardInterrupt
            self._check()

    def _check(self) -> None:
        if self.dead:
            raise Killed

    def _die(self, when: str) -> None:
        self.dead = True
        self.world.note(f"hand    the controller is killed {when} request {len(self.calls)}")
        raise Killed

    def _cut(self, request: Sent, exchange: Callable[[], Answer]) -> Answer:
        world = self.world
        sent = world.now
        self._gate()
        with world.lock:
            self._check()
            call = call_of(request)
            self.calls.append(call)
            count = len(self.calls)
        # Not under the lock: another controller may go on meanwhile.
        if count in self._during:
            self._during.pop(count)()
        with world.lock:
            world.caller, world.sent = self.owner, sent
            last = count == self._dies_at
            if last and not self._answered:
                self._die("before")
            # What is due happens first, so that the request is to blame for the rest only.
            world.pass_time(0)
            if call.changes:
                world.note(f"client  {call.method} {call.zone}/{call.name}")
            for watch in world.on_call:
                watch(call)
            try:
                answer = exchange()
                if call.method.endswith(".list") and answer.status_code == 200:
                    told = json.loads(answer.content) if b"unreachable" in answer.content else {}
                    for look in world.on_answer:
                        look(call, told)
                if call.method.endswith(".list") and answer.status_code == 403:
                    for look_at in world.on_refusal:
                        look_at(call)
                if call.changes and answer.status_code != 200:
                    world.note(f"        -> {answer.status_code} {answer.text[:300]!r}")
            except requests.exceptions.ConnectionError:
                world.note(f"        -> connection lost ({call.method})")
                raise
            finally:
                world.observe("client", call)
                if last:
                    self._die("after")
            return answer


class Beside:
    """A second controller, which goes on by one request whenever the first one lets it.

    It has a thread of its own, of which the other one waits: there is one order of things.
    """

    def __init__(self, world: World, live: Callable[[Process], Any], owner: str) -> None:
        self.over = False
        self.result: Any = None
        self._process = Process(world, owner=owner, gate=self._wait)
        self._live = live
        self._turn, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._error: BaseException | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def go_on(self) -> None:
        """Let it work until its next request or pause."""
        if self.over:
            return
        self._turn.release()
        self._back.acquire()
        if self._error is not None:
            raise self._error

    def finish(self) -> Any:
        """Let it work until it ends; return what it says."""
        while not self.over:
            self.go_on()
        return self.result

    def _wait(self) -> None:
        self._back.release()
        self._turn.acquire()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            self.result = self._live(self._process)
        except BaseException as error:
            self._error = error
        finally:
            self.over = True
            self._back.release()
