"""What the screen shows and where the cursor is: text of a size, and what keys change. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import shown, shown_text

from ..show.figures import loss_text, speed_text
from ..show.fleet import costs_table, grant_table, queue_table
from ..show.times import long
from ..workers.ask.run_view import RunView
from ..workers.inventory.fleet_facts import FleetView
from ..workers.inventory.hosts import fold
from . import columns
from .lines import TROUBLE, VIEWS, WAITS, WORKS, Line, Now, head_of, matching

Piece = tuple[str, str]
"""A text, and its style."""
STYLES = {TROUBLE: "bad", WAITS: "wait", WORKS: "good"}
HEAD = 4
"""Lines above the rows: three of the fleet, one with titles."""
LONGEST = 120
"""Characters of a text in the tables of the API's answer."""
FEET = 2
"""Lines below them: why the selected row is as it is, and the keys."""
HINT = "? help  / filter  1-4 view  l log  a attach  d doctor  q quit"
HELP = """
tpu-fleet top shows the fleet in this folder. What is in trouble stands first.

  1 2 3 4, Tab   slices, workers, runs; grant, queue and costs
  j k, arrows    one row down, up; also Page Up and Down; g, G: first, last
  /              filter: rows that have all these words
  Escape         drop the filter; leave this page
  Enter          everything that is known of the selected row
  l              the run's log, as tpu-fleet logs -f; Ctrl-C comes back here
  a              attach to the run's terminal; Ctrl-B D comes back here
  d              tpu-fleet doctor for its worker
  r              ask the API now
  q, Ctrl-C      quit

STATE            the worst of the workers; their number if not all are in it
idle             no run is running, waiting or failed there
STEP and SPEED   of the slowest worker; the speed since the attempt's start
LOSS             as the program wrote it beside its step, or in its log
SAVED            time since the newest checkpoint was written (not in a bucket)
TRY, FOR         the attempt; time in this state
DISK             the fullest disk of the workers
"""


@dataclass
class Board:
    """The state of the screen."""

    view: str = "slices"
    filter: str = ""
    typing: bool = False
    """Whether keys go to the filter."""
    text: list[str] | None = None
    """A page of text instead of rows."""
    now: Now | None = None
    lines: list[Line] = field(default_factory=list)
    at: int = 0
    """The selected row."""
    top: int = 0
    """The first row on the screen."""
    size: tuple[int, int] = (80, 24)
    _everything: list[Line] = field(default_factory=list)
    _head: list[str] = field(default_factory=list)
    _selected: tuple[str, str, str] | None = None
    _page: tuple[FleetView, int] | None = None

    @property
    def room(self) -> int:
        """How many rows there is room for."""
        return max(1, self.size[1] - HEAD - FEET)

    @property
    def selected(self) -> Line | None:
        """The selected row."""
        return self.lines[self.at] if self.text is None and self.lines else None

    def update(self, now: Now) -> None:
        """Take what is known now; the cursor stays on what it was on."""
        self.now = now
        self._head = head_of(now)
        if self.view == "grant":
            # Drawn only when it is another: with a thousand nodes that takes half a second.
            if self._page != (now.view, self.size[0]):
                self._page = (now.view, self.size[0])
                self.text = grant_page(*self._page)
        else:
            self._everything = VIEWS[self.view](now)
            self._sift()

    def show(self, view: str) -> None:
        """Change the view."""
        self.view, self.text, self.at, self.top = view, None, 0, 0
        self._selected = self._page = None
        if self.now is not None:
            self.update(self.now)

    def open(self, text: Sequence[str]) -> None:
        """Show a page of text."""
        self.text, self.top = list(text), 0

    def leave(self) -> None:
        """Close a page, or else drop the filter."""
        if self.text is not None and self.view != "grant":
            self.text = None
            self.go(0)
        elif self.view == "grant":
            self.show("slices")
        else:
            self.narrow("")

    def narrow(self, words: str) -> None:
        """Show only rows with these words."""
        self.filter = words
        self._sift()

    def _sift(self) -> None:
        self.lines = matching(self._everything, self.filter)
        keys = [line.key for line in self.lines]
        if self._selected in keys:
            self.at = keys.index(self._selected)
        self._bound()

    def go(self, rows: int) -> None:
        """Move the cursor, or the page of text."""
        if self.text is not None:
            last = max(0, len(self.text) - (self.size[1] - 1))
            self.top = min(max(0, self.top + rows), last)
            return
        self.at += rows
        self._bound()
        self._selected = self.lines[self.at].key if self.lines else None

    def _bound(self) -> None:
        self.at = min(max(0, self.at), max(0, len(self.lines) - 1))
        if self.text is None:
            self.top = min(max(self.top, self.at - self.room + 1), self.at)
            self.top = max(0, min(self.top, len(self.lines) - self.room))

    def resize(self, width: int, height: int) -> None:
        """Take another size."""
        self.size = (width, height)
        if self.view == "grant" and self.now is not None:
            self.update(self.now)
        if self.text is None:
            self._bound()
        else:
            self.go(0)

    def near(self) -> set[str]:
        """Return the workers whose rows are on the screen."""
        if self.text is not None and self.view == "grant":
            return set()
        seen = self.lines[self.top : self.top + self.room]
        return {host for line in seen for host in line.hosts}

    def draw(self) -> list[list[Piece]]:
        """Return the lines of the screen."""
        width, height = self.size
        if self.text is not None:
            body = [[(_wide(line, width), "")] for line in self.text[self.top :][: height - 1]]
        else:
            body = self._rows(width)
            # What a narrow screen cuts off can be read here.
            body += [[(" " * width, "")]] * (height - FEET - len(body))
            body[height - FEET :] = [[(columns.cut(self._why(), width), "")]]
        body += [[(" " * width, "")]] * (height - 1 - len(body))
        return [*body[: height - 1], [(columns.cut(self._foot(), width), "foot")]]

    def _rows(self, width: int) -> list[list[Piece]]:
        chosen = columns.chosen(self.view, self.lines, width)
        head = [*self._head, "", "", ""][: HEAD - 1]
        drawn = [[(columns.cut(line, width), "")] for line in head]
        drawn.append([(columns.cut(columns.titles(chosen), width), "title")])
        for number, line in enumerate(self.lines[self.top : self.top + self.room], self.top):
            style = "cursor" if number == self.at else STYLES.get(line.rank, "")
            drawn.append([(columns.cut_row(columns.row(line, chosen), width), style)])
        return drawn

    def _why(self) -> str:
        line = self.selected
        return f"{line.name}: {line.why}" if line and line.why else ""

    def _foot(self) -> str:
        if self.typing:
            return f"/{self.filter}_"
        if self.text is not None:
            return "Escape back  q quit  j k scroll"
        place = f"{self.at + 1 if self.lines else 0}/{len(self.lines)} {self.view}"
        sifted = f"  filter: {self.filter}" if self.filter else ""
        return f"{place}{sifted}  {HINT}"


def _wide(line: str, width: int) -> str:
    """Return a line of a page, with its indent."""
    return columns.cut_row(shown_text(line, 1, 4 * width), width)


def grant_page(view: FleetView, width: int) -> list[str]:
    """Return grant, queue and costs as text."""
    if not view.grant:
        return [view.problem or "The API has not answered yet."]
    view = FleetView(**{name: _short(value) for name, value in vars(view).items()})
    tables = [grant_table(view)]
    tables += [queue_table(view)] if view.queued else []
    tables += [costs_table(view)] if view.nodes else []
    lines = [
        line for table in tables for line in [*(line.plain for line in table.lines(width)), ""]
    ]
    return [*lines, *(f"Warning: {line}" for line in view.warnings)]


def _short(value: Any) -> Any:
    """Return what the API says with every text safe and short: tables take long ones badly."""
    if isinstance(value, str):
        return shown(value, LONGEST)
    if isinstance(value, Mapping):
        return {key: _short(one) for key, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, list | tuple) else value


def details(line: Line, now: Now) -> list[str]:
    """Return everything that is known of a row."""
    rows = {row.host: row for row in now.rows}
    first = rows.get(line.host)
    workers = fold(line.hosts) or "none yet"
    found = [
        f"{line.name}: {line.state}{': ' + line.why if line.why else ''}",
        f"slice {line.slice}, {line.type or 'type unknown'}, {line.zone}, {line.tier}",
        f"workers: {workers}",
        "",
    ]
    if first is not None:
        found += [f"{first.host}: {first.external_ip}, {first.internal_ip}", ""]
    for run in line.runs:
        found += [*_told(run), ""]
    for host in line.hosts:
        heard = now.heard.get(host)
        if heard is None:
            found.append(f"{host} has not answered yet")
        elif heard.says:
            found.append(f"{host} does not answer: {heard.says}")
        elif heard.disk:
            since = long(max(0.0, now.at - heard.at))
            found.append(f"{host}: {heard.disk.point} is {heard.disk.percent} % full, {since} ago")
    return found


def _told(view: RunView) -> list[str]:
    """Return what is known of a run."""
    age = "" if view.age is None else f" for {long(view.age)}"
    told = [f"run {view.run} of {view.user} on {view.slice}: {view.word}{age}"]
    told.append(f"  attempt {view.attempt}, step {columns.counted(view.step)}")
    told[-1] += f", {speed_text(view.speed)}, loss {loss_text(view.loss)}"
    if view.saved_age is not None:
        told.append(f"  last checkpoint {long(view.saved_age)} ago")
    told += [f"  {text}" for text in (view.why,) if text]
    told += [f"  | {line}" for line in view.tail]
    return [*told, f"  log {shown(view.log, 4096)}"]
