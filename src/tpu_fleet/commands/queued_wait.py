"""Wait until a submitted run is on a slice, and say meanwhile why it is not."""

from __future__ import annotations

import time

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import WAITING, Submitted

from ..show.console import PlainConsole, say
from .queued import Here

LOOK = 2.0
"""Seconds between two looks at a run that waits."""
SETTLE = 15.0
"""Seconds in which the queue has what became of a run that has ended on its slice."""


def slice_of(run: str, before: str) -> str:
    """Return the slice that has the run; empty if there is no such run, or it has ended."""
    here = Here.opened()
    state = here.states([run]).get(run)
    if state is not None and before:
        state = _settled(here, state, before)
    told = ""
    while state is not None and state.state == WAITING:
        told = _tell(here, state, told)
        time.sleep(LOOK)
        state = here.state(run)
    if state is not None and before and not state.is_open:
        click.echo(visible(f"{run} is {state.state}: {state.reason}".rstrip(": ")), err=True)
    return state.owner.slice if state and state.owner else ""


def _settled(here: Here, state: Submitted, before: str) -> Submitted | None:
    """Return the state once it is no more that of the slice on which the run was."""
    end = time.monotonic() + SETTLE
    found: Submitted | None = state
    while found and found.owner and found.owner.slice == before and time.monotonic() < end:
        time.sleep(LOOK / 4)
        found = here.state(state.name)
    return found


def _tell(here: Here, state: Submitted, told: str) -> str:
    """Say why a run waits, if that is news; return what was said."""
    view = here.view()
    why = view.why(next((one for one in view.runs if one.name == state.name), state))
    if why == told:
        return told
    console = PlainConsole(stderr=True)
    say(console, f"{state.name} waits: {why}.")
    if not told:
        say(console, "Its log follows when it begins; Ctrl-C ends this.")
    return why
