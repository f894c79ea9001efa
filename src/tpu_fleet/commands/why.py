"""`tpu-fleet why`: look into a run on all its workers at once, and say why it stands."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import InventoryError
from rich.console import Console

from ..contract.exits import Exit
from ..contract.printing import option_json, print_json
from ..show.console import say, wide_console
from ..show.figures import amount
from ..show.table import Column, Table, print_tables
from ..show.times import iso, long
from ..show.waiting import waiting_for
from ..why import material
from ..why.case import Case, Verdict, Worker
from ..why.causes import FINE, TROUBLE
from ..why.compare import may_show_more
from ..why.judge import judge
from ..why.page import html_of
from ..why.report import of_verdict
from ..why.rows import rows_of
from ..workers.archive.declared import Archives
from ..workers.ask.run_answers import ask_for_runs
from ..workers.ask.run_evidence import NO_RUN, NOT_NOTED_HERE, OLD_AGENT, Shown, ask_for_evidence
from ..workers.inventory.hosts import Known, part_of, place_of
from ..workers.inventory.names import NameOf, no_such
from ..workers.inventory.read import PlayError, read_inventory
from .asking import NotReached
from .logs import checked_name
from .many import Many, guarded, options_of_workers
from .options import option_folder
from .submitted import archive_of

PAUSE = 0.7
"""Seconds between two looks."""
LONGEST = 9.0
"""Seconds after which no further look begins that would end later."""
COLUMNS = (
    Column("WORKER"),
    Column("STATE"),
    Column("STEP", 1, right=True),
    Column("AGE", right=True),
)
STYLES = {TROUBLE: "bold red", FINE: "bold green"}
LACKS = {NO_RUN: "run_missing", OLD_AGENT: "old_agent"}
"""The causes of workers that answer, and show nothing."""


@dataclass(frozen=True)
class Seen:
    """What the last look at all workers has shown, and the verdict for each slice."""

    at: float
    shown: Sequence[material.Shown]
    verdicts: Sequence[Verdict]
    lost: Sequence[Shown] = ()
    """The workers that gave no evidence, though they belong to the run."""


# Cases from answers


def worker_of(shown: Shown, number: int) -> Worker:
    """Return a worker with what it has shown."""
    lack = "bad_answer" if shown.refused else LACKS.get(shown.absent, "no_answer")
    told = shown.evidence
    return Worker(number if told is None else told.worker, shown.host, told, shown.absent, lack)


def cases_of(run: str, shown: Sequence[Shown], known: Known) -> list[Case]:
    """Return a case for each slice that has the run, or one for all slices that run it together."""
    by_slice: dict[str, list[Shown]] = {}
    for one in shown:
        by_slice.setdefault(_slice(one.host, known), []).append(one)
    having = {name: those for name, those in by_slice.items() if any(map(_has_it, those))}
    said = {one.evidence.run.workers for each in having.values() for one in each if one.evidence}
    # One worker that says another number does not change how the others are judged.
    whole = said.pop() if len(said) == 1 else 0
    if len(having) > 1 and all(len(those) < whole for those in having.values()):
        those = [one for each in having.values() for one in each]
        return [Case(run, ", ".join(having), _numbered(those, range(whole)))]
    return [
        Case(run, name, _numbered(those, [_index(one, known) for one in those]))
        for name, those in having.items()
    ]


def _slice(host: str, known: Known) -> str:
    return place_of(host, known.fleet.groups)[0]


def _has_it(one: Shown) -> bool:
    return one.evidence is not None or one.refused or one.absent == OLD_AGENT


def _index(one: Shown, known: Known) -> int:
    return place_of(one.host, known.fleet.groups)[1]


def _numbered(those: Sequence[Shown], numbers: Sequence[int]) -> tuple[Worker, ...]:
    """Give the workers without evidence the numbers that the others do not have."""
    taken = {one.evidence.worker for one in those if one.evidence}
    free = [number for number in numbers if number not in taken]
    found = []
    for one in those:
        found.append(worker_of(one, -1 if one.evidence or not free else free.pop(0)))
    return tuple(sorted(found, key=lambda worker: worker.number))


# Looks


def look(run: str, many: Many) -> Seen:
    """Look at the run until there is an answer: once, or a few times at one that goes on."""
    known, names = many.workers()
    looks: dict[str, list[Case]] = {}
    begun = time.monotonic()
    while True:
        began = time.monotonic()
        shown = ask_for_evidence(known, names, run, many.user, many.settings, many.retry)
        cases = cases_of(run, shown, known)
        if not cases:
            raise missing(run, shown, known, many)
        for case in cases:
            looks.setdefault(case.slice, []).append(case)
        verdicts = [judge(looks[case.slice]) for case in cases]
        ends = PAUSE + 2 * time.monotonic() - began - begun
        if ends > LONGEST or not _look_again(verdicts, looks.values()):
            break
        time.sleep(PAUSE)
    hosts = {worker.host for case in cases for worker in case.workers}
    mine = [one for one in shown if one.host in hosts]
    return Seen(
        time.time(),
        [material.Shown(one.host, one.evidence, one.text) for one in mine if one.evidence],
        sorted(map(with_addresses, verdicts), key=lambda one: one.answer.order),
        [one for one in mine if one.evidence is None],
    )


def look_at_hang(run: str, many: Many) -> Seen:
    """Judge what the agents of the run noted at its last hang, before they ended the attempt."""
    known, names = many.workers()
    shown = ask_for_evidence(known, names, run, many.user, many.settings, many.retry, noted=True)
    told = [material.Shown(one.host, one.evidence, one.text) for one in shown if one.evidence]
    told = material.of_one_attempt(told)
    if not told:
        if all(one.absent == NO_RUN for one in shown):
            raise missing(run, shown, known, many)
        raise click.ClickException(f"No hang of {run} is noted on its workers.")
    kept = {one.host for one in told}
    cases = cases_of(run, [one for one in shown if one.host in kept], known)
    at = max(one.evidence.at for one in told)
    slices = {_slice(host, known) for host in kept}
    lost = [
        one
        for one in shown
        if one.absent not in ("", NO_RUN, NOT_NOTED_HERE) and _slice(one.host, known) in slices
    ]
    return Seen(at, told, [judge([case]) for case in cases], lost)


def _look_again(verdicts: Sequence[Verdict], looks: Iterable[Sequence[Case]]) -> bool:
    """Return whether a further look may find a worker for which the others wait."""
    several = any(len(one.case.working) > 1 for one in verdicts)
    goes_on = all(one.answer.key == "healthy" and one.case.began for one in verdicts)
    return several and goes_on and any(map(may_show_more, looks))


def missing(run: str, shown: Sequence[Shown], known: Known, many: Many) -> click.ClickException:
    """Return the error for a run that no worker has, with the runs that there are."""
    away = [one for one in shown if one.absent != NO_RUN]
    answers = ask_for_runs(known, [one.host for one in shown if one not in away], many.user)
    where = part_of(known.fleet, many.names_in(known))
    says = no_such("run", run, answers.names, where)
    if not away:
        return click.ClickException(says)
    lost = "; ".join(f"{one.host}: {one.absent}" for one in away[:5])
    return NotReached(f"{says} Not reached: {lost}.")


def with_addresses(verdict: Verdict) -> Verdict:
    """Judge once more with the workers' addresses, if a command needs them."""
    if verdict.answer.key != "blocked_port":
        return verdict
    try:
        told = dict(read_inventory().workers())
    except (PlayError, InventoryError):
        return verdict
    workers = [
        replace(one, address=str(told.get(one.host, {}).get("tpu_vm_internal_ip") or ""))
        for one in verdict.case.workers
    ]
    return judge([replace(verdict.case, workers=tuple(workers))])


def from_folder(run: str, folder: Path) -> Seen:
    """Judge evidence that lies in a folder: of an earlier look, or fetched after a hang."""
    kept = material.read(folder, run)
    for line in kept.problems:
        click.echo(visible(line), err=True)
    if not kept.shown:
        raise click.ClickException(f"There is no evidence of {run} in {folder}.")
    workers = [Worker(one.evidence.worker, one.host, one.evidence) for one in kept.shown]
    workers.sort(key=lambda worker: worker.number)
    at = max(one.evidence.at for one in kept.shown)
    return Seen(at, kept.shown, [judge([Case(run, folder.name, tuple(workers))])])


# Output


def show(console: Console, seen: Seen) -> None:
    """Print the sentence, the remedy, the table, and what else was seen."""
    for number, verdict in enumerate(seen.verdicts):
        if number:
            console.print()
        if len(seen.verdicts) > 1:
            say(console, f"{verdict.case.run} on {verdict.case.slice}", "bold underline")
        answer = verdict.answer
        say(console, answer.sentence, STYLES.get(answer.cause.grade, "bold yellow"))
        if answer.remedy:
            say(console, answer.remedy)
        if answer.command:
            # A command is copied whole: it is not broken.
            console.print(f"  {answer.command}", soft_wrap=True)
        console.print()
        print_tables(console, table_of(verdict))
        if verdict.more:
            console.print()
            say(console, "Also seen:", "bold")
            for one in verdict.more:
                say(console, f"- {one.sentence}")


def table_of(verdict: Verdict) -> Table:
    """Draw where each worker stands; those that the answer names are first, and red."""
    table = Table(COLUMNS, note="WHAT IT DOES")
    bad = verdict.answer.cause.grade == TROUBLE
    for row in rows_of(verdict):
        step = "-" if row.step is None else str(row.step)
        age = "-" if row.age_s is None else long(row.age_s)
        style = "red" if row.blamed and bad else ""
        table.add(row.names, row.state, step, age, notes=[row.doing], style=style)
    return table


def report_of(seen: Seen, folder: Path | None, code: int) -> dict[str, Any]:
    """Return everything for programs."""
    lost = [{"worker": one.host, "says": one.absent, "remedy": one.remedy} for one in seen.lost]
    return {
        "at": seen.at,
        "verdicts": [*map(of_verdict, seen.verdicts)],
        "folder": str(folder) if folder else None,
        "no_result": lost,
        "exit_code": code,
    }


def code_of(seen: Seen) -> int:
    """Return whether every worker of the run answered, an answer was invalid, or one is missing."""
    codes = (Exit.FAILED if one.refused else Exit.UNKNOWN for one in seen.lost)
    return max(codes, default=Exit.DONE)


def folder_of(run: str, seen: Seen, to: Path | None) -> Path:
    """Return the folder for what was seen: beside what `fetch` brings, if none is named."""
    if to is None:
        base = Archives(elsewhere=archive_of).folder_of_results()
        to = base / run / material.folder_name(seen.at)
    return to.expanduser().absolute()


def keep(run: str, seen: Seen, to: Path | None, code: int) -> Path | None:
    """Write the folder; without one that can be written, the answer is shown all the same."""
    folder = folder_of(run, seen, to)
    try:
        html = html_of(seen.verdicts, seen.at)
        material.write(folder, seen.shown, report_of(seen, folder, code), html)
    except OSError as error:
        click.echo(f"{folder} cannot be written: {error.strerror}. Name another -o.", err=True)
        return None
    return folder


def named(folder: Path) -> str:
    """Name a folder for people: one below this one from here."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


@click.command()
@option_folder(
    "Keep what was seen in this folder.  [default: RUN/why-TIME in fleet_results_dir of the fleet "
    "file, or in collected]"
)
@click.option(
    "--kept",
    "source",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Judge what is kept in this folder, of an earlier look or fetched; ask no worker.",
)
@click.option(
    "--hang", "noted", is_flag=True, help="Judge what the run's agents noted when it hung last."
)
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@options_of_workers
@option_json()
@click.argument("run", type=NameOf("runs submitted"), callback=checked_name, metavar="RUN")
@click.pass_context
def why(
    context: click.Context,
    many: Many,
    to: Path | None,
    source: Path | None,
    noted: bool,
    opened: bool,
    machine_readable: bool,
    run: str,
) -> None:
    """Look into RUN on all its workers, and say why it stands.

    All workers are asked at once: Python's stacks and the kernel's view of each thread, what
    libtpu's monitoring port says, the step, open and reachable ports, chips and who holds them,
    disks, memory, versions, the last exception. They are compared, and one sentence says who holds
    the run up, where, since when, and who waits for it; below it stands the command that helps.

    The run is not changed and not held up. A run that goes on is looked at up to four times, to
    find a slow worker. All that was seen lies in a folder, with a page that can be sent to other
    people.

    With hang_after in its entry, the agents of a run note the same by themselves before they end an
    attempt that hangs; --hang judges the last of these notes.

    \b
      tpu-fleet why digits
      tpu-fleet why digits --open
      tpu-fleet why digits --hang
      tpu-fleet fetch digits
      tpu-fleet why digits --kept collected/digits
    """

    def work() -> int:
        if source:
            seen = from_folder(run, source)
        else:
            with waiting_for(f"Looking into {run} on its workers"):
                seen = look_at_hang(run, many) if noted else look(run, many)
        code = code_of(seen)
        folder = keep(run, seen, to, code) if to or not source else None
        if machine_readable:
            print_json("why", report_of(seen, folder, code))
            return code
        console = wide_console()
        if noted or source:
            say(console, f"As it was at {iso(seen.at)}:", "bold")
        show(console, seen)
        if folder:
            _tell(console, seen, folder, opened)
        return code

    context.exit(guarded(work, "Interrupted."))


def _tell(console: Console, seen: Seen, folder: Path, opened: bool) -> None:
    """Say where the material is; open the page if that is wanted."""
    files = amount(len(seen.shown), "worker")
    page = shlex.quote(f"{named(folder)}/{material.PAGE}")
    console.print()
    say(console, f"All that was seen of {files}: {page}")
    if opened:
        click.launch((folder / material.PAGE).as_uri())
