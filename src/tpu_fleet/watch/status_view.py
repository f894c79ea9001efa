"""The output of `tpu-fleet watch status`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import lines_of
from rich.console import Console

from ..show.console import say
from ..show.table import Column, Table, print_tables
from ..show.times import long


def ago(at: float | None, now: float) -> str:
    """Format how long ago something was."""
    return f"{long(now - at)} ago" if at else "never"


def headline(status: Mapping[str, Any], runs: bool, now: float) -> str:
    """Return one line that says whether a watcher runs."""
    if not runs:
        wrote = ago(status["now"], now)
        return (
            f"No watcher runs here. The last one wrote this status {wrote}. Start it: tpu-fleet "
            "watch install"
        )
    if status["works"]:
        return (
            f"Watching as process {status['pid']} for {long(now - status['began'])}; "
            f"last poll {ago(status['looked_at'], now)}."
        )
    if status["stands_by_for"]:
        return f"Standing by: {status['stands_by_for']} watches."
    return "Running; no poll has succeeded yet."


def show(console: Console, status: Mapping[str, Any], runs: bool) -> None:
    """Print the status for a person."""
    now = time.time()
    say(console, headline(status, runs, now))
    columns = [Column(name) for name in ("SLICE", "PHASE", "DUE")]
    slices = Table(columns, note="STATE")
    for one in status["slices"]:
        away = f"no answer from {', '.join(one['away'])}" if one["away"] else ""
        due = ", ".join([*one["due"], *([away] if away else [])])
        if one["failures"]:
            due += f" ({one['failures']} tries failed)"
        slices.add(one["name"], one["phase"], due or "-", notes=[one["text"]])
    if status["slices"]:
        print_tables(console, slices)
    for line in lines_of(status.get("budget")):
        say(console, f"Budget: {line}.")
    for book in status["playbooks"]:
        say(console, f"A playbook runs: {'; '.join(book['why'])}. Log: {book['log']}")
    for key, one in status["troubles"].items():
        say(console, f"Trouble for {long(now - one['since'])}, {key}: {one['text']}", "red")
    for name, box in status["messages"].items():
        if box["waiting"] or box["lost"]:
            text = f"Messages by {name}: {box['waiting']} waiting, {box['lost']} given up"
            say(console, text, "yellow")
