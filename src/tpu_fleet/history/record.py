"""Keep what a command or the watcher has seen; without a history, they work all the same."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..workers.ask.run_answers import Answers
from ..workers.inventory.ansible_config import inventory_sources, state_of
from ..workers.inventory.hosts import Known, place_of
from . import look, stops
from .money import Account, account_of
from .store import GAP, KEPT_DAYS, Event, History, HistoryError, Look
from .story import BEGUN, RunStory, runs_of

if TYPE_CHECKING:
    # As in look.
    from ..workers.inventory.fleet_facts import FleetView

HISTORY = "history.db"
option_of_days = click.option(
    "--days",
    type=click.FloatRange(0.01, KEPT_DAYS),
    default=7.0,
    show_default=True,
    metavar="N",
    help="How many days back.",
)
POINTS = 1500
"""Points of a curve that are read."""


def history_here() -> History:
    """Return the history of the fleet in this folder."""
    sources = inventory_sources(os.environ, Path.cwd())
    return History(state_of(os.environ, sources) / HISTORY)


def places_known(history: History) -> Mapping[str, Mapping[str, Any]]:
    """Return how far the past of each worker's runs is known."""
    return look.places_of(history.facts("place:"))


def without_logs(event: Event) -> Event:
    """Return an event without what a program printed."""
    # The watcher's text about a run that failed has the program's last error.
    left = {"said", "text"} if event.worker < 0 and event.name == "failed" else {"said"}
    detail = {key: value for key, value in event.detail.items() if key not in left}
    return replace(event, detail=detail)


def events_of(history: History, since: float, also: str = "", logs: bool = True) -> list[Event]:
    """Return the events since a time; without `logs`, without what programs printed."""
    found = history.events(since, also)
    return found if logs else list(map(without_logs, found))


def stories(history: History, since: float, now: float, logs: bool = True) -> list[RunStory]:
    """Return the story of each run that was seen since a time.

    Without `logs`, nothing that a program printed is in them.
    """
    seen = history.facts("run:")
    if not logs:
        hidden = {"tail": [], "failed_with": ""}
        seen = {name: (at, {**body, **hidden}) for name, (at, body) in seen.items()}
    return runs_of(
        [event for event in events_of(history, since, BEGUN, logs) if event.at <= now + GAP],
        history.spans("run", since),
        history.spans("node", since),
        history.curves(since, now, POINTS),
        seen,
        since,
        now,
    )


def account(history: History, days: float, now: float) -> Account:
    """Return the use of the fleet in the last days, as far as it was seen."""
    since = max(now - days * 86400, min(history.began() or now, now))
    nodes = [span for span in history.spans("node", since) if span.value.get("ours")]
    return account_of(nodes, history.spans("run", since), history.spans("grant"), since, now)


def seen_now(answers: Answers, known: Known, view: FleetView | None = None) -> Look:
    """Return a look of what the workers answered, and of what the API did if it was asked."""
    found = Look(time.time())
    if view is not None:
        look.of_view(found, view)
    hosts = [result.name for result in answers.results]
    look.answers_seen(found, answers, {host: place_of(host, known.fleet.groups) for host in hosts})
    return found


def remember(answers: Answers, known: Known, view: FleetView | None = None) -> None:
    """Keep what a command has seen; say on standard error when that is not possible."""
    try:
        history = history_here()
        try:
            history.add(seen_now(answers, known, view))
        finally:
            history.close()
    except HistoryError as error:
        click.echo(f"What was seen is not kept. {error}", err=True)
    note_stops(answers, known)


def note_stops(answers: Answers, known: Known) -> None:
    """Keep who stopped the runs that workers answered for; print why that is not possible."""
    try:
        stops.note(stops.folder_of(known), answers.runs)
    except OSError as error:
        click.echo(f"Which runs are stopped is not kept. {error}", err=True)
