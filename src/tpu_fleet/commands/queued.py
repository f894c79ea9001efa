"""Submitted runs among those that `runs`, `stop`, `retry`, `logs` and `fetch` name."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    ENDED,
    FAILED,
    NAME,
    PERSON,
    STOPPED,
    Definition,
    Refused,
    Submitted,
    definition_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.definition import (
    archive_of as archive_of_run,
)

from ..contract.exits import Exit
from ..contract.printing import print_json
from ..history import declared
from ..queue.fleet import QueueOfFleet, queue_of
from ..queue.sign import SignError, signer_of
from ..queue.view import QueueView, left_out, look, table_of
from ..show.console import wide_console
from ..show.table import print_tables
from ..show.waiting import waiting_for
from ..workers.inventory.ansible_config import inventory_sources
from ..workers.inventory.names import no_such, remember
from ..workers.inventory.read import read_inventory
from .submit import explained

PAUSES = (0.5, 1.0, 1.0, 2.0)
"""Seconds between looks at what becomes of a run; the last one repeats."""


@dataclass
class Here:
    """The queue of the fleet in this folder."""

    fleet: QueueOfFleet
    queue: Queue

    @classmethod
    def opened(cls) -> Here:
        """Return it; raises ClickException."""
        fleet = explained(lambda: queue_of(read_inventory()))
        return cls(fleet, explained(fleet.opened))

    def states(self, names: Iterable[str]) -> dict[str, Submitted]:
        """Return the submitted runs among names; those of fleet_runs are none.

        One whose state is refused is reported, and costs only itself.
        """
        mine = [one for one in dict.fromkeys(names) if one not in self.fleet.runs]
        found = {}
        for name in filter(NAME.fullmatch, mine):
            try:
                found[name] = self._read(name)
            except Refused as error:
                click.echo(visible(_refused(name, error)), err=True)
        return {name: state for name, state in found.items() if state}

    def state(self, name: str) -> Submitted | None:
        """Return the state of a submitted run; None if there is no such run. ClickException."""
        try:
            return self._read(name)
        except Refused as error:
            raise click.ClickException(visible(_refused(name, error))) from error

    def _read(self, name: str) -> Submitted | None:
        seen = explained(lambda: self.queue.read(name))
        return seen.run if seen else None

    def definition(self, state: Submitted) -> Definition:
        """Return what was signed of a run; raises ClickException."""
        try:
            signed = explained(lambda: self.queue.definition(state.definition))
            return definition_of(signed.signed)
        except Refused as error:
            says = f"The definition of {state.name} is refused: {error}"
            raise click.ClickException(says) from error

    def type_of(self, slice_: str) -> str:
        """Return the accelerator type that a slice has now; empty if that is not known."""
        node = self.fleet.nodes.get(slice_)
        return node.type if node else ""

    def view(self) -> QueueView:
        """Return all that is in the queue."""
        found = explained(lambda: look(self.fleet, self.queue, time.time()))
        names = sorted(one.name for one in found.runs)
        remember(inventory_sources(os.environ, Path.cwd()), submitted=names)
        return found

    def person(self) -> str:
        """Return who calls the command, as the queue names people."""
        try:
            return signer_of(self.fleet.users, None, self.fleet.login_key).person
        except SignError:
            login = getpass.getuser()
            return login if PERSON.fullmatch(login) else "someone"


def _refused(name: str, why: Refused) -> str:
    return f"The state of {name} in the queue is refused: {why}"


def archive_of(run: str) -> str:
    """Return where a submitted run has its archive; empty if there is none. ClickException."""
    here = Here.opened()
    state = here.states([run]).get(run)
    if state is None:
        return ""
    asked = {"name": run, "checkpoint_dir": here.definition(state).checkpoint_dir}
    return archive_of_run({key: value for key, value in asked.items() if value != ""})


def declared_of(runs: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what was submitted of the runs that a slice has or had, by `slice/run`."""
    here = Here.opened()
    return {
        f"{state.owner.slice if state.owner else state.last}/{name}": declared.submitted(
            here.definition(state), state.owner.type if state.owner else here.type_of(state.last)
        )
        for name, state in here.states(runs).items()
        if state.owner or state.last
    }


def said_of(run: str) -> str:
    """Return state and reason of a submitted run in a sentence; empty if there is none."""
    here = Here.opened()
    if not here.states([run]):
        return ""
    view = here.view()
    state = next((one for one in view.runs if one.name == run), None)
    if state is None:
        return ""
    why = view.why(state)
    return f"{run} is {state.state}{f': {why}' if why else ''}."


# tpu-fleet runs --queue


def show_queue(wanted: Sequence[str], as_json: bool) -> int:
    """Print the queue, or these runs of it; return the exit code."""
    here = Here.opened()
    with waiting_for("Reading the queue"):
        view = here.view()
    names = [one.name for one in view.runs]
    missing = [name for name in wanted if name not in names]
    for name in missing:
        click.echo(visible(no_such("submitted run", name, names)), err=True)
    if wanted:
        chosen = [one for one in view.runs if one.name in wanted]
        view = QueueView(view.address, chosen, view.places, view.refused, view.now)
    code = Exit.FAILED if missing else Exit.DONE
    if as_json:
        print_json("runs --queue", {**view.to_dict(), "exit_code": code})
        return code
    show(view)
    return code


def show(view: QueueView) -> None:
    """Print the queue as a table, and what of the bucket is refused."""
    if view.runs:
        print_tables(wide_console(), table_of(view))
        more = left_out(view)
        if more:
            click.echo(more)
    else:
        click.echo(f"Nothing is submitted to {view.address}.")
    for name, why in view.refused.items():
        click.echo(visible(f"{view.address}/{name} is left out: {why}"), err=True)


# tpu-fleet stop, tpu-fleet retry


@dataclass(frozen=True)
class QueueVerb:
    """What a command does to submitted runs."""

    do: Callable[[Queue, str, str], Submitted | None]
    done: Callable[[Submitted], bool]
    """Whether a run has come to where it should be."""
    wanted: Callable[[Submitted], bool]
    """Whether a run needs it."""
    refusal: str
    """Why a run is refused that does not need it; empty if that is no error."""
    seconds: float


VERBS = {
    "stop": QueueVerb(
        lambda queue, name, person: queue.stop(name, person),
        done=lambda run: run.state in ENDED,
        wanted=lambda run: run.is_open,
        refusal="",
        seconds=600.0,
    ),
    "retry": QueueVerb(
        lambda queue, name, person: queue.retry(name, person),
        done=lambda run: run.state not in (FAILED, STOPPED),
        wanted=lambda run: run.state in (FAILED, STOPPED),
        refusal="Only a submitted run that has failed or was stopped is tried again",
        seconds=60.0,
    ),
}


@dataclass
class Outcome:
    """What became of a submitted run."""

    before: Submitted
    after: Submitted
    done: bool
    why: str = ""

    def line(self) -> str:
        """Return it in a line."""
        run = self.after
        where = f" on {run.owner.slice}" if run.owner else ""
        if self.why.startswith(run.state):  # stopped by bob
            return f"{run.name}: {self.why}"
        why = f": {self.why}" if self.why else ""
        return f"{run.name}: {run.state}{where}{why}"

    def to_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "run": self.after.name,
            "slice": self.after.owner.slice if self.after.owner else None,
            "state_before": self.before.state,
            "state": self.after.state,
            "attempt": self.after.attempt,
            "why": self.why or None,
            "done": self.done,
        }


@dataclass
class Doing:
    """A verb on some submitted runs."""

    here: Here
    verb: QueueVerb
    seconds: float
    person: str
    outcomes: list[Outcome] = field(default_factory=list)

    def all(self, runs: Iterable[Submitted]) -> list[Outcome]:
        """Ask for all first, and then wait for each."""
        asked = [(run, self._asked(run)) for run in runs]
        end = time.monotonic() + self.seconds
        with waiting_for(f"Waiting for {', '.join(run.name for run, _after in asked)}"):
            for before, after in asked:
                last = self._awaited(after, end) if self.verb.wanted(before) else after
                self.outcomes.append(self._outcome(before, last))
        return self.outcomes

    def _asked(self, run: Submitted) -> Submitted:
        if not self.verb.wanted(run):
            return run
        try:
            return explained(lambda: self.verb.do(self.here.queue, run.name, self.person)) or run
        except Refused as error:  # by now
            raise click.ClickException(visible(_refused(run.name, error))) from error

    def _awaited(self, run: Submitted, end: float) -> Submitted:
        pauses = list(PAUSES)
        while not self.verb.done(run) and time.monotonic() < end:
            time.sleep(pauses.pop(0) if len(pauses) > 1 else pauses[0])
            run = self.here.state(run.name) or run
        return run

    def _outcome(self, before: Submitted, after: Submitted) -> Outcome:
        if not self.verb.wanted(before):
            return Outcome(before, after, not self.verb.refusal, self.verb.refusal or after.reason)
        done = self.verb.done(after)
        waits = f"it does not end within {self.seconds:g} s, and is still asked to"
        return Outcome(before, after, done, after.reason if done else waits)


def do(
    here: Here, verb: QueueVerb, runs: Iterable[Submitted], seconds: float | None
) -> list[Outcome]:
    """Do something to submitted runs, and wait for it; return what became of each."""
    return Doing(here, verb, seconds or verb.seconds, here.person()).all(runs)


def with_submitted(
    verb: str,
    wanted: Sequence[str],
    as_json: bool,
    seconds: float | None,
    others: Callable[[Sequence[str]], int],
) -> int:
    """Do something to the submitted runs of those that are named; `others` does it to the rest.

    Returns the exit code.
    """
    here = Here.opened()
    runs = here.states(wanted)
    rest = [name for name in wanted if name not in runs]
    if not runs:
        return others(wanted)
    if rest and as_json:
        raise click.UsageError(
            f"--json is for submitted runs ({', '.join(runs)}) or for others ({', '.join(rest)}): "
            "call it for each."
        )
    outcomes = do(here, VERBS[verb], runs.values(), seconds)
    code = Exit.DONE if all(one.done for one in outcomes) else Exit.FAILED
    if as_json:
        told = {"runs": [one.to_dict() for one in outcomes], "no_result": [], "exit_code": code}
        print_json("stop", told)
        return code
    for one in outcomes:
        click.echo(visible(one.line()), err=not one.done)
    return max(code, others(rest)) if rest else code
