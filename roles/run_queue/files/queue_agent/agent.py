"""One worker's loop: look, report, read the order, do the one thing due; worker 0 leads as well."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import time
from types import FrameType

from run_agent.act import store
from run_agent.act.definitions import key_of
from run_agent.act.metadata import Watch
from run_agent.decide.values import one_line
from run_agent.talk import keys, systemd, wire
from run_agent.talk.refusals import Refusals

from .act.bucket import MachinesBucket
from .act.hands import Hands
from .act.install import Installed, Verified
from .act.machine import Machine
from .act.replaced import Replaced
from .act.units import Units
from .act.venvs import Venvs
from .decide import member
from .decide.messages import NONE, Order, Report
from .decide.settings import Places, parse
from .lead import Lead
from .shared._queue.store import Queue
from .talk.words import QUEUE

_TICK, _SOON = 1.0, 0.1
_SOON_FOR = 5.0
_CHIPS = 5.0
_METADATA = 5.0
_LAST = 40.0
"""Seconds for which a machine that is switched off may try to give its run back."""


class Agent:
    """Runs until SIGTERM."""

    def __init__(self, places: Places) -> None:
        """Read what the role wrote."""
        self.settings = parse(store.read(places.settings / "settings.json") or {})
        own = self.settings
        self._places = places
        self._ends: float | None = None
        self._retires = False
        self._hear_signals()
        self._units = Units(own.systemctl)
        verified = Verified(own, places)
        self._installed = Installed(own, places, self._units, verified)
        self._machine = Machine(places)
        self._venvs = Venvs(own, places, self._units)
        self._hands = Hands(own, self._installed, self._wake)
        self._broom = Hands(own, self._installed, self._wake)
        self._replaced = Replaced()
        self._watch = Watch(own.metadata, _METADATA)
        places.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._keys = keys.Keys(key_of(places.settings / "key"), places.state / "key.json")
        self._bucket = MachinesBucket(own)
        self._lead = Lead(own, places, Queue(self._bucket), verified) if own.leads else None
        if own.leads and len(own.hosts) > 1:
            self._keys.make()
        self._about = f" queue of {own.slice}"  # no run has such a name
        self._client = wire.Client(self._about, own.worker, own.port, own.hosts, self._keys, QUEUE)
        self._server: wire.Server[Report, Order] | None = None
        self._refusals = Refusals()
        self._order: Order | None = None
        self._held, self._held_looked = "", float("-inf")
        self._changed = time.monotonic()
        self._deaf = ""

    def run(self) -> None:
        """Serve the queue until a signal ends it."""
        while True:
            begun = time.monotonic()
            if self._lead is not None and len(self.settings.hosts) > 1:
                self._serve()
            before = self._order
            if not self._broom.is_busy:
                self._installed.going = ""
            here = self._installed.here(before.run if before else "")
            self._exchange(here)
            self._act(here)
            if self._lead is not None:
                self._lead.leaving = self._lead.leaving or self._why_it_leaves()
                self._lead.step()
            self._tell()
            if self._is_over():
                return
            if before != self._order:
                self._changed = begun
            if not self._has_more(here):
                # Worker 0 is woken by what happens to its own jobs and run.
                others = len(self.settings.hosts) > 1 and begun - self._changed < _SOON_FOR
                soon = others or self._hands.is_busy
                self._wait((_SOON if soon else _TICK) - (time.monotonic() - begun))

    def close(self) -> None:
        """End all that works beside the loop."""
        if self._server is not None:
            self._server.close()
        if self._lead is not None:
            self._lead.close()
        self._client.close()
        self._watch.close()
        self._replaced.close()
        self._bucket.close()

    def _exchange(self, here: member.Here) -> None:
        venv = self._order.venv if self._order else self._venvs.name
        build, trouble = self._venvs.follow(venv)
        report = Report(
            worker=self.settings.worker,
            run=here.run,
            claim=here.claim,
            state=here.state,
            problem=self._hands.problem,
            final=self._hands.final,
            tried=self._hands.about[0],
            tried_claim=self._hands.about[1],
            busy="" if here.run else self._chips_held(),
            venv=venv,
            build=build,
            trouble=trouble,
        )
        if self._lead is not None:
            self._order = self._lead.exchange(report)
        else:
            # Without an answer all stays as it is: the agents of the run end it, if they are alone.
            self._order = self._client.exchange(report)

    def _chips_held(self) -> str:
        now = time.monotonic()
        if now - self._held_looked > _CHIPS:
            self._held, self._held_looked = one_line(self._machine.chips_held()), now
        return self._held

    def _act(self, here: member.Here) -> None:
        todo = member.decide(self._order, here)
        if todo == member.WAIT or self._order is None or here.run == self._installed.going != "":
            return
        if todo == member.REMOVE and self._goes_beside(here):
            self._broom.do(todo, Order(NONE, here.run, claim=here.claim), here.run)
            self._installed.going = here.run if self._broom.is_busy else ""
        else:
            self._hands.do(todo, self._order, here.run)

    def _goes_beside(self, here: member.Here) -> bool:
        """Return whether the next run may come while this one is being removed.

        Its program has ended. Agents of a gang would have the same port.
        """
        alone = len(self.settings.hosts) == 1
        return alone and self._machine.has_ended(here.run, here.claim)

    def _has_more(self, here: member.Here) -> bool:
        """Return whether there is something to do at once."""
        news = self._lead is not None and self._lead.order != self._order
        return news or here.run == self._installed.going != ""

    def _why_it_leaves(self) -> str:
        if self._watch.preempted:
            return f"{self.settings.slice} was preempted"
        if self._retires:
            return f"{self.settings.slice} does not serve the queue any more"
        if self._ends is not None and self._units.goes_for_good():
            return f"{self.settings.slice} was switched off"
        return ""

    def _is_over(self) -> bool:
        """Return whether this program ends now. A claim is kept over its restart and a reboot."""
        if self._ends is None:
            return False
        gives_back = self._lead is not None and self._lead.has_run and bool(self._lead.leaving)
        return not gives_back or time.monotonic() - self._ends > _LAST

    def _serve(self) -> None:
        if self._lead is None or (self._server is not None and self._server.alive):
            return
        own = self.settings
        try:
            self._server = wire.Server(
                *(self._about, own.port, own.hosts, self._keys, QUEUE),
                *(self._lead.exchange, self._refusals.note),
                hands_out=True,
            )
            self._deaf = ""
        except OSError as error:  # the address may come up after us
            why = os.strerror(error.errno or errno.EIO)
            self._deaf = f"cannot listen on {own.hosts[0]}:{own.port}: {why}"

    def _tell(self) -> None:
        parts = [
            self._lead.doing if self._lead else "serves worker 0",
            self._lead.rule_problem if self._lead else "",
            *(self._hands.problem, self._deaf, self._keys.error, self._client.problem),
            *self._refusals.shown(),
        ]
        systemd.tell("; ".join(part for part in parts if part))

    def _hear_signals(self) -> None:
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, self._note_signal)
        systemd.tell("begins", ready=True)

    def _note_signal(self, number: int, _frame: FrameType | None = None) -> None:
        if number == signal.SIGUSR1:
            self._retires = True
        elif self._ends is None:
            self._ends = time.monotonic()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._waker, b"\0")

    def _wait(self, seconds: float) -> None:
        """Wait, but not after a signal, a job, or news from the agent of the run."""
        if seconds <= 0:
            return
        run = self._order.run if self._order else ""
        news = self._replaced.watch(self._installed.folder(run)) if run else []
        if self._woken in select.select([self._woken, *news], [], [], seconds)[0]:
            os.read(self._woken, 4096)
        self._replaced.take()


def look_after(places: Places) -> int:
    """Run until a signal ends it."""
    try:
        agent = Agent(places)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(one_line(f"the settings cannot be read: {error}"), file=sys.stderr)
        return 1
    agent.run()
    agent.close()
    return 0
