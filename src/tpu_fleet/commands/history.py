"""`tpu-fleet history`: what happened to the fleet, as the watcher and other commands have seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown, visible

from ..contract.printing import option_json, print_json
from ..history.archived import keep as keep_archived
from ..history.causes import WANTED, WORDS
from ..history.record import history_here, stories
from ..history.store import Event
from ..history.story import RunStory, news_of
from ..history.verdict import verdict_of
from ..page.words import clock, iso, kind_of, long, percent, said, title_of, where_of
from ..show.console import say, wide_console
from ..show.figures import amount
from ..show.spent import first_step_after, shares_text, start_text
from ..show.table import Column, Table, print_tables
from ..workers.inventory.names import NameOf, no_such
from .runs import USE, use_cells, use_described
from .since import FORMS, moment

RUNS = (
    Column("RUN"),
    Column("SLICE", 3),
    Column("USER", 6),
    Column("STATE"),
    Column("ATTEMPTS", 5, right=True),
    Column("INTERRUPTED", 4, right=True),
    Column("DOWN", 2, right=True),
    Column("GOODPUT", 1, right=True),
    Column("SAVED", 7, right=True),
    *USE,
)
EVENTS = (Column("TIME"), Column("AGO", 1, right=True), Column("WHERE"), Column("WHAT"))


def told(one: RunStory) -> dict[str, Any]:
    """Return a run for programs."""
    return {
        "run": one.run,
        "slice": one.slice,
        "user": one.user,
        "state": one.state,
        "seconds": round(one.span, 1),
        "seconds_down": round(one.down, 1),
        "goodput": None if one.goodput is None else round(one.goodput, 4),
        "seconds_by_kind": {kind: round(seconds, 1) for kind, seconds in one.spent.items()},
        "seconds_since_checkpoint": one.saved_age,
        "seconds_at_risk": one.at_risk,
        "chips": one.chips,
        **use_described(one.view),
        "attempts": [{**asdict(attempt), "words": attempt.words} for attempt in one.attempts],
    }


def as_event(event: Event) -> dict[str, Any]:
    """Return an event for programs."""
    return {**asdict(event), "time": iso(event.at), "title": title_of(event)}


def runs_table(found: Sequence[RunStory]) -> Table:
    """Draw the runs."""
    table = Table(RUNS, "Runs", note="TIME WENT TO")
    for one in found:
        table.add(
            one.run,
            one.slice,
            one.user,
            one.word,
            str(len(one.attempts)),
            str(len(one.faults)),
            long(one.down),
            percent(one.goodput),
            "-" if one.saved_age is None else long(one.saved_age),
            *use_cells(one.view),
            notes=[shares_text(one.spent) if one.knows_inside else ""],
            style="red" if one.view.is_troubled else "",
        )
    return table


@dataclass(frozen=True, order=True)
class Happening:
    """An interruption or an event, as a row."""

    at: float
    where: str
    what: str
    details: str = ""
    kind: str = "bad"


def happenings(found: Sequence[RunStory], events: Sequence[Event]) -> list[Happening]:
    """Return interruptions and events, in the order of time."""
    rows = [
        Happening(event.at, where_of(event), title_of(event), said(event), kind_of(event))
        for event in news_of(events)
    ]
    for one in found:
        for attempt in one.interruptions:
            cost = [attempt.why] if attempt.why else []
            if attempt.down is not None:
                cost.append(f"down for {long(attempt.down)}")
            if attempt.again:
                cost.append(f"{amount(attempt.again, 'step')} again")
            what = f"attempt {attempt.number}: {WORDS.get(attempt.kind, attempt.kind)}"
            where = f"{one.slice} \u00b7 {one.run}"
            kind = "note" if attempt.kind in WANTED else "bad"
            rows.append(Happening(attempt.ended or 0.0, where, what, ", ".join(cost), kind))
        rows += [
            Happening(
                attempt.begun + (first_step_after(attempt.start_parts) or 0.0),
                f"{one.slice} \u00b7 {one.run}",
                f"attempt {attempt.number}: first step",
                start_text(attempt.start_parts, attempt.start_counts),
                "note",
            )
            for attempt in one.attempts
            if attempt.start_parts
        ]
    return sorted(rows)


def events_table(rows: Sequence[Happening], now: float) -> Table:
    """Draw what happened, the newest last."""
    table = Table(EVENTS, "What happened", note="DETAILS")
    for one in rows:
        ago = long(now - one.at)
        style = {"bad": "red", "good": "green"}.get(one.kind, "")
        table.add(clock(one.at), ago, one.where, one.what, notes=[one.details], style=style)
    return table


@click.command()
@click.option(
    "--since",
    callback=moment,
    default="7d",
    show_default=True,
    metavar="TIME",
    help=f"From then on: {FORMS}.",
)
@click.option("--bad", is_flag=True, help="Only what went wrong.")
@option_json()
@click.argument("wanted", type=NameOf("runs submitted slices"), nargs=-1, metavar="[RUN|SLICE]...")
def history(since: float, bad: bool, machine_readable: bool, wanted: tuple[str, ...]) -> None:
    """Show what happened: a verdict, runs, interruptions, events.

    The first line has what failed, what interrupted runs, how many chip hours that cost, and
    whether checkpoints were deleted. The newest event is the last line. Times of events are UTC;
    a TIME without a zone is that of this computer.

    `tpu-fleet watch` writes the history, and so does every `status`, `runs` and `page`. No worker
    is asked. What machines that are gone have written last is read from the archives of their runs.

    \b
      tpu-fleet history --since 22:00 --bad     what went wrong last night
      tpu-fleet history --since 30d pair        a month of a slice
    """
    now = time.time()
    with closing(history_here()) as kept:
        keep_archived(kept, lambda text: click.echo(visible(text), err=True))
        found = stories(kept, since, now)
        events = kept.events(since)
    slices = {one.slice for one in found} | {event.slice for event in events if event.slice}
    names = sorted({one.run for one in found} | slices)
    for name in wanted:
        if name not in names:
            raise click.ClickException(no_such("run or slice", shown(name), names))
    if wanted:
        found = [one for one in found if one.run in wanted or one.slice in wanted]
        events = [event for event in events if event.run in wanted or event.slice in wanted]
    verdict = verdict_of(found, since, now)
    if machine_readable:
        runs = [told(one) for one in found]
        body = {"verdict": asdict(verdict), "runs": runs, "events": [*map(as_event, events)]}
        print_json("history", body)
        return
    rows = [one for one in happenings(found, events) if one.at >= since]
    if not found and not rows:
        click.echo("Nothing is known yet: `tpu-fleet watch` and `tpu-fleet page` keep it.")
        return
    console = wide_console()
    style = "red" if verdict.failed or verdict.lost_checkpoints else ""
    say(console, verdict.text(), style)
    console.print()
    if bad:
        found = [one for one in found if one.view.is_troubled or one.faults]
        rows = [one for one in rows if one.kind == "bad"]
    tables = [runs_table(found)] if found else []
    tables += [events_table(rows, now)] if rows else []
    print_tables(console, *tables)
