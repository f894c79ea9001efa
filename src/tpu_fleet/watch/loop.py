"""The watcher's loop: lead, look, act, report; it can resume at any point.

`lead` decides whether this watcher may act, `look` reads the fleet, `act` runs playbooks, `report`
sends messages. They share a `State`, which this module saves.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import (
    CredentialsError,
    TpuError,
)

from .act import Act
from .ground import Ground
from .jobs import Jobs, end_left_over
from .lead import Lead
from .look import Look
from .memory import Memory
from .note import Notes
from .options import Options
from .report import Report
from .state import State

LOG = logging.getLogger("tpu-fleet-watch")


class Watcher:
    """Watches over one fleet."""

    def __init__(self, ground: Ground, options: Options) -> None:
        self.state = State(ground, options)
        self._wake = threading.Event()
        self._jobs = Jobs(ground.playbooks, self._wake.set)
        self._notes = Notes(ground, options.page, not options.no_logs)
        self.report = Report(self.state, self._notes)
        self.lead = Lead(self.state, self.report, self._end_jobs)
        self.look = Look(self.state, self.report, self._notes, lambda: self._jobs.busy)
        self.act = Act(self.state, self.report, self.lead, self.look, self._jobs)
        self._saved: Memory | None = None
        self._began = self.state.clock.now()

    def stop(self) -> None:
        """Make the watcher end soon."""
        self.state.stop.set()
        self._wake.set()

    def run(self, once: bool = False) -> int:
        """Watch until stopped; or once, until nothing is left to do now.

        Returns the highest exit code of its playbooks, or 1 if the last poll failed.
        """
        state = self.state
        for pid in end_left_over(state.memory.pids):
            LOG.info("ended the playbook %s that an earlier watcher left", pid)
        LOG.info("watching as %s, every %g s", state.ground.holder, state.options.interval)
        try:
            while not state.stop.is_set():
                self._wake.clear()
                self._tick_safely()
                if once and not self._jobs.running and not self.act.outcomes:
                    break
                self._wake.wait(self._pause())
        finally:
            self._end()
        return self.act.worst or int(bool(state.failures))

    def _end(self) -> None:
        self._jobs.end(10.0)
        self.lead.end()
        self.save()
        self._notes.close()
        LOG.info("ended")

    def _end_jobs(self) -> None:
        self._jobs.end(10.0)
        self._jobs.finished()

    def _pause(self) -> float:
        now = self.state.clock.now()
        mail = self.report.next_at(now)
        due = self.state.next_look
        return max(0.2, (due if mail is None else min(due, mail)) - now)

    def _tick_safely(self) -> None:
        """Log an unexpected error and continue watching."""
        try:
            self.tick()
        except Exception:
            LOG.exception("unexpected error; the watcher continues")
            self.state.failed()

    def tick(self) -> None:
        """Do one round: poll, decide, act, notify."""
        now = self.state.clock.now()
        self.act.outcomes += self._jobs.finished()
        if now >= self.state.next_look or self.act.outcomes:
            self._look(now)
        # Act only after a successful poll.
        if self.lead.leads and not self.state.failures:
            self.begin_jobs(self.state.clock.now())
        self.report.deliver(self.save)
        self.save()

    def _look(self, now: float) -> None:
        state = self.state
        self.read_settings()
        if state.settings is None:
            state.failed()
            return
        try:
            if self.lead.take(now):
                self.look_at_slices()
        except TpuError as error:
            credentials = isinstance(error, CredentialsError)
            self.report.worse("credentials" if credentials else "api", str(error))
            if credentials:
                self._forget_clients()
            state.failed()
            return
        state.failures = 0
        self.report.better("api", "credentials")
        state.next_look = state.clock.now() + state.options.interval
        if self.lead.leads:
            self.act.take_outcomes()
            self.look.at_hosts()
            self.look.keep({})
        self.act.outcomes = []

    def read_settings(self) -> None:
        """Read the fleet file if it has changed."""
        before = self.state.settings
        if not self.look.read_settings():
            return
        self._forget_clients()
        now = self.state.settings
        if before and now and (before.project, before.owner) != (now.project, now.owner):
            self.lead.forget_lease()

    def look_at_slices(self) -> None:
        """Read the state of the slices, and what happened to them."""
        self.look.at_slices()

    def begin_jobs(self, now: float) -> None:
        """Start the playbooks that are needed now."""
        self.act.begin(now)

    def _forget_clients(self) -> None:
        """Create new clients, which read the credentials again."""
        self.lead.forget_client()
        self.look.forget()

    # Its files ---------------------------------------------------------------------------------

    def save(self) -> None:
        """Save the memory and the status."""
        state = self.state
        pids = {str(one.pid): one.started for one in self._jobs.running if one.pid}
        if pids != state.memory.pids:
            state.memory = replace(state.memory, pids=pids)
        try:
            if state.memory != self._saved:
                kept = replace(state.memory, clock=state.clock.kept())
                state.ground.write(state.ground.memory, kept.to_dict())
                self._saved = state.memory
            state.ground.write(state.ground.status, self.status())
        except OSError as error:
            # A full disk does not end the watcher: the next poll sees what was not written.
            LOG.error("%s cannot be written: %s", state.ground.folder, error.strerror)

    def status(self) -> dict[str, Any]:
        """Return the status for people and programs."""
        state, looked_at = self.state, self.look.looked_at
        other = self.lead.lease.other if self.lead.lease is not None else None
        shown = state.clock.time_of_day
        return {
            "schema": 1,
            "pid": os.getpid(),
            "holder": state.ground.holder,
            "began": shown(self._began),
            "now": time.time(),
            "works": self.lead.leads,
            "stands_by_for": other.holder if other and not self.lead.leads else None,
            "looked_at": shown(looked_at) if looked_at else None,
            "next_look": shown(state.next_look) if state.next_look else None,
            "project": state.settings.project if state.settings else None,
            "slices": [
                {
                    "name": one.name,
                    "phase": one.phase,
                    "text": one.status.text,
                    "due": list(known.due),
                    "failures": known.failures,
                    "away": sorted(known.away),
                }
                for one in state.seen
                for known in [state.memory.slice(one.name)]
            ],
            "runs": self.look.runs,
            "budget": self.look.purse.facts(),
            "playbooks": [
                {"slices": list(one.job.slices), "why": list(one.job.why), "log": str(one.log)}
                for one in self._jobs.running
            ],
            "troubles": {
                key: {"since": shown(one.since), "text": one.text, "count": one.count}
                for key, one in state.memory.troubles.items()
            },
            "messages": {
                name: {"waiting": len(box.waiting), "failures": box.failures, "lost": box.lost}
                for name, box in state.memory.outbox.boxes.items()
            },
        }
