"""Show how far a playbook is: one live line for each slice, or plain lines without a terminal."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..workers.report import Machine, Report
from .console import PlainConsole
from .figures import amount

MOST = 20
"""Live lines; more slices are counted in the last one."""
QUIET = 30.0
"""Seconds after which a line without a terminal says that it still runs."""


def line_of(report: Report, name: str, roles: bool = True) -> str:
    """Return how far a slice is; without `roles` only what changes seldom."""
    machines = [one for one in report.machines.values() if one.slice == name]
    if machines:
        return _machines(machines, roles)
    phase, text = report.slices.get(name, ("", ""))
    return f"{phase}: {text}" if text else phase


def _machines(machines: list[Machine], roles: bool) -> str:
    done = [one for one in machines if one.done]
    failed = [one.host for one in machines if one.status not in ("", "ok")]
    count = amount(len(machines), "machine")
    if failed:
        return f"failed: {len(failed)} of {count}"
    if all(one.status for one in machines):
        changed = sum(one.changed for one in machines)
        told = amount(changed, "change") if changed else "as declared"
        return f"{count} set up: {told}"
    at = next((one for one in machines if not one.done and one.at), None)
    what = f", {at.at} ({at.host})" if at and roles else ""
    return f"setting up {count}: {len(done)} done{what}"


class Progress:
    """Shows a report while a playbook changes it."""

    def __init__(
        self, report: Report, what: str, verbose: bool = False, quiet: bool = False
    ) -> None:
        """A verbose one shows what Ansible prints instead; a quiet one only live lines."""
        self._quiet = quiet
        self._report = report
        self._what = what
        self._verbose = verbose
        self._said: dict[str, str] = {}
        self._begun = self._spoke = time.monotonic()
        self._lock = threading.Lock()
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._over = threading.Event()
        self._begins = False

    def __enter__(self) -> Progress:
        return self

    def begin(self) -> None:
        """Begin to show it: not before Ansible was forked, which must not copy a thread."""
        if self._begins:
            return
        self._begins = True
        if self._console.is_terminal and not self._verbose:
            console = PlainConsole(stderr=True)
            self._live = Live(
                get_renderable=self._drawn, console=console, refresh_per_second=4, transient=True
            )
            self._live.start()
        elif not self._verbose:
            threading.Thread(target=self._remind, daemon=True).start()

    def __exit__(self, *_error: Any) -> None:
        self._over.set()
        if self._live:
            self._live.stop()

    def changed(self, name: str) -> None:
        """Show that a slice is further."""
        if self._live or self._verbose or self._quiet:
            return
        with self._lock:
            line = line_of(self._report, name, roles=False)
            if line and self._said.get(name) != line:
                self._said[name] = line
                self._say(f"{name}: {line}")

    def printed(self, text: str) -> None:
        """Show what Ansible printed, where everything is shown."""
        if self._verbose and text:
            click.echo(text)

    def _say(self, line: str) -> None:
        self._spoke = time.monotonic()
        click.echo(line, err=True)
        sys.stderr.flush()

    def _remind(self) -> None:
        while not self._over.wait(1.0):
            if time.monotonic() - self._spoke >= QUIET:
                with self._lock:
                    seconds = time.monotonic() - self._begun
                    doing = [line_of(self._report, name) for name in self._names()[:1]]
                    told = f": {doing[0]}" if doing else ""
                    self._say(f"{self._what}: {seconds:.0f} s so far{told}")

    def _names(self) -> list[str]:
        machines = [one.slice for one in self._report.machines.values()]
        return list(dict.fromkeys([*self._report.slices, *machines]))

    def _drawn(self) -> Text:
        names = self._names()
        width = max(map(len, names), default=0)
        # A thread changes it meanwhile, and a line that is late is drawn a moment later.
        lines = [f"{name:<{width}}  {line_of(self._report, name)}" for name in names[:MOST]]
        if len(names) > MOST:
            lines.append(f"and {amount(len(names) - MOST, 'slice')} more")
        seconds = time.monotonic() - self._begun
        lines.append(f"{self._what}, {seconds:.0f} s")
        columns = max(20, self._console.width - 1)
        return Text("\n".join(shown(line, columns) for line in lines), no_wrap=True)
