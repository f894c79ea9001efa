"""The watcher's loop: look, understand, let playbooks do it, tell; from anywhere, at any time."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._compute.client import Compute
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import (
    PASSING,
    CredentialsError,
    TpuError,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import boottime
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import shown_text
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import FleetApplier
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import KEEP
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_targets import Fleet

from ..notify.message import Message
from ..notify.send import NotSentError, RefusedError, send, ways_of
from ..workers.play import PlayError, play
from . import after, ask_hosts, decide, seen, tell, trouble
from .clock import SteadyClock
from .decide import Finish, Job, Outcome, SliceSeen
from .ground import Ground, Settings, auth_here, read_settings
from .hosts import HostSeen, hear
from .jobs import Jobs, end_left_over
from .lease import ProjectLease
from .memory import Memory, load

Looks = Mapping[str, Mapping[str, HostSeen]]
LOG = logging.getLogger("tpu-fleet-watch")
PATIENCE = {
    "api": 300.0,
    "away": 900.0,
    # Nothing that a person has to hear of at night: it is in the log and the status.
    "lease": math.inf,
    "notify": 300.0,
    "provision": 600.0,
    # Somebody may just have come; then it is in use, and that is no trouble.
    "rest": 60.0,
    "setup": 300.0,
}
"""How many seconds a trouble lasts until people hear of it; others are told at once."""
BOOK_REST = 60.0
"""Seconds until workers that are not known yet are looked for again."""
LONGEST = 600.0
"""However often the API did not answer, it is asked again after so many seconds."""
MOVING = 10.0
"""Seconds between two looks while something is on its way."""


@dataclass(frozen=True)
class Options:
    """How to go about it."""

    interval: float = 30.0
    hosts_every: float = 300.0
    playbooks: int = 4
    lease: float = 900.0


class Watcher:
    """Watches over one fleet."""

    def __init__(self, ground: Ground, options: Options) -> None:
        self.ground = ground
        self.options = options
        self.memory: Memory = load(ground.memory)
        self.clock = SteadyClock(self.memory.clock)
        if self.clock.other_boot:
            self.memory = self.memory.after_a_boot()
        self._saved: Memory | None = None
        self.settings: Settings | None = None
        self._stamp = ""
        self._applier: FleetApplier | None = None
        self._lease: ProjectLease | None = None
        self._until = 0.0
        # A fleet file that could not be read, and when it is tried again.
        self._bad = ""
        self._read_at = 0.0
        self._leads = False
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._jobs = Jobs(ground.playbooks, self._wake.set)
        self._outcomes: list[Outcome] = []
        self.seen: list[SliceSeen] = []
        self._others: list[str] = []
        self._finishes: dict[str, Finish] = {}
        self._runs: list[dict[str, Any]] = []
        self._looked_at = 0.0
        # By the clock of the jobs.
        self._look_began = 0.0
        self._next_look = 0.0
        self._hosts_at = 0.0
        self._hosts_soon = False
        self._book_at = 0.0
        self._failures = 0
        self._began = self.clock.now()

    # Its life ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Have it end soon."""
        self._stop.set()
        self._wake.set()

    def run(self, once: bool = False) -> bool:
        """Watch until it is stopped; or once, until there is nothing left to do just now.

        Says whether the last look was one.
        """
        for pid in end_left_over(self.memory.pids):
            LOG.info("ended the playbook %s that an earlier watcher left", pid)
        LOG.info("watching as %s, every %g s", self.ground.holder, self.options.interval)
        try:
            while not self._stop.is_set():
                self._wake.clear()
                self._tick_safely()
                if once and not self._jobs.running and not self._outcomes:
                    break
                self._wake.wait(self._pause())
        finally:
            self._end()
        return not self._failures

    def _end(self) -> None:
        self._jobs.end(10.0)
        if self._lease is not None and self._lease.holds(self.clock.now()):
            try:
                self._lease.give_back()
            except TpuError as error:
                LOG.info("the lease was not given back, it runs out by itself: %s", error.message)
        self._leads = False
        self.save()
        LOG.info("ended")

    def _pause(self) -> float:
        now = self.clock.now()
        due = self._next_look
        ways = [way for way, _entry in ways_of(list(self.settings.notify))] if self.settings else []
        mail = self.memory.outbox.next_at(ways, now)
        if mail is not None:
            due = min(due, mail)
        return max(0.2, due - now)

    def _tick_safely(self) -> None:
        """Let no mistake of ours be the end of the watch."""
        try:
            self.tick()
        except Exception:
            LOG.exception("this should not happen; the watch goes on")
            self._failures += 1
            self._next_look = self.clock.now() + self._back_off()

    def tick(self) -> None:
        """Do what is to be done now."""
        now = self.clock.now()
        self._outcomes += self._jobs.finished()
        if now >= self._next_look or self._outcomes:
            self._look(now)
        # Who saw nothing does nothing.
        if self._leads and not self._failures:
            self._begin_jobs(self.clock.now())
        self._deliver()
        self.save()

    # Looking -----------------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        self._read_settings()
        if self.settings is None:
            self._failures += 1
            self._next_look = now + self._back_off()
            return
        try:
            self._leads = self._lead(now)
            if self._leads:
                self.look_at_slices()
        except TpuError as error:
            self._failures += 1
            key = "credentials" if isinstance(error, CredentialsError) else "api"
            self._worse(key, str(error))
            if key == "credentials":
                self._forget_clients()
            self._next_look = self.clock.now() + self._back_off()
            return
        self._failures = 0
        self._better("api", "credentials")
        moving = any(one.phase in ("coming", "clearing") for one in self.seen)
        rest = min(MOVING, self.options.interval) if moving else self.options.interval
        self._next_look = self.clock.now() + rest
        if self._leads:
            self._take_outcomes()
            self._look_at_hosts()
        self._outcomes = []

    def _back_off(self) -> float:
        return trouble.pause(self._failures, self.options.interval, LONGEST)

    def _read_settings(self) -> None:
        """Read the fleet file when it is another one than at the last time."""
        stamp = self.ground.stamp()
        if self.settings is not None and stamp == self._stamp:
            return
        if self.settings is not None and stamp == self._bad and self.clock.now() < self._read_at:
            return
        try:
            settings = read_settings(self.ground.folder)
            settings.fleet()
        except (PlayError, TpuError, OSError, ValueError, KeyError) as error:
            # What it said before holds, until it can be read again.
            self._worse("settings", str(error))
            tries = self.memory.troubles["settings"].count
            self._read_at = self.clock.now() + trouble.pause(tries, MOVING, LONGEST)
            self._bad = stamp
            return
        self._better("settings")
        old = self.settings
        self.settings, self._stamp = settings, stamp
        self._forget_clients()
        if old is not None and (old.project, old.owner) != (settings.project, settings.owner):
            self._until = 0.0

    def _forget_clients(self) -> None:
        """Have new ones, which look for credentials anew; the lease is still ours."""
        if self._lease is not None:
            self._until = self._lease.until
        self._applier = self._lease = None

    def _lead(self, now: float) -> bool:
        """Say whether it is on us to act: one of several watchers does."""
        if self.settings is None:
            return False
        if self._lease is None:
            client = self.settings.client()
            apis = GoogleApis(client, auth_here())
            self._lease = ProjectLease(
                Compute(apis),
                lambda: apis.transport("compute").server_time().timestamp(),
                self.settings.owner,
                self.ground.holder,
                self.options.lease,
                self._until,
            )
        if self._leads and self._lease.holds(now) and self._lease.is_fresh(now):
            return True
        led = self._leads
        try:
            leads = self._lease.take(now)
        except TpuError as error:
            if not isinstance(error, PASSING):
                # Then only watchers of this computer are kept apart, by the lock of the folder.
                self._worse("lease", f"{error.message} Watchers of other computers are not seen.")
                return True
            if led and not self._lease.holds(self.clock.now()):
                self._lose_lead("it could not be renewed in time")
            if self._lease.holds(self.clock.now()):
                return True
            raise
        self._better("lease")
        if leads and not led:
            LOG.info("this watcher works now, for %g s at a time", self.options.lease)
        if not leads and led:
            self._lose_lead(f"{self._lease.other} has it")
        return leads

    def _lose_lead(self, why: str) -> None:
        """Stop what is under way: somebody else may have begun the same."""
        LOG.warning("the lease is lost, as %s; standing by", why)
        self._leads = False
        self._jobs.end(10.0)
        self._jobs.finished()

    def look_at_slices(self) -> None:
        """See how the slices stand, and what happened to them."""
        if self.settings is None:
            return
        if self._applier is None:
            client = self.settings.client()
            book = self.settings.rest_book(client)
            self._applier = FleetApplier(client, self.settings.fleet(), rest=book.read)
        self._looked_at = now = self.clock.now()
        self._look_began = boottime()
        plan = self._applier.plan()
        world = self._applier.world
        if world is None:
            return
        self.seen = seen.slices_of(self._applier.fleet, world, plan)
        self._others = seen.other_actions(plan)
        self.memory, messages = decide.notice(self.memory, self.seen, now)
        messages += seen.grant_messages(self._applier.fleet, world, plan, now)
        self._tell(messages)
        stuck = seen.stuck(plan)
        for name, text in stuck.items():
            self._worse(f"stuck:{name}", text)
        ready = [one.name for one in self.seen if one.phase == decide.READY]
        for key in list(self.memory.troubles):
            kind, _colon, name = key.partition(":")
            over = {
                "stuck": name not in stuck,
                "setup": name not in ready,
                "rest": name not in ready,
                "away": not any(decide.is_of(name, one) for one in ready),
            }
            if over.get(kind):
                self._better(key)

    def _take_outcomes(self) -> None:
        now = self.clock.now()
        for outcome in self._outcomes:
            if outcome.job.finish is not None:
                self._take_finished(outcome, now)
                continue
            self.memory, troubles = decide.done(
                self.memory, self.seen, outcome, now, self._together()
            )
            names = ", ".join(outcome.job.slices) or "the fleet"
            LOG.info("the playbook for %s ended with %d", names, outcome.code)
            if "provision" not in troubles:
                self._better("provision")
            for key, text in troubles.items():
                self._worse(key, text, outcome.log)
            well = [n for n in outcome.job.slices if f"setup:{n}" not in troubles]
            self._better(*(f"setup:{name}" for name in well))
            if any(self.memory.slice(name).healed for name in outcome.job.slices):
                # How its runs stand belongs to the news.
                self._hosts_soon, self._book_at = True, 0.0
            # What it asked for, and what was refused, is to be learnt of the API anew.
            self._applier = None
        if self._outcomes:
            self._next_look = min(self._next_look, now + 1.0)

    def _take_finished(self, outcome: Outcome, now: float) -> None:
        """Take in whether a slice could be put to rest."""
        [name] = outcome.job.slices
        LOG.info("the playbook that puts %s to rest ended with %d", name, outcome.code)
        self._applier = None
        if outcome.kind == decide.INTERRUPTED:
            return
        known, messages, obstacle = after.done(self.memory.slice(name), outcome, now)
        self.memory = self.memory.with_slice(name, known)
        if obstacle:
            self._worse(f"rest:{name}", obstacle, outcome.log)
        else:
            self._better(f"rest:{name}")
        self._tell(messages)

    # Workers -----------------------------------------------------------------------------------

    def _look_at_hosts(self) -> None:
        now, settings = self.clock.now(), self.settings
        book = seen.book_of(self.seen)
        news = book != self.memory.book
        due = now - self._hosts_at >= self.options.hosts_every or self._hosts_soon
        rest = MOVING if self._hosts_soon else BOOK_REST
        if settings is None or not book or not (due or news) or now - self._book_at < rest:
            return
        self._book_at = now
        path = settings.state_dir / "ssh_config"
        known = ask_hosts.read_book(path, settings.inventory)
        if news or known is None:
            known = self._write_book(settings)
        if known is None:
            self._hosts_soon = False
            return
        names = [one.name for one in self.seen if one.phase == decide.READY]
        busy = self._jobs.busy
        # What a playbook works on just now says nothing.
        looks = ask_hosts.ask(known, [name for name in names if name not in busy])
        declared = {name: settings.runs_on(name) for name in names}
        heard = hear(self.memory, self.seen, looks, declared, self.clock.now())
        told = dict.fromkeys(heard.known_already, now)
        outbox = replace(heard.memory.outbox, told={**heard.memory.outbox.told, **told})
        complete = all(self._has_all(one, looks) for one in self.seen if one.name in names)
        self.memory = replace(
            heard.memory, outbox=outbox, book=book if complete or busy else self.memory.book
        )
        self._look_after(looks, declared)
        self._hosts_at, self._hosts_soon = now, False
        self._runs = heard.runs
        self._tell(heard.messages)
        for host, says in heard.away.items():
            self._worse(f"away:{host}", says)
        answers = [pair for hosts in looks.values() for pair in hosts.items()]
        self._better(*(f"away:{host}" for host, said in answers if said.reached))

    def _look_after(self, looks: Looks, declared: Mapping[str, Sequence[str]]) -> None:
        """See which slices are not needed any more."""
        self._finishes = {}
        for one in self.seen:
            if one.name not in looks or one.on_finish == KEEP:
                continue
            known, finish = after.look_after(
                self.memory.slice(one.name),
                one,
                looks[one.name],
                declared[one.name],
                self.clock.now(),
            )
            self.memory = self.memory.with_slice(one.name, known)
            if finish is not None:
                self._finishes[one.name] = finish
            elif after.in_use(looks[one.name]):
                self._better(f"rest:{one.name}")

    def _has_all(self, one: SliceSeen, looks: Looks) -> bool:
        return len(looks.get(one.name, ())) >= len(one.addresses)

    def _write_book(self, settings: Settings) -> Fleet | None:
        """Have the ssh configuration of the fleet written anew."""
        code = play(
            "tpu.fleet.ssh_config", lambda _event: None, cancelled=self._stop.is_set, timeout=300
        )
        path = settings.state_dir / "ssh_config"
        return None if code else ask_hosts.read_book(path, settings.inventory)

    # Acting ------------------------------------------------------------------------------------

    def _begin_jobs(self, now: float) -> None:
        unsure = self._lease is None or not self._lease.holds(now)
        if unsure and "lease" not in self.memory.troubles:
            return
        lost = {one.name for one in self.seen if one.lost}
        for running in self._jobs.in_vain(lost, self._look_began):
            LOG.info("%s: lost while it was set up", ", ".join(running.job.slices))
            self._jobs.interrupt(running)
        # What is not needed any more costs money: it does not wait for what is asked for.
        self._begin_rests()
        found = decide.jobs(
            self.memory,
            self.seen,
            busy=self._jobs.busy,
            others=self._others,
            together=self._together(),
            gate_free=self._jobs.gate_free,
            slots=self.options.playbooks - len(self._jobs.running),
            now=now,
        )
        for job in found:
            if job.api and not self._jobs.gate_free:
                continue
            self._start(job)

    def _begin_rests(self) -> None:
        """Put to rest what is not needed any more, one slice after the other."""
        for name, finish in list(self._finishes.items()):
            ready = any(one.name == name and one.phase == decide.READY for one in self.seen)
            full = len(self._jobs.running) >= self.options.playbooks
            if not self._jobs.gate_free or full or name in self._jobs.busy:
                continue
            del self._finishes[name]
            if ready:
                self._start(Job((name,), (f"{name}: {finish.why}",), finish=finish))

    def _start(self, job: Job) -> None:
        running = self._jobs.start(job, self._beside(job))
        LOG.info("%s; log: %s", "; ".join(job.why), running.log.name)

    def _together(self) -> dict[str, set[str]]:
        return self.settings.together() if self.settings else {}

    def _beside(self, job: Job) -> set[str]:
        """Name the slices that have to learn who the workers of a job's slices are now."""
        if self.settings is None or job.finish:
            return set()
        ready = {one.name for one in self.seen if one.phase == decide.READY}
        return (self.settings.servers_of(job.slices) & ready) - self._jobs.busy

    # Telling -----------------------------------------------------------------------------------

    def _worse(self, key: str, text: str, log: Sequence[str] = ()) -> None:
        kind = key.partition(":")[0]
        now, text = self.clock.now(), shown_text(text)
        patience = PATIENCE.get(kind, 0.0)
        troubles, said = trouble.worse(self.memory.troubles, key, text, now, patience)
        self.memory = replace(self.memory, troubles=troubles)
        for one in said:
            LOG.warning("%s: %s", one.key, one.text)
            if one.tell:
                self._tell([tell.trouble(one, log, now, self.clock.time_of_day(one.since))])

    def _better(self, *keys: str) -> None:
        for key in keys:
            troubles, said = trouble.better(self.memory.troubles, key)
            self.memory = replace(self.memory, troubles=troubles)
            for one in said:
                lasted = trouble.span(self.clock.now() - one.since)
                LOG.info("%s: over after %s", one.key, lasted)
                if one.tell:
                    begun = self.clock.time_of_day(one.since)
                    self._tell([tell.trouble(one, (), self.clock.now(), begun)])

    def _tell(self, messages: Sequence[Message]) -> None:
        fresh = [m for m in messages if not (m.key and self.memory.outbox.knows(m.key))]
        if not fresh:
            return
        for message in fresh:
            LOG.info("%s: %s", message.event, message.title)
        if self.settings is None:
            return  # Nobody knows yet whom to tell.
        ways = [way for way, _entry in ways_of(list(self.settings.notify))]
        named = [replace(message, fleet=self.settings.name) for message in fresh]
        self.memory = replace(
            self.memory, outbox=self.memory.outbox.put(named, ways, self.clock.now())
        )

    def _deliver(self) -> None:
        if self.settings is None:
            return
        for way, entry in ways_of(list(self.settings.notify)):
            now = self.clock.now()
            outbox = self.memory.outbox.settle(way, now)
            message = outbox.due(way, now, self.clock.time_of_day)
            if message is not None:
                try:
                    send(message, entry)
                    outbox = outbox.went(way, now)
                    self.memory = replace(self.memory, outbox=outbox)
                    self._better(f"notify:{way.name}")
                    # At once, for whoever is killed before this sends it again.
                    self.save()
                    continue
                except NotSentError as error:
                    outbox = outbox.failed(way, now, isinstance(error, RefusedError))
                    self.memory = replace(self.memory, outbox=outbox)
                    self._worse(f"notify:{way.name}", str(error))
                    continue
            self.memory = replace(self.memory, outbox=outbox)

    # Its files ---------------------------------------------------------------------------------

    def save(self) -> None:
        """Write down what is known."""
        pids = {str(one.pid): one.started for one in self._jobs.running if one.pid}
        if pids != self.memory.pids:
            self.memory = replace(self.memory, pids=pids)
        try:
            if self.memory != self._saved:
                kept = replace(self.memory, clock=self.clock.kept())
                self.ground.write(self.ground.memory, kept.to_dict())
                self._saved = self.memory
            self.ground.write(self.ground.status, self.status())
        except OSError as error:
            # A full disk ends no watch: what was not written is seen again.
            LOG.error("%s cannot be written: %s", self.ground.folder, error.strerror)

    def status(self) -> dict[str, Any]:
        """Return how it stands, for people and programs."""
        other = self._lease.other if self._lease is not None else None
        shown = self.clock.time_of_day
        return {
            "schema": 1,
            "pid": os.getpid(),
            "holder": self.ground.holder,
            "began": shown(self._began),
            "now": time.time(),
            "works": self._leads,
            "stands_by_for": other.holder if other and not self._leads else None,
            "looked_at": shown(self._looked_at) if self._looked_at else None,
            "next_look": shown(self._next_look) if self._next_look else None,
            "project": self.settings.project if self.settings else None,
            "slices": [
                {
                    "name": one.name,
                    "phase": one.phase,
                    "text": one.text,
                    "due": list(known.due),
                    "failures": known.failures,
                    "away": sorted(known.away),
                }
                for one in self.seen
                for known in [self.memory.slice(one.name)]
            ],
            "runs": self._runs,
            "playbooks": [
                {"slices": list(one.job.slices), "why": list(one.job.why), "log": str(one.log)}
                for one in self._jobs.running
            ],
            "troubles": {
                key: {"since": shown(one.since), "text": one.text, "count": one.count}
                for key, one in self.memory.troubles.items()
            },
            "messages": {
                name: {"waiting": len(box.waiting), "failures": box.failures, "lost": box.lost}
                for name, box in self.memory.outbox.boxes.items()
            },
        }
