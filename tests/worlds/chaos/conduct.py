"""Let the faults of a plan come, and look after a while what the runs made of them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import requests
from fleet import wait_until

from . import ledger, timeline
from .faults import KINDS, Harm
from .field import EVERY, STEP_SECONDS, Field, Unreachable
from .plan import LANES, WORKERS, Fault, hurt_by

CALM_SECONDS = 40.0
"""So long nothing happens before: it shows what a step takes."""
COLLECT_SECONDS = 20.0
LATE_SECONDS = 420.0
"""What is so late, as there were long waits, is left out."""
HEALED_SECONDS = 1200.0
MORE_STEPS = 60


@dataclass
class Shot:
    """A fault of the plan, and what became of it."""

    fault: Fault
    harm: Harm
    began: float = 0.0
    error: str = ""
    seen: str = ""

    @property
    def happened(self) -> bool:
        """Say whether it was done."""
        return bool(self.began) and not self.error

    def look(self) -> bool:
        """Look for its trace; return whether it was ever seen."""
        if self.happened and not self.seen:
            self.seen = self.harm.trace()
        return bool(self.seen)


@dataclass
class Outcome:
    """What is known when all is over."""

    shots: Sequence[Shot]
    lives: dict[str, list[ledger.Life]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    goodput: dict[str, float] = field(default_factory=dict)
    results: dict[str, dict[str, object]] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """Say it in lines for people."""
        done = Counter(f"{s.fault.lane} {s.fault.kind}" for s in self.shots if s.happened)
        lines = [f"{sum(done.values())} of {len(self.shots)} faults were done:"]
        for lane in LANES:
            kinds = {key.partition(" ")[2]: n for key, n in done.items() if key.startswith(lane)}
            lines.append(f"  {lane}: " + ", ".join(f"{k} {n}" for k, n in sorted(kinds.items())))
        for run, lives in sorted(self.lives.items()):
            again = ledger.lost(lives)
            lines.append(
                f"{run}: goodput {self.goodput[run]:.3f}, {len(again)} attempts, "
                f"{sum(again.values())} steps done again, at most {max(again.values())} at once"
            )
        return lines


class Conductor:
    """One thread for each slice and one for the controller; a fault waits for the one before."""

    def __init__(self, fleet: Field, plan: Sequence[Fault], say: Callable[[str], None]) -> None:
        self._field = fleet
        self._say = say
        self.shots = [Shot(fault, KINDS[fault.kind](fleet, fault)) for fault in plan]
        self._over = threading.Event()
        self._zero = 0.0

    def run(self, minutes: float) -> Outcome:
        """Do all of it; return what is found then."""
        for run in WORKERS:
            wait_until(f"{run} trains", lambda run=run: self._gets_on(run), 900)
        calm = time.time()
        time.sleep(CALM_SECONDS)
        self._zero = time.monotonic()
        began = time.time()
        pace = self._pace(calm, began)
        self._say(f"seconds for a step when nothing happens: {pace}")
        threads = [threading.Thread(target=self._lane, args=(lane, minutes)) for lane in LANES]
        collector = threading.Thread(target=self._collect)
        for thread in (*threads, collector):
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(max(0.0, minutes * 60 - (time.monotonic() - self._zero)))
        ended = time.time()
        outcome = Outcome(self.shots)
        try:
            self._finish(outcome, began, ended, pace)
        finally:
            self._over.set()
            collector.join()
        return outcome

    def _gets_on(self, run: str) -> bool:
        """Say whether all workers are at one attempt, and in the middle of it."""
        if not self._field.trains(run):
            return False
        with suppress(Unreachable, requests.RequestException):
            newest = self._field.lives(run)[-1]
            return len(newest.steps) > EVERY // 2
        return False

    def _pace(self, since: float, until: float) -> dict[str, float]:
        """Return the seconds that a step took in a time."""
        found = {}
        for run in WORKERS:
            lives = [
                replace(life, steps=tuple(s for s in life.steps if since <= s[1] <= until))
                for life in self._field.lives(run)
            ]
            found[run] = round(max(STEP_SECONDS, ledger.pace(lives)), 3)
        return found

    def _lane(self, lane: str, minutes: float) -> None:
        for shot in self.shots:
            if shot.fault.lane != lane:
                continue
            time.sleep(max(0.0, shot.fault.at - self._now()))
            if self._now() > minutes * 60 + LATE_SECONDS:
                shot.error = "too late"
            else:
                self._do(shot)

    def _now(self) -> float:
        return time.monotonic() - self._zero

    def _do(self, shot: Shot) -> None:
        fault = shot.fault
        try:
            self._begin(shot)
            shot.began = time.time()
            self._say(f"{self._now():5.0f} s  done: {fault}")
            if type(shot.harm).undo is not Harm.undo:
                time.sleep(fault.seconds)
                self._undo(shot)
        # Whatever it is, the other faults come all the same.
        except Exception as error:
            shot.error = f"{type(error).__name__}: {error}"
            self._say(f"{self._now():5.0f} s  NOT done: {fault}: {shot.error}")
            return
        # Some traces go with the machine, and on a busy computer they take a while to come.
        deadline = time.monotonic() + 60
        while not shot.look() and time.monotonic() < deadline:
            self._collect_of(fault)
            time.sleep(1)

    def _begin(self, shot: Shot) -> None:
        """Do it, soon after if a machine or a program goes just now."""
        for again in (True, True, False):
            try:
                shot.harm.begin()
                return
            except (Unreachable, requests.RequestException, KeyError):
                if not again:
                    raise
                time.sleep(10)

    def _undo(self, shot: Shot) -> None:
        def undone() -> bool:
            with suppress(Unreachable, requests.RequestException):
                shot.harm.undo()
                return True
            return False

        wait_until(f"{shot.fault} is taken back", undone, 240)

    def _collect_of(self, fault: Fault) -> None:
        if fault.lane in WORKERS:
            for worker in {0, *fault.workers}:
                self._field.collect(fault.lane, worker)

    def _collect(self) -> None:
        while not self._over.wait(COLLECT_SECONDS):
            self._field.collect_all()
            for shot in self.shots:
                shot.look()

    def _finish(self, outcome: Outcome, began: float, ended: float, pace: dict[str, float]) -> None:
        fleet = self._field
        for run in WORKERS:
            wait_until(f"{run} trains again", lambda run=run: self._gets_on(run), HEALED_SECONDS)
        for run in WORKERS:
            far = ledger.reached(fleet.lives(run), time.time() + 1e9)
            outcome.results[run] = fleet.finish(run, far + MORE_STEPS, HEALED_SECONDS)
            self._say(f"{run} has ended: {outcome.results[run]}")
        fleet.collect_all()
        for run, workers in WORKERS.items():
            lives = fleet.lives(run)
            outcome.lives[run] = lives
            faults = [s for s in self.shots if s.happened and run in hurt_by(s.fault)]
            broken = ledger.judge(lives, EVERY, len(faults), workers)
            outcome.broken += [
                f"{run}: {what}: {one}" for what, all_ in broken.items() for one in all_
            ]
            outcome.goodput[run] = ledger.goodput(lives, began, ended, pace[run])
            wanted = fleet.undisturbed(run, int(str(outcome.results[run]["steps"])))
            self._say(f"undisturbed {run}: {wanted}")
            if wanted != outcome.results[run]:
                outcome.broken.append(f"{run}: {outcome.results[run]}, undisturbed {wanted}")
        self._look_at_the_page(outcome)
        if not fleet.is_watched():
            outcome.broken.append(f"the watcher has ended: {fleet.watched()[-500:]}")
        outcome.broken += [
            f"not in any event log: {shot.fault}"
            for shot in self.shots
            if shot.happened and not shot.look()
        ]

    def _look_at_the_page(self, outcome: Outcome) -> None:
        """Find what the event logs report and the page does not show."""
        fleet = self._field
        shown = fleet.shown()
        # What was written since then, the page cannot know.
        fleet_logs = {
            place: [event for event in log if event["at"] < time.time() - 60]
            for place, log in fleet.events.items()
        }
        hidden = timeline.missing(fleet_logs, fleet.lost_machines(), shown)
        interrupted = {run.name: len(run.interruptions) for run in shown}
        self._say(f"the page shows interruptions: {interrupted}; {fleet.folder}/page.html")
        outcome.broken += [f"not on the page: {one}" for one in hidden]
