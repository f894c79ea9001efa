"""`tpu-fleet compare`: curves of runs side by side, and what differs in their declarations."""

from __future__ import annotations

import csv
import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import wrap
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown, visible
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import InventoryError
from click.core import ParameterSource

from ..contract.printing import option_json, print_json
from ..history import declared
from ..history.look import STEP
from ..history.record import history_here, places_known, seen_now
from ..history.store import History, Look, Point, by_step
from ..history.story import attempts_of, begins_of
from ..page.words import iso, long, number
from ..show.chart import LETTERS, WIDTH, Curve, chart
from ..show.console import wide_console
from ..show.output import COLOURS, colours_here, show_problems
from ..show.table import Column, Table, print_tables
from ..workers.ask.run_answers import ask_for_runs
from ..workers.ask.run_view import RunView
from ..workers.inventory.lookup import known_fleet
from ..workers.inventory.names import NameOf, no_such
from ..workers.inventory.read import PlayError, read_inventory
from .asking import asking
from .options import NewFile, option_slice
from .submitted import declared_of

COLUMNS = (
    Column(""),
    Column("RUN"),
    Column("SLICE"),
    Column("STATE", 1),
    Column("STEP", 2, right=True),
    Column("LAST", right=True),
    Column("LEAST", 3, right=True),
    Column("MOST", 4, right=True),
)
FIELDS = ("run", "slice", "key", "time", "seconds", "step", "value")
DECLARATIONS = ("fleet_runs", "fleet_code", "fleet_slices")
NO_PARQUET = (
    "A Parquet file needs pyarrow beside tpu-fleet: {python} -m pip install pyarrow. --csv needs "
    "nothing."
)


@dataclass(frozen=True)
class Compared:
    """A run of a slice, with one of its numbers."""

    letter: str
    view: RunView
    key: str
    """The name of the number; empty if it has none like that."""
    points: Sequence[Point]
    keys: Sequence[str]
    """The names of all of its numbers."""
    declared: Mapping[str, str] | None
    begins: Sequence[tuple[float, int]] = ()
    """When its attempts began, and at which step."""

    @property
    def begun(self) -> float:
        """The time of its first point."""
        return self.points[0].at if self.points else 0.0

    def along(self, by: str) -> list[tuple[float, float]]:
        """Return its points over steps or over seconds since the first."""
        if by == "step":
            return [(float(one.step), one.value) for one in self.kept]
        return [(one.at - self.begun, one.value) for one in self.points]

    @cached_property
    def kept(self) -> Sequence[Point]:
        """Its points in the order of steps; see `by_step`."""
        return by_step(self.points, self.begins)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return its points for a file; see FIELDS."""
        return [
            (one.run, one.slice, one.name, iso(one.at), one.at - self.begun, one.step, one.value)
            for one in self.points
        ]


def key_of(names: Sequence[str], wanted: str) -> str:
    """Return the number of this name, or the first that has it in its name; empty if none has."""
    names = sorted(name for name in names if name != STEP)
    near = [name for name in names if wanted.lower() in name.lower()]
    return wanted if wanted in names else next(iter(near), "")


def look_now(history: History, wanted: Sequence[str]) -> None:
    """Ask the workers for what is new, and what is declared or submitted; keep both."""
    try:
        inventory = read_inventory()
        found = declared.declared_by(*(inventory.said(name, ()) for name in DECLARATIONS))
        found |= declared_of([name.rpartition("/")[2] for name in wanted])
        facts = {f"{declared.PREFIX}{name}": told for name, told in found.items()}
        history.add(Look(time.time(), facts=facts))
    except (PlayError, InventoryError) as error:
        click.echo(f"What is declared now is not known: {visible(str(error))}", err=True)
    known = known_fleet(False)
    workers = list(known.fleet.targets)
    with asking(workers):
        answers = ask_for_runs(known, workers, sudo=True, places=places_known(history))
    history.add(seen_now(answers, known))
    show_problems(answers.results)


def chosen(
    history: History, wanted: Sequence[str], slices: Sequence[str], key: str
) -> list[Compared]:
    """Return each run of these names on each slice; fail for a name that no look has seen."""
    seen = {name: RunView.from_dict(body) for name, (_at, body) in history.facts("run:").items()}
    told = history.facts(declared.PREFIX)
    names = sorted({view.run for view in seen.values()})
    views = []
    for name in dict.fromkeys(wanted):
        those = [view for view in seen.values() if name in (view.run, view.name)]
        if not those:
            raise click.ClickException(no_such("run", name, names))
        here = [view for view in those if not slices or view.slice in slices]
        if not here:
            there = ", ".join(sorted(view.slice for view in those))
            raise click.ClickException(f"{name} is not on {', '.join(slices)}, but on {there}.")
        views += sorted(here, key=lambda view: view.name)
    if len(views) > len(LETTERS):
        raise click.ClickException(f"These are {len(views)} runs; name {len(LETTERS)} at most.")
    found = []
    for letter, view in zip(LETTERS, dict.fromkeys(views), strict=False):
        curves = history.points_of(view.slice, view.run)
        name = key_of(list(curves), key)
        keys = sorted(set(curves) - {STEP})
        _at, body = told.get(view.name, (0.0, None))
        events = history.events_of(view.slice, view.run)
        attempts = attempts_of(events, (), curves.get(STEP, ()), view.state, time.time())
        begins = begins_of(attempts)
        found.append(Compared(letter, view, name, curves.get(name, ()), keys, body, begins))
    return found


def check_key(found: Sequence[Compared], key: str) -> None:
    """Refuse the name of a number that none of the runs has, where one has others."""
    there = sorted({name for one in found for name in one.keys})
    if there and not any(one.key for one in found):
        raise click.ClickException(no_such("number", key, there))


def table_of(found: Sequence[Compared]) -> Table:
    """Draw which letter is which run, and its last, least and greatest value."""
    table = Table(COLUMNS, note="NOTE")
    for one in found:
        values = [point.value for point in one.kept]
        last = one.points[-1] if one.points else None
        step = last.step if last else one.view.step
        lacks = (
            f"it has no such number, but {', '.join(one.keys)}"
            if one.keys
            else ("no number of it is known")
        )
        table.add(
            *(one.letter, one.view.run, one.view.slice, one.view.word),
            "-" if step is None else str(step),
            *map(number, (values[-1], min(values), max(values)) if values else ()),
            *([] if values else ["-"] * 3),
            notes=[] if values else [lacks],
        )
    return table


def draw(found: Sequence[Compared], by: str, logarithmic: bool, width: int) -> list[str]:
    """Return the chart, in colour on a terminal."""
    curves = [Curve(one.letter, one.along(by)) for one in found]
    x_label = (lambda x: f"{x:,.0f}") if by == "step" else long
    lines = chart(curves, x_label, number, width, logarithmic=logarithmic)
    if not colours_here(sys.stdout):
        return lines
    colours = {one.letter: COLOURS[at % len(COLOURS)] for at, one in enumerate(found)}
    return [_coloured(line, colours) for line in lines]


def _coloured(line: str, colours: Mapping[str, str]) -> str:
    """Return a line of the chart with its letters in colour; labels stand before the edge."""
    before, edge, after = line.partition("┤" if "┤" in line else "│")
    shown_after = "".join(
        click.style(char, fg=colours[char]) if char in colours else char for char in after
    )
    return before + edge + shown_after


def differences(found: Sequence[Compared], width: int) -> list[str]:
    """Return what differs between the declarations: each key, and its value for each run.

    Lines are broken between words at the width.
    """
    lines = []
    for key, values in declared.differing([one.declared for one in found]):
        lines.append(shown(key))
        for one, value in zip(found, values, strict=True):
            text = f"  {one.letter}  {shown(value, declared.LONGEST)}"
            lines += wrap(
                text,
                width,
                subsequent_indent=" " * 5,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return lines


def written(option: str, path: Path, write: Callable[[], None]) -> None:
    """Write a file, or say which one cannot be written."""
    try:
        write()
    except OSError as error:
        says = f"{option} {path} cannot be written: {error.strerror}. Name another file."
        raise click.ClickException(says) from error


def write_csv(path: Path, found: Sequence[Compared]) -> None:
    """Write all points; a file that exists is replaced when the new one is complete."""
    half = path.with_name(f".{path.name}.new")
    with half.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(FIELDS)
        for one in found:
            rows.writerows(one.rows())
    half.replace(path)


def parquet() -> tuple[Any, Any]:
    """Return pyarrow and its part for Parquet, or say how to get it."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise click.ClickException(NO_PARQUET.format(python=sys.executable)) from error


def write_parquet(path: Path, found: Sequence[Compared], arrow: Any, files: Any) -> None:
    """Write all points; a file that exists is replaced when the new one is complete."""
    rows = [row for one in found for row in one.rows()]
    columns = {name: [row[at] for row in rows] for at, name in enumerate(FIELDS)}
    half = path.with_name(f".{path.name}.new")
    files.write_table(arrow.table(columns), str(half))
    half.replace(path)


def as_data(found: Sequence[Compared], by: str) -> dict[str, Any]:
    """Format everything for programs."""
    runs = [
        {
            "run": one.view.run,
            "slice": one.view.slice,
            "state": one.view.state,
            "attempt": one.view.attempt,
            "key": one.key or None,
            "keys": list(one.keys),
            "points": [{"time": p.at, "step": p.step, "value": p.value} for p in one.points],
            "declared": one.declared,
        }
        for one in found
    ]
    differs = [key for key, _values in declared.differing([one.declared for one in found])]
    return {"by": by, "runs": runs, "differs": differs}


@click.command()
@click.option(
    "--key", default="loss", show_default=True, metavar="NAME", help="Compare this number."
)
@click.option(
    "--by",
    type=click.Choice(("step", "time")),
    default="step",
    show_default=True,
    help="Over steps, or over the time since each run's begin.",
)
@click.option("--log", "logarithmic", is_flag=True, help="Draw it on a logarithmic scale.")
@option_slice()
@click.option("--known", is_flag=True, help="Ask no worker: show what earlier looks have seen.")
@click.option(
    "--csv",
    "csv_file",
    type=NewFile(),
    metavar="FILE",
    help="Write all points to this file too.",
)
@click.option(
    "--parquet",
    "parquet_file",
    type=NewFile(),
    metavar="FILE",
    help="The same for Parquet, with pyarrow.",
)
@option_json()
@click.argument("wanted", type=NameOf("runs submitted"), nargs=-1, required=True, metavar="RUN...")
@click.pass_context
def compare(
    context: click.Context,
    key: str,
    by: str,
    logarithmic: bool,
    slices: tuple[str, ...],
    known: bool,
    csv_file: Path | None,
    parquet_file: Path | None,
    machine_readable: bool,
    wanted: tuple[str, ...],
) -> None:
    """Compare RUNs: their losses, and what is declared otherwise.

    A run on several slices has a curve for each; pair/digits is one of them. Runs that have ended
    or were taken out of the fleet file count too, for 90 days. The numbers are those of the page:
    what programs write to TPU_FLEET_PROGRESS, print or log for TensorBoard. The workers are asked
    for what is new; those that do not answer are named, and what is known of them is shown.

    \b
      tpu-fleet compare digits words
      tpu-fleet compare digits --key lr --by time
      tpu-fleet compare pair/digits solo/digits --csv losses.csv
    """
    arrow = parquet() if parquet_file else None
    with closing(history_here()) as history:
        if not known:
            look_now(history, wanted)
        found = chosen(history, wanted, slices, key)
    if context.get_parameter_source("key") is not ParameterSource.DEFAULT:
        check_key(found, key)
    if csv_file:
        written("--csv", csv_file, lambda: write_csv(csv_file, found))
    if arrow and parquet_file:
        written("--parquet", parquet_file, lambda: write_parquet(parquet_file, found, *arrow))
    if machine_readable:
        print_json("compare", as_data(found, by))
        return
    console = wide_console()
    lines = draw(found, by, logarithmic, min(WIDTH, console.width))
    if lines:
        title = " and ".join(dict.fromkeys(one.key for one in found if one.key))
        click.echo("\n".join([visible(f"{title} by {by}"), *lines, ""]))
    print_tables(console, table_of(found))
    different = differences(found, console.width)
    if different:
        click.echo(visible("\n".join(["\nWhat differs", *different])))
    unknown = [one.view.name for one in found if one.declared is None]
    if unknown:
        click.echo(visible(f"\nWhat was declared of {', '.join(unknown)} is not known."))
