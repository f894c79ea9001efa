"""What the screen shows and where the cursor is: text of a size, and what keys change. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown, shown_text
from rich.cells import cell_len

from ..queue.glance import Glance
from ..queue.view import left_out, table_of
from ..show.figures import loss_text, percent_text, rate_text, share_text, speed_text
from ..show.fleet import costs_table, grant_table, requests_table
from ..show.times import long
from ..workers.ask.run_view import RunView
from ..workers.inventory.fleet_facts import FleetView
from ..workers.inventory.hosts import fold
from . import columns
from .closer import Key, spark
from .lines import (
    SORTS,
    TROUBLE,
    VIEWS,
    WAITS,
    WORKS,
    Line,
    Now,
    Piece,
    head_of,
    matching,
    users_of,
)

STYLES = {TROUBLE: "bad", WAITS: "wait", WORKS: "good"}
CURSOR = " cursor"
"""The end of the style of the selected row, which keeps its colour."""
LEAST_ROWS = 6
"""Rows that the selected run leaves to the others."""
SELECTED = (4, 42)
"""Least and most lines about the selected run; without room for the least there are none."""
LONGEST = 120
"""Characters of a text in the tables of the API's answer."""
FEET = 2
"""Lines below them: why the selected row is as it is, and the keys."""
HINT = "? help  / filter  s sort  u user  1-5 view  l log  a attach  q quit"
HELP = """
tpu-fleet top shows the fleet in this folder. What is in trouble stands first.

  1 2 3, Tab     runs, slices, workers
  4 5            grant, requests and costs; submitted runs that wait, and why
  j k, arrows    one row down, up; also Page Up and Down; g, G: first, last
  /              filter: rows that have all these words
  s, u           sort by another column; only my runs, then others', or all
  Escape         drop filter, order and u; leave this page
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
SAVED            time since the newest checkpoint was written
TRY, FOR         the attempt; time in this state
DISK             the fullest disk of the workers
"""


@dataclass
class Board:
    """The state of the screen."""

    view: str = "runs"
    filter: str = ""
    order: str = next(iter(SORTS))
    person: str = ""
    """The person to whom the shown rows are limited; empty for all."""
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
    _head: list[list[Piece]] = field(default_factory=list)
    _selected: tuple[str, str, str] | None = None
    _page: tuple[object, int] | None = None

    @property
    def room(self) -> int:
        """How many rows there is room for."""
        return max(1, self.size[1] - len(self._head) - 1 - FEET - self._below)

    @property
    def _below(self) -> int:
        """How many lines are about the selected run."""
        if not any(line.run for line in self.lines):
            return 0
        free = self.size[1] - len(self._head) - 1 - FEET
        rows = max(LEAST_ROWS, min(len(self.lines), free // 2))
        least, most = SELECTED
        return min(most, free - rows) if free - rows >= least else 0

    @property
    def closer(self) -> Key | None:
        """The run that is looked at closer, and the worker whose log is read."""
        line = self.selected
        return (line.slice, line.run, line.worker) if line and line.run and self._below else None

    @property
    def selected(self) -> Line | None:
        """The selected row."""
        return self.lines[self.at] if self.text is None and self.lines else None

    def update(self, now: Now) -> None:
        """Take what is known now; the cursor stays on what it was on."""
        self.now = now
        self._head = head_of(now)
        if self.view in PAGES:
            about, draw = PAGES[self.view]
            # Drawn only when it is another: with a thousand nodes that takes half a second.
            if self._page != (about(now), self.size[0]):
                self._page = (about(now), self.size[0])
                self.text = draw(now, self.size[0])
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
        """Close a page, or else drop filter and order."""
        if self.text is not None and self.view not in PAGES:
            self.text = None
            self.go(0)
        elif self.view in PAGES:
            self.show("runs")
        else:
            self.order, self.person = next(iter(SORTS)), ""
            self.narrow("")

    def sort(self) -> None:
        """Take the next order."""
        orders = list(SORTS)
        self.order = orders[(orders.index(self.order) + 1) % len(orders)]
        self._sift()

    def next_person(self) -> None:
        """Show only what is of the next person (the one at this computer first), or all."""
        users = {user for line in self._everything for user in users_of(line)}
        me = self.now.me if self.now else ""
        people = ["", *sorted(users, key=lambda user: (user != me, user))]
        at = people.index(self.person) if self.person in people else -1
        self.person = people[(at + 1) % len(people)]
        self._sift()

    def narrow(self, words: str) -> None:
        """Show only rows with these words."""
        self.filter = words
        self._sift()

    def _sift(self) -> None:
        lines = matching(self._everything, self.filter)
        if self.person:
            lines = [line for line in lines if self.person in users_of(line)]
        self.lines = sorted(lines, key=SORTS[self.order])
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
        if self.view in PAGES and self.now is not None:
            self.update(self.now)
        if self.text is None:
            self._bound()
        else:
            self.go(0)

    def near(self) -> set[str]:
        """Return the workers whose rows are on the screen."""
        if self.text is not None and self.view in PAGES:
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
            body += [[(" " * width, "")]] * (height - FEET - self._below - len(body))
            body += self._selected_run(width)
            # What a narrow screen cuts off can be read here.
            body += [[(" " * width, "")]] * (height - FEET - len(body))
            body[height - FEET :] = [[(columns.cut(self._why(), width), "")]]
        body += [[(" " * width, "")]] * (height - 1 - len(body))
        return [*body[: height - 1], [(columns.cut(self._foot(), width), "foot")]]

    def _rows(self, width: int) -> list[list[Piece]]:
        chosen = columns.chosen(self.view, self.lines, width)
        drawn = [cut_pieces(line, width) for line in self._head]
        drawn.append([(columns.cut(columns.titles(chosen), width), "title")])
        for number, line in enumerate(self.lines[self.top : self.top + self.room], self.top):
            style = STYLES.get(line.rank, "") + (CURSOR if number == self.at else "")
            drawn.append([(columns.cut_row(columns.row(line, chosen), width), style)])
        return drawn

    def _selected_run(self, width: int) -> list[list[Piece]]:
        """Return the lines about the selected run: its curves and the last lines of its log."""
        line, room = self.selected, self._below
        if line is None or not room or self.now is None:
            return []
        about = f"{shown(line.run, 40)} on {shown(line.slice, 40)}" if line.run else line.slice
        title = columns.cut(f"── {about} ", min(width, cell_len(about) + 4))
        lines: list[list[Piece]] = [[(title + "─" * (width - cell_len(title)), "title")]]
        if line.run:
            lines += self._closer_look(line, room - 1, width)
        return lines + [[(" " * width, "")]] * (room - len(lines))

    def _closer_look(self, line: Line, room: int, width: int) -> list[list[Piece]]:
        found = self.now.closer if self.now else None
        known = found if found is not None and found.key == self.closer else None
        half = max(10, (width - 4) // 2)
        curves: list[Piece] = []
        for name, now, values in (
            ("loss", loss_text(line.view.loss), known.loss if known else ()),
            ("speed", speed_text(line.view.speed), known.speed if known else ()),
        ):
            head = f"{name} {shown(now, 12)} "
            bad = name == "loss" and isinstance(line.view.loss, str)
            drawn = spark(values, half - cell_len(head) - 1)
            curves.append((columns.cut_row(head + drawn, half), "bad" if bad else ""))
        lines = [cut_pieces([curves[0], ("  ", ""), curves[1]], width)]
        view = next((one for one in line.runs if one.run == line.run), None)
        log = known.log if known and known.log else view.tail if view else ()
        if not log:
            says = known.says if known else "looking at its log"
            log = (f"({says or 'its log is empty'})",)
        return lines + [[(columns.cut(row, width), "")] for row in log[-(room - 1) :]]

    def _why(self) -> str:
        line = self.selected
        return f"{line.name}: {line.why}" if line and line.why else ""

    def _foot(self) -> str:
        if self.typing:
            return f"/{self.filter}_"
        if self.text is not None:
            return "Escape back  q quit  j k scroll"
        place = f"{self.at + 1 if self.lines else 0}/{len(self.lines)} {self.view}"
        told = [
            f"filter: {self.filter}" if self.filter else "",
            f"by {self.order}" if self.order != next(iter(SORTS)) else "",
            f"only {self.person}" if self.person else "",
        ]
        return "  ".join([place, *filter(None, told), HINT])


def cut_pieces(pieces: Sequence[Piece], width: int) -> list[Piece]:
    """Return pieces as exactly so many cells."""
    found: list[Piece] = []
    for text, style in pieces:
        room = width - sum(cell_len(one) for one, _style in found)
        if room > 0:
            plain = shown(text, max(2, 2 * width)) if text.strip() else text
            found.append(
                (plain if cell_len(plain) <= room else columns.cut_row(plain, room), style)
            )
    rest = width - sum(cell_len(one) for one, _style in found)
    return [*found, (" " * rest, "")] if rest > 0 else found


def _wide(line: str, width: int) -> str:
    """Return a line of a page, with its indent."""
    return columns.cut_row(shown_text(line, 1, 4 * width), width)


def grant_page(view: FleetView, width: int) -> list[str]:
    """Return grant, requests and costs as text."""
    if not view.grant:
        return [view.problem or "The API has not answered yet."]
    view = FleetView(**{name: _short(value) for name, value in vars(view).items()})
    tables = [grant_table(view)]
    tables += [requests_table(view)] if view.queued else []
    tables += [costs_table(view)] if view.nodes else []
    lines = [
        line for table in tables for line in [*(line.plain for line in table.lines(width)), ""]
    ]
    return [*lines, *(f"Warning: {line}" for line in view.warnings)]


def queue_page(found: Glance, width: int) -> list[str]:
    """Return the submitted runs as text: what runs, what waits in which order and why."""
    if found.view is None:
        return [found.problem or "The fleet file has no fleet_queue: no run can be submitted."]
    if not found.view.runs:
        return [f"Nothing is submitted to {found.view.address}."]
    more = left_out(found.view)
    return [*(line.plain for line in table_of(found.view).lines(width)), *filter(None, [more])]


PAGES: dict[str, tuple[Callable[[Now], object], Callable[[Now, int], list[str]]]] = {
    "grant": (lambda now: now.view, lambda now, width: grant_page(now.view, width)),
    "queue": (lambda now: now.queue, lambda now, width: queue_page(now.queue, width)),
}
"""The views that are pages of text: what they show, and how."""


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
    use = (
        ("duty cycle", percent_text(view.duty_cycle)), ("HBM", share_text(view.memory_share)),
        ("tokens/s", rate_text(view.tokens_per_second)), ("MFU", share_text(view.mfu)),
    )  # fmt: skip
    known = [f"{name} {text}" for name, text in use if text != "-"]
    told += [f"  {', '.join(known)}"] if known else []
    if view.saved_age is not None:
        told.append(f"  last checkpoint {long(view.saved_age)} ago")
    told += [f"  {text}" for text in (view.why,) if text]
    told += [f"  | {line}" for line in view.tail]
    return [*told, f"  log {shown(view.log, 4096)}"]
