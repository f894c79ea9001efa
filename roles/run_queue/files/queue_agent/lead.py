"""Worker 0's part: it takes runs out of the queue for its slice, keeps them, and ends them."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

from run_agent.act import processes, store
from run_agent.decide.values import one_line

from .act import code
from .act.code import CannotInstall
from .act.install import Verified
from .act.machine import Machine
from .act.ruling import Answer, Ruling
from .decide import duty as duties
from .decide import idle, rule, submitted, verdict
from .decide.building import Builds, Need
from .decide.duty import Duty, Ending, Facts
from .decide.messages import Order, Report
from .decide.rule import Subject
from .decide.settings import Places, Settings
from .shared._queue import objects
from .shared._queue.bucket import Denied, NoAnswer
from .shared._queue.claims import BEAT, LOOK, STOP_LOOK, TEND, Lease, Outcome
from .shared._queue.leading import NoLater
from .shared._queue.objects import DOING, FAILED, Definition, Doing, Refused, Submitted
from .shared._queue.saying import Said
from .shared._queue.store import Queue, Seen, since_boot
from .shared._roles.venv_paths import venv_path

_PAUSE = 5.0  # after a bucket that did not answer
_AVOIDED = 600.0
"""Seconds for which this slice leaves a run to others that it could not start."""
_AWAY = 30.0
_AT_A_TIME = 5
"""Arms that are stopped before the run is looked after again."""


class Lead:
    """The leader; all methods but `exchange` are for one thread."""

    def __init__(
        self, settings: Settings, places: Places, queue: Queue, verified: Verified
    ) -> None:
        self.leaving = ""
        """Why this slice takes no run any more, and gives back the one that it has."""
        self.doing = "begins"
        self._settings, self._places, self._queue = settings, places, queue
        self._machine, self._verified = Machine(places), verified
        self._owner = settings.owner(processes.boot_id(), self._machine.id())
        self._lock = threading.Lock()
        self._reports: dict[int, tuple[Report, float]] = {}
        self._path = places.state / "claim.json"
        self._duty = Duty.from_json(store.read(self._path) or {})
        self._mine: Seen | None = None
        self._lease = Lease(since_boot(), settings.take_after)
        self._builds = Builds(settings.slice)
        self._order = self._ordered()
        self._heard = -1
        self._busy = "?"
        self._due = dict.fromkeys(("look", "tend", "beat", "wish", "ask", "rule_again"), 0.0)
        self._wish_is = ""
        self._ruling = Ruling(settings.on_result) if settings.on_result else None
        self._to_ask: Subject | None = None
        self._stops: dict[str, tuple[Submitted, str]] = {}
        self.rule_problem = ""
        """Why fleet_queue.on_result was asked in vain the last time."""
        self._since: dict[str, float] = {}
        self._avoided: dict[tuple[str, str], float] = {}
        self._others: dict[str, Said] | None = None
        self._said = Doing(settings.slice, "", 0.0, 0.0)

    @property
    def has_run(self) -> bool:
        """Return whether the slice has a run."""
        return self._duty is not None

    @property
    def order(self) -> Order:
        """Return what all workers are to do."""
        with self._lock:
            return self._order

    def exchange(self, report: Report) -> Order:
        """Take a worker's report; return the order."""
        with self._lock:
            self._reports[report.worker] = (report, time.monotonic())
            return self._order

    def close(self) -> None:
        """End what runs beside the loop."""
        if self._ruling is not None:
            self._ruling.close()

    def step(self) -> None:
        """Do what is due."""
        if not self._is_due("ask", 0.0):
            return
        try:
            if self._duty is None:
                self._look_for_one()
            else:
                self._look_after(self._duty)
        except (NoAnswer, Refused) as error:
            self.doing = one_line(f"the queue: {error}")
            self._due["ask"] = time.monotonic() + _PAUSE
        with self._lock:
            self._order = self._ordered()
        self._follow_the_rule()

    def _ordered(self) -> Order:
        if self._duty is None:
            return replace(duties.NO_DUTY, venv=self._builds.ordered)
        may_run = self._lease.left(since_boot()) > 0
        return self._duty.order(self._mine is not None, may_run)

    def _is_due(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due[what]:
            return False
        self._due[what] = now + seconds
        return True

    # Without a run

    def _look_for_one(self) -> None:
        if self.leaving:
            self.doing = self.leaving
            return
        if self._is_due("tend", TEND):
            self._queue.tend(self._owner, (), self._settings.take_after)
        busy, before = self._in_the_way(), self._busy
        self._busy = busy
        self.doing = f"waits: {busy}" if busy else "waits for a run"
        if busy and not self._builds.ordered:
            self._builds.leave()
        self._follow_build()
        heard = self._queue.heard()
        news = heard != self._heard or (before and not busy)
        if busy or not (self._is_due("look", LOOK) or news):
            return
        self._due["look"] = time.monotonic() + LOOK
        self._take_next()
        self._heard = heard

    def _follow_build(self) -> None:
        """See how a build goes, and say what the slice does."""
        now = time.monotonic()
        ended = self._builds.follow(self._fresh_reports(), len(self._settings.hosts), now)
        if ended:
            say(ended)
            self._due["look"] = 0.0
        why, run, venv = self._builds.doing(now)
        self.doing = why or self.doing
        self._say(why, run, venv)

    def _say(self, why: str, run: str = "", venv: str = "") -> None:
        """Say in the bucket what the slice does, when that changes and while it lasts."""
        now, before = time.time(), self._said
        is_same = (why, run, venv) == (before.why, before.run, before.venv)
        if is_same and (not why or abs(now - before.at) < DOING):
            return
        since = before.since if is_same else now
        new = Doing(self._settings.slice, objects.one_line(why), since, now, run, venv)
        with contextlib.suppress(NoAnswer):
            self._queue.say(new)
        self._said = replace(new, why=why)

    def _fresh_reports(self) -> dict[int, Report]:
        """Return the reports of the workers that answer."""
        now = time.monotonic()
        with self._lock:
            return {number: one for number, (one, at) in self._reports.items() if now - at < _AWAY}

    def _in_the_way(self) -> str:
        own = self._settings
        declared = idle.in_the_way(
            self._machine.declared(), own.declared_first, self._machine.holding()
        )
        if declared:
            return declared
        now = time.monotonic()
        with self._lock:
            reports = {number: (one, now - at) for number, (one, at) in self._reports.items()}
        return idle.among_workers(own.slice, len(own.hosts), reports)

    def _take_next(self) -> None:
        own = self._settings
        sent = since_boot()
        self._builds.look()
        self._others = None
        me = own.serving("", self._builds.failed(time.monotonic()))
        mine = self._queue.claim_next(me, self._owner, own.limits, self._may)
        self._builds.looked()
        if mine is None:
            self._build_if_due()
            return
        try:
            definition = self._verified.get(self._queue, mine.run.name, mine.run.definition)
            wrong = verdict.differs(mine.run, definition)
        except CannotInstall as error:
            wrong = str(error)
        except NoAnswer:
            self._due["tend"] = 0.0  # which gives it back
            raise
        if wrong:
            say(f"refused {mine.run.name}: {wrong}")
            self._queue.finish(mine, Outcome(FAILED, one_line(wrong)))
            self._due["look"] = 0.0  # for the next one, also where no bell can be rung
            return
        self._begin(mine, definition, sent)

    def _may(self, run: Submitted) -> str:
        """Return why this slice leaves a run to others."""
        until = self._avoided.get((run.name, run.definition), 0.0)
        if time.monotonic() < until:
            return f"{self._settings.slice} could not start it"
        unfit = verdict.unfit(run, self._settings)
        if unfit or not run.venv:
            return unfit
        is_here = self._machine.has_venv(run.venv)
        if run.venv in self._settings.venvs_on_need:
            return self._hindered_by_build(run, is_here)
        return "" if is_here else f"venv {run.venv} is not built yet on {self._settings.slice}"

    def _hindered_by_build(self, run: Submitted, is_here: bool) -> str:
        """Return why a run cannot begin, as its venv is not built; raise NoLater to keep it."""
        if self._builds.is_built(run.venv, is_here):
            return ""
        now = time.monotonic()
        # Most looks need no list of what slices say.
        self._others = self._queue.said() if self._others is None else self._others
        other = self._builds.builder(run.name, self._others, now)
        if other:
            return f"{other} builds venv {run.venv} for it"
        if self._builds.keeps(run.name, run.venv, now):
            raise NoLater
        return f"venv {run.venv} is not built yet on {self._settings.slice}"

    def _build_if_due(self) -> None:
        """Have all workers build, unless a slice that has the venv may still take the run."""
        now, need = time.monotonic(), self._builds.need
        if need is None:
            return
        is_here = self._machine.has_venv(need.venv)
        if self._builds.is_due(is_here, now):
            self._builds.begin(now)
            if not is_here:
                self._announce(need)
        elif not self._builds.ordered:
            self._due["look"] = need.due

    def _announce(self, need: Need) -> None:
        """Say that the slice builds, and leave it to another that begins at the same time."""
        now = time.monotonic()
        self._say(*self._builds.doing(now))
        other = self._builds.builder(need.run, self._queue.said(), now, gives_way=True)
        if other:
            self._builds.leave()
        say(f"{other or 'this slice'} builds venv {need.venv} for {need.run}")

    def _begin(self, mine: Seen, definition: Definition, sent: float) -> None:
        run = mine.run
        self._mine = mine
        self._builds.leave()
        self._say("")
        self._lease = Lease(sent, self._settings.take_after)
        self._wish_is, self._since = "", {}
        self._due.update(beat=time.monotonic() + BEAT, wish=time.monotonic() + STOP_LOOK)
        self._due.pop("rule", None)
        say(f"took {run.name} of {run.person}")
        self._keep(
            Duty(
                *(run.name, run.definition, run.claims, run.person),
                grace=submitted.grace_of(definition, self._settings),
                max_hours=definition.max_hours,
                user=definition.user,
                code=definition.code or "",
                attempt=run.attempt,
                failures_before=run.failures,
                failures=run.failures,
            )
        )

    def _keep(self, duty: Duty | None) -> None:
        """Write down which run the slice has."""
        if duty != self._duty:
            self._duty = duty
            store.write(self._path, duty.to_json() if duty else {}, mode=0o600)

    # With a run

    def _look_after(self, duty: Duty) -> None:
        if self._mine is None and not self._is_still_mine(duty):
            return
        self._renew()
        if self._mine is None:
            return
        facts = self._facts(duty)
        duty = duties.seen(duty, facts)
        if duty.ending is None:
            duty = replace(duty, ending=duties.ending_of(duty, facts))
        self._keep(duty)
        self.doing = f"has {duty.run}"
        if duty.ending is None and self._is_time_for_the_rule():
            self._ask_about(self._mine.run, duty)
        if duty.ending is not None:
            self.doing = f"ends {duty.run}"
            seconds = self._seconds_since("ending")
            if duties.is_still(duty, facts, seconds):
                self._end(duty)

    def _is_still_mine(self, duty: Duty) -> bool:
        """Read whether the run is still this machine's, after this program or the machine began."""
        sent = since_boot()
        try:
            mine = self._queue.adopt(duty.run, self._owner)
        except Refused:
            mine = None
        except Denied:
            if self._seconds_since("denied") < duties.PATIENCE:
                raise
            mine = None
        if mine is None or mine.run.claims != duty.claim:
            self._lose(duty)
            return False
        self._mine = mine
        self._lease = Lease(sent, self._settings.take_after)
        return True

    def _renew(self) -> None:
        mine, duty = self._mine, self._duty
        if mine is None or duty is None:
            return
        is_new = duty.failures != mine.run.failures
        if not (is_new or self._is_due("beat", BEAT)):
            return
        is_new = is_new or duty.attempt > mine.run.attempt
        self._due["beat"] = 0.0  # at once, if there is no answer
        sent = since_boot()
        try:
            if is_new:
                self._mine = self._queue.note(mine, duty.attempt, duty.failures)
            else:
                progress = rule.progress_of(self._machine.status(duty.run, duty.claim))
                self._mine = self._queue.renew(mine, progress)
        except Refused:
            self._mine = None
        if self._mine is None:
            self._lose(duty)
            return
        self._lease.renewed(sent)
        self._due["beat"] = time.monotonic() + BEAT

    def _facts(self, duty: Duty) -> Facts:
        reports = {
            number: one.about(duty.run, duty.claim) for number, one in self._fresh_reports().items()
        }
        order = self._order
        troubled = any(one.problem for one in reports.values())
        if not troubled:
            self._since.pop("trouble", None)
        return Facts(
            status=self._machine.status(duty.run, duty.claim),
            reports=reports,
            workers=len(self._settings.hosts),
            wish=self._wish(),
            stopped_by=self._machine.stopped_by(duty.run) if order.run == duty.run else "",
            leaving=self.leaving,
            hours=self._hours(),
            hindered=self._seconds_since("trouble") if troubled else 0.0,
        )

    def _wish(self) -> str:
        if self._mine is not None and self._is_due("wish", STOP_LOOK):
            wish = self._queue.wish(self._mine.run)
            self._wish_is = wish.why if wish else ""
        return self._wish_is

    def _hours(self) -> float:
        started = self._mine.run.started_at if self._mine else None
        return 0.0 if started is None else (time.time() - started) / 3600

    def _seconds_since(self, what: str) -> float:
        now = time.monotonic()
        return now - self._since.setdefault(what, now)

    def _end(self, duty: Duty) -> None:
        """Write how the run ended; this is done once, or another has the run."""
        mine, ending = self._mine, duty.ending
        if mine is None or ending is None:
            return
        status = self._machine.status(duty.run, duty.claim)
        if status:
            mine = mine._replace(run=replace(mine.run, **asdict(rule.progress_of(status))))
        try:
            done = self._written(mine, ending, duty)
        except Denied as error:
            if self._seconds_since("denied") < duties.PATIENCE:
                raise
            say(f"{duty.run}: its end cannot be written, and it is left so: {error}")
            self._forget()
            return
        if ending.state and done is not None:
            self._ask_about(done.run, duty)
        if not ending.state:
            self._avoided[duty.run, duty.definition] = time.monotonic() + _AVOIDED
        how = ending.state or "given back"
        say(f"{duty.run}: {how if done else 'another slice has it'}. {ending.reason}".strip())
        self._forget()

    def _written(self, mine: Seen, ending: Ending, duty: Duty) -> Seen | None:
        if ending.state:
            return self._queue.finish(mine, ending.outcome(duty.attempt, duty.failures))
        return self._queue.give_back(mine, ending.reason, duty.attempt, duty.failures)

    # The rule of a sweep

    def _is_time_for_the_rule(self) -> bool:
        """Say whether it is asked now, while an arm runs; never at once."""
        if self._ruling is None:
            return False
        every = self._settings.on_result.every if self._settings.on_result else 0.0
        now = time.monotonic()
        if now < self._due.setdefault("rule", now + every):
            return False
        self._due["rule"] = now + every
        return True

    def _ask_about(self, run: Submitted, duty: Duty) -> None:
        """Have the rule asked because of a run, if that is an arm of a sweep."""
        if not run.sweep or not duty.user or self._ruling is None:
            return
        place = self._places.code
        folder = code.folder_of(place, run.name, duty.code, duty.user) if duty.code else ""
        venv = venv_path(run.venv, self._settings.training["training_run_venvs"])
        self._to_ask = Subject(run, duty.user, str(folder), str(venv or ""))

    def _follow_the_rule(self) -> None:
        """Take the answer of the rule, stop what that names, and ask again if that is due."""
        if self._ruling is None or not self._is_due("rule_again", 0.0):
            return
        answer = self._ruling.answer()
        if answer is not None:
            self._heed(answer)
        try:
            self._stop_and_ask(self._ruling)
        except NoAnswer:
            self._due["rule_again"] = time.monotonic() + _PAUSE

    def _stop_and_ask(self, ruling: Ruling) -> None:
        for name, (arm, why) in list(self._stops.items())[:_AT_A_TIME]:
            with contextlib.suppress(Refused):
                self._queue.stop(name, arm.person, why, arm.definition)
            del self._stops[name]
        if self._to_ask is not None and not ruling.is_busy:
            ruling.ask(self._to_ask, self._queue.arms(self._to_ask.run))
            self._to_ask = None

    def _heed(self, answer: Answer) -> None:
        run, problem = answer.subject.run, answer.problem
        self.rule_problem = f"on_result beside {run.name}: {problem}" if problem else ""
        found = rule.verdict(answer.said, answer.arms, self._settings.slice)
        for line in [problem] if problem else found.refused:
            say(f"on_result beside {run.name}: {line}")
        for name, why in found.stops.items():
            say(f"on_result beside {run.name}: stops {name}: {why}")
            self._stops[name] = (next(one for one in answer.arms if one.name == name), why)

    def _lose(self, duty: Duty) -> None:
        say(f"{duty.run}: another slice has it, or it has ended; it ends here")
        self._forget()

    def _forget(self) -> None:
        self._mine = None
        self._keep(None)
        # There may be a run that waits, and what was rung for meanwhile was not looked at.
        self._due["look"] = 0.0


def say(text: str) -> None:
    """Write a line into the journal."""
    print(one_line(text), flush=True)


def claim_of(state: Path) -> str:
    """Return the run that the slice has, as it was written down; empty if it has none."""
    return str((store.read(state / "claim.json") or {}).get("run") or "")
