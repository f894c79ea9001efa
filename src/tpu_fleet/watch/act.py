"""Act: start the playbooks that the slices need, and record what they did."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from ..notify.message import Message
from . import after, chips, decide
from .decide import Job, Outcome
from .jobs import Jobs
from .lead import Lead
from .look import Look
from .memory import SliceMemory
from .report import Report
from .state import State

LOG = logging.getLogger("tpu-fleet-watch")
T = TypeVar("T")
Done = Callable[[SliceMemory, Outcome, float], tuple[SliceMemory, list[Message], str]]
"""Record the outcome for a slice; return messages, and the obstacle if it failed."""


class Act:
    """The playbooks of one watcher."""

    def __init__(self, state: State, report: Report, lead: Lead, look: Look, jobs: Jobs) -> None:
        self._state = state
        self._report = report
        self._lead = lead
        self._look = look
        self._jobs = jobs
        self.outcomes: list[Outcome] = []
        self.worst = 0
        """The highest exit code of a playbook."""

    def begin(self, now: float) -> None:
        """Start the playbooks that are needed now."""
        state, jobs = self._state, self._jobs
        if not self._lead.may_act(now):
            return
        lost = {one.name for one in state.seen if one.lost}
        for running in jobs.in_vain(lost, self._look.began):
            LOG.info("%s: lost while it was set up", ", ".join(running.job.slices))
            jobs.interrupt(running)
        held = self._look.purse.acts and bool(self._look.finishes)
        # A playbook that waits for capacity would keep them from ending for hours.
        for running in jobs.running if held else ():
            if running.job.finish is None:
                jobs.interrupt(running)
        # An unneeded slice costs money, so ending it comes before requests.
        self._begin_rests()
        if held:
            return
        self._begin_recreations(now)
        found = decide.jobs(
            state.memory,
            state.seen,
            busy=jobs.busy,
            others=self._look.others,
            together=state.together(),
            gate_free=jobs.gate_free,
            slots=state.options.playbooks - len(jobs.running),
            now=now,
        )
        for job in found:
            if job.api and not jobs.gate_free:
                continue
            self._start(job)

    def _begin_rests(self) -> None:
        """Stop or delete unneeded slices, one after the other."""
        for name, finish in self._taken(self._look.finishes):
            self._start(Job((name,), (f"{name}: {finish.why}",), finish=finish))

    def _begin_recreations(self, now: float) -> None:
        """Recreate slices whose chips do not initialise, one after the other."""
        state = self._state
        for name, why in self._taken(self._look.recreations):
            known = state.memory.slice(name)
            if known.uid:
                state.memory = state.memory.with_slice(name, chips.begun(known, known.uid, now))
                self._start(Job((name,), (f"{name}: {why}",), bad_chips=known.uid))

    def _taken(self, waiting: dict[str, T]) -> Iterator[tuple[str, T]]:
        """Remove what may begin now, and return it for slices that are ready."""
        state, jobs = self._state, self._jobs
        for name, one in list(waiting.items()):
            full = len(jobs.running) >= state.options.playbooks
            if not jobs.gate_free or full or name in jobs.busy:
                continue
            del waiting[name]
            if name in state.ready:
                yield name, one

    def _start(self, job: Job) -> None:
        running = self._jobs.start(job, self._beside(job))
        LOG.info("%s; log: %s", "; ".join(job.why), running.log.name)

    def _beside(self, job: Job) -> set[str]:
        """Return the slices that need the addresses of a job's new workers."""
        state = self._state
        if state.settings is None or job.takes_away:
            return set()
        return (state.settings.servers_of(job.slices) & set(state.ready)) - self._jobs.busy

    def take_outcomes(self) -> None:
        """Record what ended playbooks did."""
        state = self._state
        now = state.clock.now()
        for outcome in self.outcomes:
            interrupted = outcome.kind == decide.INTERRUPTED
            self.worst = max(self.worst, 0 if interrupted else outcome.code)
            # Read from the API what it requested and what was refused.
            self._look.forget()
            if outcome.job.finish is not None:
                self._take_finished(outcome, now)
            elif outcome.job.bad_chips:
                self._take_recreated(outcome, now)
            else:
                self._take_setup(outcome, now)
        if self.outcomes:
            state.next_look = min(state.next_look, now + 1.0)

    def _take_setup(self, outcome: Outcome, now: float) -> None:
        """Record which slices are set up, and what failed."""
        state, report = self._state, self._report
        state.memory, troubles = decide.done(
            state.memory, state.seen, outcome, now, state.together()
        )
        if outcome.waits:
            report.worse("github", outcome.waits)
        elif outcome.code == 0 and not (state.settings and state.settings.unregistered):
            report.better("github")
        names = ", ".join(outcome.job.slices) or "the fleet"
        LOG.info("the playbook for %s exited with %d", names, outcome.code)
        if "provision" not in troubles:
            report.better("provision")
        for key, text in troubles.items():
            report.worse(key, text, outcome.log)
        well = [name for name in outcome.job.slices if f"setup:{name}" not in troubles]
        report.better(*(f"setup:{name}" for name in well))
        if any(state.memory.slice(name).healed for name in outcome.job.slices):
            # The news includes the state of its runs.
            self._look.expect_hosts()

    def _take_recreated(self, outcome: Outcome, now: float) -> None:
        """Record whether a slice could be recreated; a look says whether its chips are well."""
        messages, _is_done = self._take_end_of(outcome, now, "recreates", "chips", chips.done)
        self._report.tell(messages)

    def _take_finished(self, outcome: Outcome, now: float) -> None:
        """Record whether a slice could be stopped or deleted."""
        messages, is_done = self._take_end_of(outcome, now, "ends", "rest", after.done)
        if is_done:
            self._report.better(f"rest:{outcome.job.slices[0]}")
        self._report.tell(messages)

    def _take_end_of(
        self, outcome: Outcome, now: float, does: str, key: str, done: Done
    ) -> tuple[list[Message], bool]:
        """Record the outcome for one slice; return messages, and whether the playbook did it."""
        state = self._state
        [name] = outcome.job.slices
        LOG.info("the playbook that %s slice %s exited with %d", does, name, outcome.code)
        if outcome.kind == decide.INTERRUPTED:
            return [], False
        known, messages, obstacle = done(state.memory.slice(name), outcome, now)
        state.memory = state.memory.with_slice(name, known)
        if obstacle:
            self._report.worse(f"{key}:{name}", obstacle, outcome.log)
        return messages, not obstacle
