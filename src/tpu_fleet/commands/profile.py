"""`tpu-fleet profile`: record a profile of a run on all its workers at the same steps."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from ..contract.exits import Exit
from ..contract.printing import option_json, print_json
from ..on_worker.run_states import RUNNING
from ..show.console import say, wide_console
from ..show.figures import amount
from ..show.output import exit_code, no_results, show_problems
from ..show.profile import idle_table, operations_table, steps, workers_table
from ..show.table import Table, print_tables
from ..show.waiting import waiting_for
from ..workers.ask.on_all import Job, on_all
from ..workers.ask.run_answers import Quiet, ask_for_runs, with_words
from ..workers.ask.run_view import Run
from ..workers.ask.worker_program import profile_command
from ..workers.copy.tar import make_half
from ..workers.inventory.hosts import Known, in_order, part_of
from ..workers.inventory.lookup import known_fleet
from ..workers.inventory.names import NameOf
from ..workers.profile.bring import MOST_BYTES, Answer, Bringer, Moment, Profile
from ..workers.profile.figures import Shares, Sums, Total, shares
from ..workers.profile.trace import TooLargeError, TraceError, read
from . import profile_open
from .asking import asking, no_such_runs
from .attach import why_not
from .many import Many, guarded, options_of_workers
from .options import option_folder
from .verbs import without_sudo

MOST_SECONDS = 60.0
AFTERWARDS = 300.0
"""Seconds for a worker to be ready, to write its profile, and to send it."""
OPERATIONS = 5
CALLS = 3


def numbers(
    _context: click.Context, _param: click.Parameter, text: str | None
) -> frozenset[int] | None:
    """Return numbers of workers, such as 0,2-3; None for none."""
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip(), re.ASCII)
        if not match:
            raise click.BadParameter(f"{text!r} are no numbers of workers: write them as 0,2-3.")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


@dataclass(frozen=True)
class Wanted:
    """Of what a profile is recorded."""

    run: str
    seconds: float
    workers: frozenset[int] | None
    """Their numbers in their slice; None: all."""


@dataclass
class Recorded:
    """What came of it."""

    wanted: Wanted
    folder: Path | None = None
    """What XProf opens; None if there is no profile."""
    found: list[tuple[Profile, Shares | None]] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)
    """Workers that lack a profile, and why."""
    notes: list[str] = field(default_factory=list)
    operations: list[Total] = field(default_factory=list)
    while_idle: list[Total] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    """How each connection ended."""

    @property
    def exit_code(self) -> int:
        """0 if each worker has a profile, 1 if one has none, 2 if one was not reached."""
        return max(
            exit_code(self.results), Exit.FAILED if self.missing or not self.found else Exit.DONE
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "run": self.wanted.run,
            "folder": str(self.folder) if self.folder else None,
            "profiles": [_told(*one) for one in self.found],
            "missing": [{"worker": name, "says": says} for name, says in self.missing],
            "notes": list(filter(None, (*self.notes, other_steps(self)))),
            "operations": [
                {**_told_total(one), "kind": one.kind or None} for one in self.operations
            ],
            "while_idle": [_told_total(one) for one in self.while_idle],
            "no_result": no_results(
                one for one in self.results if one.kind is not Kind.DONE or one.says
            ),
            "exit_code": self.exit_code,
        }


def _told(profile: Profile, of_devices: Shares | None) -> dict[str, Any]:
    return {
        "worker": profile.worker,
        "process": profile.pid,
        "file": str(profile.path),
        "bytes": profile.bytes,
        "framework": profile.framework or None,
        "late_seconds": None if profile.late is None else round(profile.late, 3),
        "seconds": None if profile.seconds is None else round(profile.seconds, 3),
        "first_step": profile.first_step,
        "last_step": profile.last_step,
        "devices": of_devices.devices if of_devices else 0,
        "idle": round(of_devices.idle, 4) if of_devices else None,
        "input": round(of_devices.input, 4) if of_devices else None,
        "collectives": round(of_devices.collectives, 4) if of_devices else None,
    }


def _told_total(one: Total) -> dict[str, Any]:
    return {
        "name": one.name,
        "seconds": round(one.seconds, 6),
        "calls": one.calls,
        "share": round(one.share, 4),
    }


def chosen_runs(known: Known, many: Many, wanted: Wanted) -> list[Run]:
    """Return the run on each chosen worker; refuse one that does not run there."""
    names = many.names_in(known)
    with asking(names):
        answers = ask_for_runs(known, names, many.user, False, many.settings, many.retry)
    there = [run for run in answers.runs if run.run == wanted.run]
    if not there:
        show_problems(answers.results)
        where = part_of(known.fleet, names)
        raise no_such_runs([wanted.run], answers.names, answers.results, where)
    found = [run for run in there if wanted.workers is None or run.worker in wanted.workers]
    lacking = (wanted.workers or frozenset()) - {run.worker for run in there}
    if lacking:
        numbers = ", ".join(map(str, sorted({run.worker for run in there})))
        raise click.ClickException(
            f"{wanted.run} is not on worker {', '.join(map(str, sorted(lacking)))}, "
            f"but on {numbers}: --workers names some of these."
        )
    if not any(run.state == RUNNING for run in found):
        raise click.ClickException(visible(why_not(found[0], answers.runs)))
    return found


def record(known: Known, many: Many, wanted: Wanted, runs: Sequence[Run], half: Path) -> Recorded:
    """Have the workers record, and bring it to a folder."""
    order = {"run": wanted.run, "seconds": wanted.seconds, "most_bytes": MOST_BYTES}
    bringer = Bringer(Moment(len(runs)), half)
    limit = many.settings.timeout or wanted.seconds + AFTERWARDS
    job = Job(
        profile_command(order, runs[0].status.user),
        bringer.talk,
        many.user,
        replace(many.settings, timeout=limit),
    )
    names = in_order({run.host for run in runs})
    what = f"Recording {wanted.seconds:g} s on {amount(len(names), 'worker')}"
    recorded = Recorded(wanted)
    with waiting_for(what):
        # Where another connection began later, it would record other steps.
        done = on_all(known, names, job, Quiet(), retry=False)
    recorded.results = [without_sudo(with_words(one)) for one in done]
    for one in done:
        answer = one.value if isinstance(one.value, Answer) else Answer()
        recorded.found += [(profile, None) for profile in answer.profiles]
        recorded.missing += [(one.name, says) for says in answer.missing]
    return recorded


def take_in(recorded: Recorded, half: Path, folder: Path, session: str) -> None:
    """Give the files of a profile their place, and sum them up."""
    place = half / "plugins" / "profile" / session
    place.mkdir(parents=True)
    for profile, _none in recorded.found:
        profile.path.rename(place / profile.path.name)
    half.chmod(0o755)
    half.rename(folder)
    recorded.folder = folder
    place = folder / place.relative_to(half)
    moved = [replace(one, path=place / one.path.name) for one, _none in recorded.found]
    sums = Sums()
    with waiting_for(f"Summing up {amount(len(moved), 'profile')}"):
        recorded.found = [(one, _summed(recorded, sums, one)) for one in moved]
    recorded.operations = sums.operations(OPERATIONS)
    recorded.while_idle = sums.while_idle(CALLS)


def _summed(recorded: Recorded, sums: Sums, profile: Profile) -> Shares | None:
    try:
        trace = read(profile.path, profile.iterators)
    except TraceError as error:
        recorded.missing.append((profile.worker, str(error)))
        return None
    except TooLargeError as error:
        recorded.notes.append(str(error))
        return None
    sums.add(trace)
    return shares(trace)


def show(recorded: Recorded) -> None:
    """Print the summary."""
    console = wide_console()
    if recorded.found:
        print_tables(console, *tables_of(recorded))
        for line in (*recorded.notes, other_steps(recorded), _opened_by(recorded.folder)):
            if line:
                say(console, line)
    for name, says in recorded.missing:
        click.echo(visible(f"{name}: {says}"), err=True)
    show_problems(recorded.results)


def tables_of(recorded: Recorded) -> list[Table]:
    """Draw the summary."""
    tables = [
        workers_table(recorded.found),
        operations_table(recorded.operations),
        idle_table(recorded.while_idle),
    ]
    return [table for table in tables if table.rows]


def other_steps(recorded: Recorded) -> str:
    """Return a warning if workers have no step in common; empty if they have."""
    known = [
        (one.first_step, one.last_step, one.path.name.removesuffix(".xplane.pb"))
        for one, _shares in recorded.found
        if one.first_step is not None and one.last_step is not None
    ]
    if not known or max(one[0] for one in known) <= min(one[1] for one in known):
        return ""
    return "They have no step in common: " + ", ".join(
        f"{name} {steps(first, last)}" for first, last, name in known
    )


def _opened_by(folder: Path | None) -> str:
    here = Path.cwd()
    shown = folder.relative_to(here) if folder and folder.is_relative_to(here) else folder
    return f"XProf opens {shown}"


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, MOST_SECONDS),
    metavar="SECONDS",
    default=5.0,
    show_default=True,
    help="How long to record.",
)
@click.option(
    "--workers", callback=numbers, metavar="NUMBERS", help="Only these workers of a slice: 0,2-3."
)
@option_folder("Make the folder RUN-profile-TIME in this one.  [default: this folder]")
@click.option("--open", "opens", is_flag=True, help="Open it in XProf, here or in a board.")
@option_json()
@options_of_workers
@click.argument("run", type=NameOf("runs submitted"), metavar="RUN")
@click.pass_context
def profile(
    context: click.Context,
    many: Many,
    seconds: float,
    workers: frozenset[int] | None,
    to: Path | None,
    opens: bool,
    machine_readable: bool,
    run: str,
) -> None:
    """Record a profile of RUN on all its workers at the same steps.

    The program needs no change and goes on: JAX's own profiler records in the run's processes, from
    one moment on. IDLE is the share of time in which no operation ran; INPUT that part of it in
    which the training loop waited for its next batch; COLLECTIVES the share in which an operation
    exchanged data with other devices. DIR/RUN-profile-TIME is a folder for XProf and TensorBoard,
    with all workers in one session.

    \b
      tpu-fleet profile digits
      tpu-fleet profile digits --seconds 2 --workers 0,3 --open

    The login needs sudo on the workers, or is the run's user.
    """
    if opens and machine_readable:
        raise click.UsageError("--open stays open, and --json ends: give one of them.")
    wanted = Wanted(run, seconds, workers)
    context.exit(
        guarded(
            lambda: carry_out(many, wanted, to, opens, machine_readable),
            "Interrupted. The run goes on; no profile is kept.",
        )
    )


def carry_out(many: Many, wanted: Wanted, to: Path | None, opens: bool, as_json: bool) -> int:
    """Record, bring and show a profile; return the exit code."""
    way = profile_open.way() if opens else None
    base = (to or Path()).expanduser().absolute()
    _known, runs = many.chosen(lambda known: chosen_runs(known, many, wanted))
    half = make_half(base)
    at = time.localtime()
    folder = base / f"{wanted.run}-profile-{time.strftime('%Y%m%d-%H%M%S', at)}"
    try:
        # The addresses may have been updated meanwhile.
        recorded = record(known_fleet(False), many, wanted, runs, half)
        if recorded.found:
            take_in(recorded, half, folder, time.strftime("%Y_%m_%d_%H_%M_%S", at))
    finally:
        shutil.rmtree(half, ignore_errors=True)
    if as_json:
        print_json("profile", recorded.to_dict())
        return recorded.exit_code
    show(recorded)
    if way and recorded.folder:
        profile_open.hold(way, recorded.folder)
    return recorded.exit_code
