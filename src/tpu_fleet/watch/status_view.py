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
from .service import ENDS, Service

JUST_STARTED = "A watcher has just started; it has not polled yet."


def ago(at: float | None, now: float) -> str:
    """Format how long ago something was."""
    return f"{long(now - at)} ago" if at else "never"


def headline(
    status: Mapping[str, Any],
    runs: bool,
    now: float,
    service: Service | None = None,
    is_new: bool = False,
) -> str:
    """Return one line that says whether a watcher runs; `is_new`: the status is of an earlier."""
    if is_new or (not runs and service is not None and service.pid):
        before = " What follows is of the one before." if has_more(status) else ""
        return f"{JUST_STARTED}{before}"
    if not runs:
        wrote = ago(status["now"], now)
        start = without_one(service) if service else "Start it: tpu-fleet watch install"
        return f"No watcher runs here. The last one wrote this status {wrote}. {start}"
    if status["works"]:
        return (
            f"Watching as process {status['pid']} for {long(now - status['began'])}; "
            f"last poll {ago(status['looked_at'], now)}."
        )
    if status["stands_by_for"]:
        return f"Standing by: {status['stands_by_for']} watches."
    return "Running; no poll has succeeded yet."


def has_more(status: Mapping[str, Any]) -> bool:
    """Return whether a status has anything beyond its first line."""
    return any(status.get(name) for name in ("slices", "budget", "playbooks", "troubles"))


def without_one(service: Service) -> str:
    """Return the state of an installed service where no watcher runs, and the next command."""
    log = f"Its log: journalctl --user -u {service.name}"
    if service.state in ("active", "activating", "deactivating", "reloading"):
        return f"systemd starts it again within a minute. {log}"
    if not service.state:
        return f"Its service is installed, and systemd does not answer. {log}"
    return (
        f"Its service is {service.state}. Start it: systemctl --user restart {service.name}. {log}"
    )


def service_line(service: Service | None, pid: int, lingers: bool | None) -> str:
    """Return the line about the service of a running watcher; empty without a service."""
    if service is None or not service.pid:
        return ""
    if service.pid != pid:
        return f"It is not {service.name}, which is {service.state}."
    ends = f" {ENDS}" if lingers is False else ""
    return f"It is {service.name}, which starts at every boot.{ends}"


def show(
    console: Console,
    status: Mapping[str, Any],
    runs: bool,
    service: Service | None = None,
    *,
    is_new: bool = False,
    lingers: bool | None = None,
) -> None:
    """Print the status for a person."""
    now = time.time()
    say(console, headline(status, runs, now, service, is_new))
    if runs and not is_new and (line := service_line(service, status["pid"], lingers)):
        say(console, line)
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
