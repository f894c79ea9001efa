"""Shared code of `stop`, `start` and `retry`: which gangs, the request, the wait, the lines."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown, visible
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import ENDED
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import natural_key
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from ..contract.exits import Exit
from ..contract.printing import print_json
from ..history.record import note_stops, remember
from ..show.figures import amount
from ..show.output import exit_code, no_results, problems, show_problems
from ..show.waiting import waiting_for
from ..workers.ask.on_all import Job, on_all
from ..workers.ask.run_answers import Answers, Quiet, ask_for_runs, understood, whole_answer
from ..workers.ask.run_view import Run, RunView, views_of
from ..workers.ask.worker_program import verb_commands
from ..workers.inventory.hosts import Known, fold, in_order, part_of, place_of
from ..workers.inventory.lookup import known_fleet
from .asking import asking, no_such_runs
from .many import Many, guarded, options_of_workers
from .submitted import with_submitted

PAUSES = (0.5, 1.0, 1.0, 2.0, 3.0)
"""Seconds between looks at what becomes of the runs; the last one repeats."""
AWAY = 4
"""A worker that does not answer so many looks in a row is not waited for."""
UNIT = 60.0
"""The time limit of a worker for a request, which waits for no run."""


@dataclass(frozen=True)
class Gang:
    """The workers on which a run starts and stops as one."""

    run: str
    hosts: tuple[str, ...]
    runs: tuple[Run, ...]
    """The run on each worker that answered, as it was before."""

    @property
    def leader(self) -> str:
        """The worker whose agent decides for all."""
        return next((run.host for run in self.runs if run.status.worker == 0), self.hosts[0])

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is alive, because it has succeeded or failed."""
        return all(run.state in ENDED for run in self.runs)

    @property
    def attempt(self) -> int:
        """The number of its last attempt."""
        return max((run.status.attempt for run in self.runs), default=0)

    def of_slice(self, known: Known, name: str) -> set[str]:
        """Return its workers on a slice."""
        return {host for host in self.hosts if place_of(host, known.fleet.groups)[0] == name}


@dataclass(frozen=True)
class Verb:
    """What a command does to runs."""

    name: str
    done: Callable[[Gang, Sequence[Run]], bool]
    """Whether a gang has come to where it should be, by its workers that answer."""
    line: Callable[[RunView], str]
    """What is said of a slice then; {workers} is replaced."""
    seconds: float
    """The time limit without --timeout."""
    until: str
    """What --timeout waits for, as its help has it."""
    remains: str
    """What remains to be done on a worker that did not answer; {run} is replaced."""
    wanted: Callable[[Gang], bool]
    """Whether a gang needs it."""
    nothing: str
    """What is said of a slice that does not need it, after its state."""
    refusal: str = ""
    """Why a run is refused of which no gang needs it; empty if that is no error."""
    leader_only: bool = False
    """Whether worker 0 does it for its gang."""


def options_of_verb(verb: Verb) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the options of a command that does a verb, with its time limit."""
    limit = f"until {verb.until}. [default: {verb.seconds:g}]"
    return lambda function: options_of_workers(function, limit)


@dataclass
class Outcome:
    """What became of the run on a slice."""

    view: RunView
    before: RunView | None
    seconds: float
    done: bool
    says: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        view = self.view
        return {
            "run": view.run,
            "slice": view.slice,
            "workers": list(view.hosts),
            "state_before": self.before.state if self.before else None,
            "state": view.state,
            "attempt": view.attempt,
            "step": view.step,
            "why": view.why,
            "done": self.done,
            "seconds": round(self.seconds, 1),
        }


@dataclass
class Report:
    """What the command prints: a line for each slice at once, or JSON at the end."""

    as_json: bool
    outcomes: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Print a line."""
        self.outcomes.append(outcome)
        if not self.as_json:
            click.echo(visible(f"{outcome.view.run} on {outcome.view.slice}: {outcome.says}"))

    def end(self, lost: Sequence[Result], remains: Sequence[str], code: int) -> int:
        """Name the workers without a result, and what remains; return the exit code."""
        if self.as_json:
            runs = [one.to_dict() for one in self.outcomes]
            told = {"runs": runs, "no_result": no_results(lost), "exit_code": code}
            print_json("stop", told)
            return code
        for line in (*problems(lost), *remains):
            click.echo(line, err=True)
        return code


def me() -> str:
    """Return who calls the command, for those who wonder why a run is stopped."""
    try:
        return shown(f"{getpass.getuser()}@{socket.gethostname()}", 100)
    except (KeyError, OSError):  # a user without a name
        return socket.gethostname()


def gangs_of(known: Known, names: Sequence[str], runs: Iterable[Run], wanted: str) -> list[Gang]:
    """Return the gangs of a run; refuse a choice of workers that has a part of one.

    Workers of the same slices belong to them also when they did not answer.
    """
    mine = [run for run in runs if run.run == wanted]
    found: dict[str, set[str]] = {}
    for view in views_of(mine):
        # Slices that train as one have one id; before the first attempt, none has.
        found.setdefault(view.run_id or view.slice, set()).add(view.slice)
    gangs = []
    for slices in found.values():
        here = [run for run in mine if run.slice in slices]
        hosts = [name for name in names if place_of(name, known.fleet.groups)[0] in slices]
        most = max(run.status.workers for run in here)
        if most > len(hosts):
            raise click.ClickException(
                f"{wanted} runs on {most} workers as one, and {fold(hosts)} is a part of them. "
                "Leave out --slice and --limit, or name all of its workers."
            )
        gangs.append(Gang(wanted, tuple(hosts), tuple(here)))
    return sorted(gangs, key=lambda gang: natural_key(gang.hosts[0]))


def find(many: Many, wanted: Sequence[str]) -> tuple[list[Gang], Answers]:
    """Ask the workers for the runs; refuse an unknown one before anything is changed."""
    return many.chosen(lambda known: find_in(known, many, wanted))[1]


def find_in(known: Known, many: Many, wanted: Sequence[str]) -> tuple[list[Gang], Answers]:
    """Ask the chosen workers of a fleet for the runs; refuse an unknown one."""
    names = many.names_in(known)
    with asking(names):
        answers = ask_for_runs(known, names, many.user, False, many.settings, many.retry)
    remember(answers, known)
    declared = [run for run in answers.runs if run.status.declared]
    there = sorted({run.run for run in declared})
    unknown = [name for name in wanted if name not in there]
    if unknown:
        show_problems(answers.results)
        raise no_such_runs(unknown, there, answers.results, part_of(known.fleet, names))
    gangs = [
        gang for name in dict.fromkeys(wanted) for gang in gangs_of(known, names, declared, name)
    ]
    return gangs, answers


def refused(verb: Verb, gangs: Sequence[Gang]) -> list[str]:
    """Return why runs are refused, of which no gang needs the verb."""
    lines = []
    for name in dict.fromkeys(gang.run for gang in gangs):
        those = [gang for gang in gangs if gang.run == name]
        if verb.refusal and not any(map(verb.wanted, those)):
            views = views_of(run for gang in those for run in gang.runs)
            states = ", ".join(f"{view.word} on {view.slice}" for view in views)
            lines.append(f"{name} is {states}. {verb.refusal.format(run=name)}")
    return lines


def run_verb(verb: Verb, many: Many, wanted: Sequence[str], as_json: bool) -> int:
    """Do to runs what the verb says, as a command; return the exit code."""
    return guarded(
        lambda: carry_out(verb, many, wanted, as_json),
        "Interrupted. What was asked for already goes on; `tpu-fleet runs` shows it.",
    )


def run_verb_of_all(
    verb: Verb, many: Many, wanted: Sequence[str], as_json: bool, interrupted: str
) -> int:
    """Do to submitted runs and to others what the verb says; return the exit code."""

    def work() -> int:
        seconds = many.settings.timeout
        others = partial(run_verb, verb, many, as_json=as_json)
        return with_submitted(verb.name, wanted, as_json, seconds, others)

    return guarded(work, interrupted)


def carry_out(verb: Verb, many: Many, wanted: Sequence[str], as_json: bool) -> int:
    """Do to runs what the verb says, wait for the result; return the exit code."""
    gangs, answers = find(many, wanted)
    refusals = refused(verb, gangs)
    if refusals:
        raise click.ClickException("\n".join(refusals))
    # The addresses may have been updated meanwhile.
    work = Work(verb, many, known_fleet(False), Report(as_json))
    due = [gang for gang in gangs if verb.wanted(gang)]
    for gang in gangs:
        for view in views_of(gang.runs) if gang not in due else ():
            work.report.add(Outcome(view, view, 0.0, True, f"{view.word}: {verb.nothing}"))
    work.ask(due)
    work.wait(due)
    members = {host for gang in due for host in gang.hosts}
    others = [one for one in answers.results if not one.ok and one.name not in members]
    missing = [*work.lost.values(), *others]
    undone = any(not one.done for one in work.report.outcomes)
    code = max(exit_code(missing), Exit.FAILED if undone else Exit.DONE)
    return work.report.end(missing, work.remains(due), code)


def without_sudo(result: Result) -> Result:
    """Say what it means that a login may not become root."""
    if result.kind is not Kind.DONE or not result.says.startswith("sudo:"):
        return result
    says = f"this login may not use sudo there ({result.says})"
    return replace(result, says=says, remedy="Ask an administrator, or log in as one with --user.")


@dataclass
class Work:
    """A verb that is being carried out."""

    verb: Verb
    many: Many
    known: Known
    report: Report
    lost: dict[str, Result] = field(default_factory=dict)
    """The workers without a result."""
    begun: float = field(default_factory=time.monotonic)

    def actors(self, gang: Gang) -> set[str]:
        """Return the workers of a gang that get the request."""
        return {gang.leader} if self.verb.leader_only else set(gang.hosts)

    def ask(self, gangs: Sequence[Gang]) -> None:
        """Send the request to all workers at once."""
        runs: dict[str, list[str]] = {}
        for gang in gangs:
            for host in self.actors(gang):
                runs.setdefault(host, []).append(gang.run)
        if not runs:
            return
        settings = replace(self.many.settings, timeout=UNIT)
        command = verb_commands(self.verb.name, runs, me())
        job = Job(command, whole_answer, self.many.user, settings)
        done = on_all(self.known, in_order(runs), job, Quiet(), self.many.retry)
        results = [without_sudo(understood(self.known, result)[0]) for result in done]
        self.lost |= {one.name: one for one in results if not one.ok}
        if self.many.retry:
            self.known = known_fleet(False)

    def wait(self, gangs: Sequence[Gang]) -> None:
        """Look at the runs until they are where they should be, or it is too late."""
        # Where no worker has the request, there is nothing to wait for.
        left = [gang for gang in gangs if self.actors(gang) - set(self.lost)]
        settings = replace(self.many.settings, timeout=UNIT)
        away: dict[str, int] = {}
        pauses = iter(PAUSES)
        with waiting_for(f"Waiting for {', '.join(dict.fromkeys(gang.run for gang in left))}"):
            while left:
                time.sleep(next(pauses, PAUSES[-1]))
                hosts = in_order({host for gang in left for host in gang.hosts} - set(self.lost))
                user = self.many.user
                answers = ask_for_runs(self.known, hosts, user, False, settings, retry=False)
                note_stops(answers, self.known)
                for one in answers.results:
                    away[one.name] = 0 if one.ok else away.get(one.name, 0) + 1
                    if away[one.name] >= AWAY:
                        self.lost[one.name] = one
                left = [gang for gang in left if not self._is_over(gang, answers)]

    def _is_over(self, gang: Gang, answers: Answers) -> bool:
        """Report a gang that is where it should be, or too late; return whether it is over."""
        seconds = time.monotonic() - self.begun
        there = set(gang.hosts) - set(self.lost)
        seen = [run for run in answers.runs if run.run == gang.run and run.host in there]
        done = {run.host for run in seen} == there and self.verb.done(gang, seen)
        late = seconds > (self.many.settings.timeout or self.verb.seconds)
        if there and not done and not late:
            return False
        for view in views_of(seen):
            self._add(gang, view, seconds, done)
        return True

    def _add(self, gang: Gang, view: RunView, seconds: float, done: bool) -> None:
        """Report the run on a slice."""
        hosts = gang.of_slice(self.known, view.slice)
        workers = f"{len(view.hosts)} of " if len(view.hosts) < len(hosts) else ""
        workers = f" on {workers}{amount(len(hosts), 'worker')}" if len(hosts) > 1 else ""
        says = f"{view.word} after {seconds:.0f} s{f': {view.why}' if view.why else ''}"
        if done:
            says = self.verb.line(view).replace("{workers}", workers)
        before = views_of(run for run in gang.runs if run.slice == view.slice)
        complete = done and not hosts & set(self.lost)
        first = before[0] if before else None
        self.report.add(Outcome(view, first, seconds, complete, says))

    def remains(self, gangs: Sequence[Gang]) -> list[str]:
        """Return what remains to be done on workers without a result, one line for each run."""
        lines = []
        for name in dict.fromkeys(gang.run for gang in gangs):
            hosts = {host for gang in gangs if gang.run == name for host in self.actors(gang)}
            away = in_order(hosts & set(self.lost))
            if away:
                lines.append(f"{fold(away)}: {self.verb.remains.format(run=name)}")
        return lines
