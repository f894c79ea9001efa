"""The leader's side: collects reports, lets gang.decide judge them, keeps the result."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import asdict
from typing import Any, Dict, List, Tuple

from . import gang
from .config import Config
from .member import Order
from .store import Kept


def new_run_id(run: str) -> str:
    """Return a name for one training, from its first attempt to its last."""
    return f"{run}-{uuid.uuid4().hex[:8]}"


class Leader:
    """Decides for the gang; every exchange is one step under a lock."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._reports: Dict[int, Tuple[gang.Report, float]] = {}
        self._begun = time.monotonic()
        self._kept = Kept(config.paths.state / "gang.json", config.paths.runtime / "gang.json")
        self.policy = gang.Policy(
            definition=config.definition,
            workers=config.workers,
            retries=config.retries,
            fail_fast_seconds=config.fail_fast_seconds,
            lost_seconds=config.timing.lost,
            restart_delay=config.timing.restart_delay,
            restart_delay_max=config.timing.restart_delay_max,
        )
        data = self._kept.load()
        if data is None:
            self.gang = gang.Gang(config.definition, new_run_id(config.run))
        else:
            known = gang.Gang.from_json(data)
            self.gang = gang.redefine(known, config.definition, new_run_id(config.run))
        self._save()

    def _save(self) -> None:
        self._kept.save(self.gang.to_json())

    @property
    def error(self) -> str:
        """Return why the gang's state cannot be kept; empty when it can."""
        return self._kept.error

    def exchange(self, report: gang.Report) -> Order:
        """Take a report, decide, and return what that worker is to know."""
        with self._lock:
            now = time.monotonic()
            self._reports[report.worker] = (report, now)
            before = self.gang
            self.gang = gang.decide(before, self._with_ages(now), time.time(), self.policy)
            if self.gang != before:
                self._save()  # before anybody can act on it
            state = self.gang
            waiting = ""
            if state.phase in (gang.GATHERING, gang.STOPPING):
                waiting = gang.waiting_for(self._with_ages(now), self.policy)
            return Order(
                state.phase, state.attempt, state.definition, state.run_id, state.reason, waiting
            )

    def answer(self, message: Dict[str, Any]) -> Dict[str, Any]:
        """Do the same for a message from the wire."""
        names = gang.Report.__dataclass_fields__
        report = gang.Report(**{key: value for key, value in message.items() if key in names})
        if not 0 < report.worker < self.config.workers:
            raise ValueError(f"there is no other worker {report.worker} in this slice")
        return asdict(self.exchange(report))

    def again(self) -> None:
        """Let a run that had ended be tried once more."""
        with self._lock:
            self.gang = gang.again(self.gang)
            self._save()

    def peers(self) -> List[Dict[str, Any]]:
        """Return what is known of each worker, for the status file."""
        with self._lock:
            seen = self._with_ages(time.monotonic())
        return [
            {
                "worker": worker,
                "program": report.program,
                "here": age <= self.policy.lost_seconds,
                "blocked": report.blocked,
            }
            for worker, (report, age) in sorted(seen.items())
        ]

    def _with_ages(self, now: float) -> Dict[int, Tuple[gang.Report, float]]:
        ages = {worker: (report, now - seen) for worker, (report, seen) in self._reports.items()}
        # A leader that has just come back gives its peers time to be heard.
        if self.gang.phase != gang.GATHERING and now - self._begun <= self.policy.lost_seconds:
            for worker in range(self.policy.workers):
                if worker not in ages:
                    ages[worker] = (self._unheard(worker), 0.0)
        return ages

    def _unheard(self, worker: int) -> gang.Report:
        return gang.Report(
            worker=worker,
            boot_id=self.gang.boots.get(str(worker), ""),
            definition=self.policy.definition,
            last_started=self.gang.attempt,
            program="running",
        )
