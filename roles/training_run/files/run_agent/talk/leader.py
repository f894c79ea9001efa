"""The leader's side: collects reports, lets gang.decide judge them, keeps the result."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import replace
from typing import Any

from ..act import worker_ports
from ..act.store import Kept
from ..act.worker_ports import Tried
from ..decide import gang, gang_state, reports, stand_out, story
from ..decide.config import Config
from ..decide.gang_state import GATHERING, STOPPING, Gang, Policy, Report
from ..decide.inbox import Inbox
from ..decide.member import Order
from ..decide.run_states import FAILED, RUNNING
from ..decide.values import one_line
from .clock import GangClock

_BAD_CHIPS = 20
_SAVE_SECONDS = 300.0  # of the clock, when nothing else is new


def new_run_id(run: str) -> str:
    """Return a name for one training, from its first attempt to its last."""
    return f"{run}-{uuid.uuid4().hex[:8]}"


class Leader:
    """Decides for the gang; every exchange is one step under a lock."""

    def __init__(self, config: Config, boot_id: str = "") -> None:
        self.config = config
        self.saved_at: float | None = None
        """When the newest checkpoint in a bucket was written, for the other workers' status."""
        self.network = ""
        """The name of the machine's network, as far as it is known."""
        self.cache = ""
        """What names the entries of this worker's compilation cache, where none is written now."""
        self._lock = threading.Lock()
        self._told: list[dict[str, Any]] = []
        self._unready_since = time.monotonic()
        self._kept = Kept(config.paths.state / "gang.json", config.paths.runtime / "gang.json")
        self.policy = Policy(
            definition=config.definition,
            workers=config.workers,
            retries=config.retries,
            fail_fast_seconds=config.fail_fast_seconds,
            lost_seconds=config.timing.lost,
            restart_delay=config.timing.restart_delay,
            restart_delay_max=config.timing.restart_delay_max,
            hang_seconds=config.hang_seconds,
            no_retry_exit_codes=tuple(config.no_retry_exit_codes),
        )
        self._stand_out = stand_out.Watch()
        self._stand_out_of = 0
        self._inbox = Inbox(self.policy, time.monotonic())
        data = self._kept.load()
        self._clock = GangClock(data or {}, boot_id)
        self._saved = 0.0
        before = [self._clock.now()] * config.failures_before
        if data is None:
            self.gang = Gang(config.definition, new_run_id(config.run), failures=before)
        else:
            self.gang = Gang.from_json(data)
            if not self._clock.known:  # times of another clock say nothing
                self.gang = replace(self.gang, failures=[], not_before=0.0)
        self._here = {int(worker): True for worker in self.gang.boots}
        new = gang.redefine(self.gang, config.definition, new_run_id(config.run), before)
        self._become(new)
        self._save()

    def _become(self, state: Gang) -> None:
        self._told += story.of_gang(self.gang, state, self.config.version)
        self.gang = state

    def _save(self) -> None:
        self._saved = time.monotonic()
        self._kept.save({**self.gang.to_json(), **self._clock.to_json()})

    @property
    def error(self) -> str:
        """Return why the gang's state cannot be kept; empty when it can."""
        return self._kept.error

    def exchange(self, report: Report) -> Order:
        """Take a report, decide, and return what that worker is to know."""
        with self._lock:
            now = time.monotonic()
            self._inbox.take(report, now)
            seen = self._inbox.seen(self.gang, now)
            before = replace(self.gang, yields=self._yields(seen))
            if before != self.gang:
                self._become(before)
                self._save()
            self._become(gang.decide(before, seen, self._clock.now(), self.policy))
            if self.gang != before:
                self._save()  # before a worker can act on it
            return self._order(seen)

    def _yields(self, seen: gang_state.Reports) -> bool:
        """Return whether no slice is kept free for this run, as another one is taken.

        Two runs over the same slices would each wait for ever for the one that the other has.
        """
        if not self.config.slices or self.gang.phase != GATHERING:
            return False
        return any(report.queue for report, _age in seen.values())

    def _order(self, seen: gang_state.Reports) -> Order:
        state = self.gang
        waiting = ""
        if state.phase in (GATHERING, STOPPING):
            waiting = gang.waiting_for(state, seen, self.policy)
        queues = [report.queue for report, _age in seen.values() if report.queue]
        return Order(
            state.phase,
            state.attempt,
            state.definition,
            state.run_id,
            state.reason,
            waiting,
            token=state.token,
            hung=state.hung,
            checkpoint=state.asked[-1] if state.asked else "",
            queue=queues[0] if queues and state.phase == GATHERING else None,
            saved_at=self.saved_at,
            yields=state.yields,
            fenced=state.fenced,
            guards=0 in seen and seen[0][0].program == "running",
            stuck=bool(self.config.slices) and self._is_stuck(seen),
            all_here=not reports.absent(seen, self.policy),
            hint=self._hint(seen),
            bad_chips=[
                [int(worker), len(times), state.chips_said.get(worker, "")]
                for worker, times in list(state.bad_chips.items())[:_BAD_CHIPS]
            ],
            cache=self.cache,
        )

    def _hint(self, seen: gang_state.Reports) -> str:
        """Say what may keep the program from its first step."""
        shut = reports.shut(self.gang, seen) if self.gang.phase == RUNNING else []
        opened = [f"worker {worker} has not opened its chips, the others have" for worker in shut]
        failed = [
            f"the chips of worker {worker} failed {len(times)} start{'s' if times[1:] else ''} "
            f"before: {self.gang.chips_said.get(worker, '')}"
            for worker, times in sorted(self.gang.bad_chips.items())
            if self.gang.phase == RUNNING
        ]
        return "; ".join(part for part in (*failed, *opened, self._unreached(seen)) if part)

    def _unreached(self, seen: gang_state.Reports) -> str:
        """Say which workers cannot reach which ports of others that are there."""
        lost = self.policy.lost_seconds
        here = {worker for worker, (_report, age) in seen.items() if age <= lost}
        found = {
            worker: [Tried(*one) for one in seen[worker][0].unreached if one[0] in here]
            for worker in here
        }
        return worker_ports.advice(found, self.config.hosts, self.network)

    def stand_out(self) -> list[str]:
        """Name the workers that stand out from the others, and by what."""
        with self._lock:
            now = time.monotonic()
            seen = self._inbox.seen(self.gang, now)
            if self._stand_out_of != self.gang.attempt or self.gang.phase != RUNNING:
                self._stand_out, self._stand_out_of = stand_out.Watch(), self.gang.attempt
            at_work = {
                worker: report
                for worker, (report, age) in seen.items()
                if report.last_started == self.gang.attempt and age <= self.policy.lost_seconds
            }
            paces = {worker: report.pace for worker, report in at_work.items()}
            losses = {
                worker: [(int(step), str(loss)) for step, loss in report.losses]
                for worker, report in at_work.items()
            }
            self._stand_out = self._stand_out.seen(paces, losses, now)
            errors = {worker: report.chip_error for worker, report in at_work.items()}
            return [*stand_out.in_error(errors), *self._stand_out.lines()]

    def again(self) -> None:
        """Let a run that had ended be tried once more."""
        with self._lock:
            self._become(gang.again(self.gang, gang_state.Gang("", "").owner))
            self._save()

    def told(self) -> list[dict[str, Any]]:
        """Return what happened to the gang since the last time."""
        with self._lock:
            now = time.monotonic()
            if now - self._saved > _SAVE_SECONDS:
                self._save()
            seen, young = self._inbox.seen(self.gang, now), self._inbox.young(now)
            here = {worker: was and young for worker, was in self._here.items()}
            for worker, (_report, age) in seen.items():
                here[worker] = age <= self.policy.lost_seconds
            self._told += story.of_peers(self._here, here)
            self._here.update(here)
            told, self._told = self._told, []
        return told

    def ending(self) -> bool:
        """Return whether a worker that answers still has a program that runs."""
        with self._lock:
            seen = self._inbox.seen(self.gang, time.monotonic())
        lost = self.policy.lost_seconds
        return any(age <= lost and not report.idle for report, age in seen.values())

    def ended(self) -> gang_state.Gang | None:
        """Return the gang, if its last attempt is over on all workers."""
        with self._lock:
            seen = self._inbox.seen(self.gang, time.monotonic())
            return self.gang if reports.all_ended(self.gang, seen, self.policy) else None

    def stuck(self) -> bool:
        """Say whether the gang could not start, for long by now, even if it were its turn."""
        with self._lock:
            return self._is_stuck(self._inbox.seen(self.gang, time.monotonic()))

    def _is_stuck(self, seen: gang_state.Reports) -> bool:
        now = time.monotonic()
        in_the_way = reports.absent(seen, self.policy)
        if not in_the_way and not any(report.blocked for report, _age in seen.values()):
            self._unready_since = now
        return now - self._unready_since > self.policy.lost_seconds

    def failures(self) -> int:
        """Return how many failures of the program count, also those on other slices."""
        with self._lock:
            return len(gang.failures_in(self.gang, self._clock.now(), self.policy))

    def last_words(self) -> str:
        """Return the last line of a program whose failure ended the run; empty without one."""
        with self._lock:
            lines = self.gang.tail if self.gang.phase == FAILED else []
        own = [line for line in lines if line.strip() and not line.startswith("--- tpu-fleet")]
        return one_line(own[-1], 300) if own else ""

    def shown(self) -> dict[str, Any]:
        """Return what the status of this worker alone says, of the gang."""
        return {"peers": self.peers(), "failures": self.failures(), "last_words": self.last_words()}

    def peers(self) -> list[dict[str, Any]]:
        """Return what is known of each worker, for the status file."""
        with self._lock:
            seen = self._inbox.seen(self.gang, time.monotonic())
        return [
            {
                "worker": worker,
                "program": report.program,
                "here": age <= self.policy.lost_seconds,
                "blocked": report.blocked,
            }
            for worker, (report, age) in sorted(seen.items())
        ]
