"""`tpu-fleet fetch`: bring what runs left on their workers, by the playbook tpu.fleet.collect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import Life
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from ..contract.exits import Exit
from ..contract.printing import option_json, print_json
from ..show.figures import amount
from ..show.output import exit_code, show_problems
from ..show.waiting import waiting_for
from ..workers.archive.bring import bring
from ..workers.archive.declared import Archives, Kept
from ..workers.ask.run_answers import Answers, ask_for_runs
from ..workers.inventory.hosts import Known, in_order, part_of
from ..workers.inventory.names import NameOf
from ..workers.inventory.read import PlayError
from ..workers.play import Event, play, problem_of
from .asking import asking, no_such_runs
from .logs import is_meant
from .many import Many, guarded
from .options import option_folder, option_limit, option_slice
from .submitted import archive_of

BOOK = "tpu.fleet.collect"


@dataclass(frozen=True)
class Fetched:
    """What was brought of a run from a worker."""

    run: str
    worker: str
    folder: str
    files: int
    missing: tuple[str, ...]

    def line(self, here: Path) -> str:
        """Return it in a line; a folder below this one is named from here."""
        folder = Path(self.folder)
        where = folder.relative_to(here) if folder.is_relative_to(here) else folder
        lacks = f"; not there: {', '.join(self.missing)}" if self.missing else ""
        return f"{self.run} on {self.worker}: {self._new} {where}{lacks}"

    @property
    def _new(self) -> str:
        return f"{amount(self.files, 'new file')} in" if self.files else "nothing new for"


@dataclass
class Report:
    """What the playbook has reported so far."""

    as_json: bool
    fetched: list[Fetched] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def on_event(self, event: Event) -> None:
        """Print a line for each worker when its files are here."""
        problem = problem_of(event)
        if problem:
            host, says = problem
            if host not in self.failed:
                self.failed[host] = says
                click.echo(visible(f"{host}: {says}"), err=True)
        found = fetched_of(event)
        if found:
            self.add(found)

    def add(self, found: Fetched) -> None:
        """Print a line about files that are here."""
        self.fetched.append(found)
        if not self.as_json:
            click.echo(visible(found.line(Path.cwd())))


def fetched_of(event: Event) -> Fetched | None:
    """Return what a worker's task has brought, if an event is about that."""
    if event.get("event") != "runner_on_ok":
        return None
    data: dict[str, Any] = event.get("event_data", {})
    result = data.get("res") or {}
    if data.get("task_action") != BOOK or "folder" not in result:
        return None
    missing = tuple(map(str, result["missing"]))
    return Fetched(
        str(result["run"]), str(data["host"]), str(result["folder"]), result["files"], missing
    )


def find(
    known: Known, names: Sequence[str], wanted: Sequence[str], archived: Sequence[str] = ()
) -> tuple[Answers, list[str]]:
    """Ask workers for their runs; return the answers, and the workers that have the runs.

    Those that are `archived` need not be on any worker.
    """
    with asking(names):
        answers = ask_for_runs(known, names)
    show_problems(answers.results)
    return answers, workers_with(answers, wanted, archived, part_of(known.fleet, names))


def workers_with(
    answers: Answers, wanted: Sequence[str], archived: Sequence[str] = (), where: str = ""
) -> list[str]:
    """Return the workers that have the runs; fail for a run that none of them has."""
    unknown = [name for name in wanted if name not in answers.names and name not in archived]
    if unknown:
        raise no_such_runs(unknown, answers.names, answers.results, where)
    return in_order({run.host for run in answers.runs if run.run in wanted})


@dataclass
class Gone:
    """What archives have of the runs' machines that are not there any more."""

    wanted: Sequence[str]
    chosen: Callable[[Life], bool]
    archives: Archives = field(default_factory=lambda: Archives(elsewhere=archive_of))

    def kept(self) -> list[Kept]:
        """Return the archives of the runs; one that cannot be read is reported."""
        found = []
        for run in dict.fromkeys(self.wanted):
            try:
                found.append(self.archives.of(run))
            except (TpuError, PlayError) as error:
                click.echo(visible(f"The archive of {run} is not read: {error}"), err=True)
        return [one for one in found if one and one.lives]

    def archived(self, kept: Sequence[Kept]) -> list[str]:
        """Return the runs of which an archive has a chosen machine."""
        return [one.run for one in kept if any(map(self.chosen, one.lives))]

    def bring(self, kept: Sequence[Kept], answers: Answers, to: Path | None, report: Report) -> int:
        """Bring what no machine that answers has; return whether all came, as an exit code."""
        there = {
            (run.run, run.host, run.status.archive.life)
            for run in answers.runs
            if run.status.archive
        }
        folder = to.expanduser().absolute() if to else self.archives.folder_of_results()
        failed = Exit.DONE
        for one in kept:
            for life in one.lives:
                if self.chosen(life) and (one.run, life.host, life.name) not in there:
                    place = folder / one.run / life.host / "archive" / life.name
                    failed = max(failed, self._bring(one, life, place, report))
        return failed

    def _bring(self, one: Kept, life: Life, place: Path, report: Report) -> Exit:
        try:
            files = bring(one, life, place)
        except (TpuError, OSError) as error:
            report.failed.setdefault(life.host, visible(str(error)))
            click.echo(visible(f"{life.host}: {error}"), err=True)
            return Exit.FAILED
        report.add(Fetched(one.run, life.host, str(place), files, ()))
        return Exit.DONE


@click.command()
@option_folder("To this folder.  [default: fleet_results_dir of the fleet file, or collected]")
@option_slice()
@option_limit()
@option_json()
@click.argument("wanted", type=NameOf("runs submitted"), nargs=-1, required=True, metavar="RUN...")
@click.pass_context
def fetch(
    context: click.Context,
    to: Path | None,
    slices: tuple[str, ...],
    limit: str | None,
    machine_readable: bool,
    wanted: tuple[str, ...],
) -> None:
    """Fetch what RUNs left: logs, events, status, results.

    Each worker's files go to DIR/RUN/WORKER. What the archive of a run has of a machine that is
    gone goes to DIR/RUN/WORKER/archive/LIFE, where LIFE says when that machine began.

    What is here already is not sent again, and what is half here is continued: run the same command
    again after an interruption, or to get what is new. Nothing is deleted on either side. This runs
    the playbook tpu.fleet.collect.

    \b
      tpu-fleet fetch digits
      tpu-fleet fetch digits words -o ~/results --slice pair
    """

    def work() -> int:
        many = Many(slices, limit, sudo=False)
        gone = Gone(wanted, lambda life: is_meant(life, many))
        with waiting_for("Looking at the archives"):
            kept = gone.kept()
        report = Report(machine_readable)
        answers, hosts = here(many, wanted, gone.archived(kept))
        code = bring_from_workers(wanted, hosts, to, report) if hosts else 0
        code = max(code, gone.bring(kept, answers, to, report))
        hosts = [life.host for one in kept for life in one.lives]
        ends = max(Exit.FAILED if code else Exit.DONE, exit_code(missed(answers, hosts)))
        if machine_readable:
            print_json("fetch", summary(report, ends))
        return ends

    context.exit(guarded(work, "Interrupted. The same command goes on where this one ended."))


def here(many: Many, wanted: Sequence[str], archived: Sequence[str]) -> tuple[Answers, list[str]]:
    """Return the answers of the workers, and those that have the runs."""
    try:
        return many.chosen(lambda known: find(known, many.names_in(known), wanted, archived))[1]
    except click.ClickException:
        if set(wanted) - set(archived):
            raise
        return Answers([], []), []  # the fleet has no workers


def missed(answers: Answers, archived: Sequence[str]) -> list[Result]:
    """Return the outcomes, but for workers without a machine of which an archive has all."""
    return [
        one
        for one in answers.results
        if one.kind is not Kind.UNAVAILABLE or one.name not in archived
    ]


def bring_from_workers(
    wanted: Sequence[str], hosts: Sequence[str], to: Path | None, report: Report
) -> int:
    """Run the playbook; return its exit code."""
    variables = {"run": ",".join(dict.fromkeys(wanted))}
    variables |= {"collect_to": str(to.expanduser().absolute())} if to else {}
    with waiting_for(BOOK):
        code = play(BOOK, report.on_event, limit=",".join(hosts), variables=variables)
    if code and not report.failed:
        raise click.ClickException(
            f"{BOOK} did not finish. With Ansible: ansible-playbook "
            f"{BOOK} -e run={variables['run']}"
        )
    return code


def summary(report: Report, code: int) -> dict[str, Any]:
    """Return everything for programs."""
    failed = [{"worker": host, "says": says} for host, says in report.failed.items()]
    return {"fetched": [*map(asdict, report.fetched)], "failed": failed, "exit_code": code}
