"""`tpu-fleet history`: what happened to the fleet, as the watcher and other commands have seen."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import shown

from ..history.causes import WORDS
from ..history.record import history_here, option_of_days, stories
from ..history.store import Event, HistoryError
from ..history.story import RunStory, news_of
from ..page.words import iso, long, percent, said, title_of, where_of
from ..show.console import wide_console
from ..show.figures import amount
from ..show.table import Column, Table, print_tables

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
)
EVENTS = (Column("TIME"), Column("WHERE"), Column("WHAT"))


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
        "seconds_since_checkpoint": one.saved_age,
        "seconds_at_risk": one.at_risk,
        "chips": one.chips,
        "attempts": [{**asdict(attempt), "words": attempt.words} for attempt in one.attempts],
    }


def as_event(event: Event) -> dict[str, Any]:
    """Return an event for programs."""
    return {**asdict(event), "time": iso(event.at), "title": title_of(event)}


def runs_table(found: Sequence[RunStory]) -> Table:
    """Draw the runs."""
    table = Table(RUNS, "Runs")
    for one in found:
        table.add(
            one.run,
            one.slice,
            one.user,
            one.word,
            str(len(one.attempts)),
            str(len(one.interruptions)),
            long(one.down),
            percent(one.goodput),
            "-" if one.saved_age is None else long(one.saved_age),
        )
    return table


def happenings(found: Sequence[RunStory], events: Sequence[Event]) -> list[tuple[float, ...]]:
    """Return (time, where, what, details) of interruptions and events, in the order of time."""
    rows: list[Any] = [
        (event.at, where_of(event), title_of(event), said(event)) for event in news_of(events)
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
            rows.append((attempt.ended, where, what, ", ".join(cost)))
    return sorted(rows)


@click.command()
@option_of_days
@click.option("--json", "machine_readable", is_flag=True, help="Print JSON.")
@click.argument("wanted", nargs=-1, metavar="[RUN|SLICE]...")
def history(days: float, machine_readable: bool, wanted: tuple[str, ...]) -> None:
    """Show what happened: runs, interruptions, events.

    Opens no connection: `tpu-fleet watch` writes the history, and so does every `status`, `runs`
    and `page`.
    """
    now = time.time()
    since = now - days * 86400
    try:
        kept = history_here()
        try:
            found = stories(kept, since, now)
            events = kept.events(since)
        finally:
            kept.close()
    except HistoryError as error:
        raise click.ClickException(str(error)) from error
    slices = {one.slice for one in found} | {event.slice for event in events if event.slice}
    names = sorted({one.run for one in found} | slices)
    for name in wanted:
        if name not in names:
            there = ", ".join(names) or "none at all"
            raise click.ClickException(f"There is no run or slice {shown(name)}. There is {there}.")
    if wanted:
        found = [one for one in found if one.run in wanted or one.slice in wanted]
        events = [event for event in events if event.run in wanted or event.slice in wanted]
    if machine_readable:
        runs = [told(one) for one in found]
        click.echo(json.dumps({"runs": runs, "events": [*map(as_event, events)]}, indent=2))
        return
    tables = [runs_table(found)] if found else []
    table = Table(EVENTS, "What happened", note="DETAILS")
    for at, where, what, details in happenings(found, events):
        table.add(iso(at), str(where), str(what), notes=[str(details)])
    tables += [table] if table.rows else []
    print_tables(wide_console(), *tables)
    if not tables:
        click.echo("Nothing is known yet: `tpu-fleet watch` and `tpu-fleet page` keep it.")
