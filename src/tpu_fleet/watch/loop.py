"""The watcher's loop: poll, decide, run playbooks, notify; it can resume at any point."""

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
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apis import apis_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import FleetApplier
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import READY
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import KEEP
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis

from ..notify.message import Message
from ..notify.send import NotSentError, RefusedError, send, ways_of
from ..show.times import long
from ..workers.ask import read_known
from ..workers.hosts import Known
from ..workers.play import PlayError
from . import after, ask_hosts, decide, seen, tell, trouble
from .clock import SteadyClock
from .decide import Finish, Job, Outcome, SliceSeen
from .ground import Ground, Settings
from .hosts import HostSeen, hear
from .jobs import Jobs, end_left_over
from .lease import ProjectLease
from .memory import Memory, load
from .note import Notes
from .read import read_settings, read_workers

Looks = Mapping[str, Mapping[str, HostSeen]]
LOG = logging.getLogger("tpu-fleet-watch")
PATIENCE = {
    "api": 300.0,
    "away": 900.0,
    # People are not notified; the log and the status show it.
    "lease": math.inf,
    "notify": 300.0,
    "page": 300.0,
    "provision": 600.0,
    # If a person has just logged in, the slice is in use, which is no trouble.
    "rest": 60.0,
    "setup": 300.0,
}
"""Seconds that a trouble lasts before people are notified; others are notified immediately."""
BOOK_REST = 60.0
"""Seconds until unknown workers are looked up again."""
SOON = 10.0
"""Seconds until what is expected soon is looked up again."""
KEEP_EVERY = 60.0
"""Seconds between two looks at the API that the history keeps, when no slice changes."""
LONGEST = 600.0
"""Longest pause between polls of an API that does not answer, in seconds."""


@dataclass(frozen=True)
class Options:
    """The options of a watcher."""

    interval: float = 10.0
    hosts_every: float = 300.0
    playbooks: int = 4
    lease: float = 900.0
    page: str = ""
    """Where the fleet's page is published; empty for nowhere."""
    logs: bool = True
    """Whether that page has lines of programs' logs."""


def no_token(keys: Sequence[str]) -> str:
    """Return what waits for a token of GitHub, and how the watcher gets one."""
    return (
        f"There is no token for GitHub, so {', '.join(keys)} in git_access_keys "
        f"{'is' if len(keys) == 1 else 'are'} not registered for new machines; slices are set up "
        "without. Set fleet_github_token in a vault file of the inventory, with "
        "vault_password_file in ansible.cfg"
    )


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
        self._notes = Notes(ground, options.page, options.logs)
        self._kept_at = 0.0
        self._kept: list[tuple[str, str]] = []
        self._stamp = ""
        self._applier: FleetApplier | None = None
        self._lease: ProjectLease | None = None
        self._until = 0.0
        # A fleet file that could not be read, and the time of the next try.
        self._bad = ""
        self._read_at = 0.0
        self._leads = False
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._jobs = Jobs(ground.playbooks, self._wake.set)
        self._outcomes: list[Outcome] = []
        # The highest exit code of a playbook.
        self._worst = 0
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

    # Life cycle --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Make the watcher end soon."""
        self._stop.set()
        self._wake.set()

    def run(self, once: bool = False) -> int:
        """Watch until stopped; or once, until nothing is left to do now.

        Returns the highest exit code of its playbooks, or 1 if the last poll failed.
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
        return self._worst or int(bool(self._failures))

    def _end(self) -> None:
        self._jobs.end(10.0)
        if self._lease is not None and self._lease.holds(self.clock.now()):
            try:
                self._lease.give_back()
            except TpuError as error:
                LOG.info("the lease was not released, it expires by itself: %s", error.message)
        self._leads = False
        self.save()
        self._notes.close()
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
        """Log an unexpected error and continue watching."""
        try:
            self.tick()
        except Exception:
            LOG.exception("unexpected error; the watcher continues")
            self._failures += 1
            self._next_look = self.clock.now() + self._back_off()

    def tick(self) -> None:
        """Do one round: poll, decide, act, notify."""
        now = self.clock.now()
        self._outcomes += self._jobs.finished()
        if now >= self._next_look or self._outcomes:
            self._look(now)
        # Act only after a successful poll.
        if self._leads and not self._failures:
            self._begin_jobs(self.clock.now())
        self._deliver()
        self.save()

    # Polling -----------------------------------------------------------------------------------

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
        self._next_look = self.clock.now() + self.options.interval
        if self._leads:
            self._take_outcomes()
            self._look_at_hosts()
            if self.settings is not None:
                self._keep(self.settings, {})
        self._outcomes = []

    def _back_off(self) -> float:
        return trouble.pause(self._failures, self.options.interval, LONGEST)

    def _read_settings(self) -> None:
        """Read the fleet file if it has changed."""
        stamp = self.ground.stamp()
        if self.settings is not None and stamp == self._stamp:
            return
        if self.settings is not None and stamp == self._bad and self.clock.now() < self._read_at:
            return
        try:
            settings = read_settings(self._stop.is_set)
            settings.fleet()
        except (PlayError, TpuError, OSError, ValueError, KeyError) as error:
            # Use the last valid version until the file can be read again.
            self._worse("settings", str(error))
            tries = self.memory.troubles["settings"].count
            self._read_at = self.clock.now() + trouble.pause(tries, SOON, LONGEST)
            self._bad = stamp
            return
        self._better("settings")
        old = self.settings
        self.settings, self._stamp = settings, stamp
        self._forget_clients()
        if settings.unregistered:
            self._worse("github", no_token(settings.unregistered))
        else:
            self._better("github")
        if old is not None and (old.project, old.owner) != (settings.project, settings.owner):
            self._until = 0.0

    def _forget_clients(self) -> None:
        """Create new clients, which read the credentials again; the lease stays."""
        if self._lease is not None:
            self._until = self._lease.until
        self._applier = self._lease = None

    def _lead(self, now: float) -> bool:
        """Return whether this watcher may act; only one of several may."""
        if self.settings is None:
            return False
        if self._lease is None:
            client = self.settings.client()
            apis = GoogleApis(client)
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
                # Only watchers on this computer now exclude each other, by the folder's lock.
                self._worse("lease", f"{error.message} Watchers of other computers are not seen.")
                return True
            if led and not self._lease.holds(self.clock.now()):
                self._lose_lead("it could not be renewed in time")
            if self._lease.holds(self.clock.now()):
                return True
            raise
        self._better("lease")
        if leads and not led:
            LOG.info("this watcher is active now; its lease lasts %g s", self.options.lease)
        if not leads and led:
            self._lose_lead(f"{self._lease.other} holds it")
        return leads

    def _lose_lead(self, why: str) -> None:
        """Stop running playbooks, because another watcher may have started the same."""
        LOG.warning("the lease is lost, because %s; standing by", why)
        self._leads = False
        self._jobs.end(10.0)
        self._jobs.finished()

    def look_at_slices(self) -> None:
        """Read the state of the slices, and what happened to them."""
        if self.settings is None:
            return
        if self._applier is None:
            client = self.settings.client()
            fleet, book = self.settings.fleet(), self.settings.rest_book(client)
            self._applier = FleetApplier(apis_of(client, fleet), fleet, rest=book.read)
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
        ready = [one.name for one in self.seen if one.phase == READY]
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
            self._worst = max(
                self._worst, 0 if outcome.kind == decide.INTERRUPTED else outcome.code
            )
            if outcome.job.finish is not None:
                self._take_finished(outcome, now)
                continue
            self.memory, troubles = decide.done(
                self.memory, self.seen, outcome, now, self._together()
            )
            if outcome.waits:
                self._worse("github", outcome.waits)
            elif outcome.code == 0 and not (self.settings and self.settings.unregistered):
                self._better("github")
            names = ", ".join(outcome.job.slices) or "the fleet"
            LOG.info("the playbook for %s exited with %d", names, outcome.code)
            if "provision" not in troubles:
                self._better("provision")
            for key, text in troubles.items():
                self._worse(key, text, outcome.log)
            well = [n for n in outcome.job.slices if f"setup:{n}" not in troubles]
            self._better(*(f"setup:{name}" for name in well))
            if any(self.memory.slice(name).healed for name in outcome.job.slices):
                # The news includes the state of its runs.
                self._hosts_soon, self._book_at = True, 0.0
            # Read from the API what it requested and what was refused.
            self._applier = None
        if self._outcomes:
            self._next_look = min(self._next_look, now + 1.0)

    def _take_finished(self, outcome: Outcome, now: float) -> None:
        """Record whether a slice could be stopped or deleted."""
        [name] = outcome.job.slices
        LOG.info("the playbook that ends slice %s exited with %d", name, outcome.code)
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
        rest = SOON if self._hosts_soon else BOOK_REST
        if settings is None or not book or not (due or news) or now - self._book_at < rest:
            return
        self._book_at = now
        known = read_known(self.ground.sources, os.environ)
        if news or known is None:
            known = self._read_workers()
        if known is None:
            self._hosts_soon = False
            return
        names = [one.name for one in self.seen if one.phase == READY]
        busy = self._jobs.busy
        # Slices that a playbook works on are not evaluated.
        there = [name for name in names if name not in busy]
        looks = ask_hosts.ask(known.fleet, there, self._notes.places())
        self._keep(settings, looks)
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

    def _keep(self, settings: Settings, looks: Looks) -> None:
        """Keep in the history what was seen, and publish the page."""
        now, phases = self.clock.now(), [(one.uid, one.phase) for one in self.seen]
        news = bool(looks) or phases != self._kept or now - self._kept_at >= KEEP_EVERY
        if not news or self._applier is None or self._applier.world is None:
            return
        self._kept, self._kept_at = phases, now
        self._notes.looked(settings, self._applier.world, self.seen, looks)
        trouble_with_it = self._notes.publish(settings)
        if trouble_with_it:
            self._worse("page", trouble_with_it)
        else:
            self._better("page")

    def _look_after(self, looks: Looks, declared: Mapping[str, Sequence[str]]) -> None:
        """Find the slices that are no longer needed."""
        self._finishes = {}
        for one in self.seen:
            if one.name not in looks or one.want.on_finish == KEEP:
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

    def _read_workers(self) -> Known | None:
        """Read where the workers are now."""
        try:
            read_workers(self._stop.is_set)
        except PlayError as error:
            LOG.warning("the workers cannot be read: %s", shown_text(str(error)))
            return None
        return read_known(self.ground.sources, os.environ)

    # Acting ------------------------------------------------------------------------------------

    def _begin_jobs(self, now: float) -> None:
        unsure = self._lease is None or not self._lease.holds(now)
        if unsure and "lease" not in self.memory.troubles:
            return
        lost = {one.name for one in self.seen if one.lost}
        for running in self._jobs.in_vain(lost, self._look_began):
            LOG.info("%s: lost while it was set up", ", ".join(running.job.slices))
            self._jobs.interrupt(running)
        # An unneeded slice costs money, so ending it comes before requests.
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
        """Stop or delete unneeded slices, one after the other."""
        for name, finish in list(self._finishes.items()):
            ready = any(one.name == name and one.phase == READY for one in self.seen)
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
        """Return the slices that need the addresses of a job's new workers."""
        if self.settings is None or job.finish:
            return set()
        ready = {one.name for one in self.seen if one.phase == READY}
        return (self.settings.servers_of(job.slices) & ready) - self._jobs.busy

    # Notifying ---------------------------------------------------------------------------------

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
                lasted = long(self.clock.now() - one.since)
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
        self._notes.told([replace(m, at=self.clock.time_of_day(m.at)) for m in fresh])
        if self.settings is None:
            return  # The receivers are not known yet.
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
                    # Saved immediately: otherwise a killed watcher would send it again.
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
        """Save the memory and the status."""
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
            # A full disk does not end the watcher: the next poll sees what was not written.
            LOG.error("%s cannot be written: %s", self.ground.folder, error.strerror)

    def status(self) -> dict[str, Any]:
        """Return the status for people and programs."""
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
                    "text": one.status.text,
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
