"""The history of a fleet: one SQLite file, which several processes may write at the same time.

It has intervals, not polls: a look that sees what the look before has seen makes the interval
longer. What a worker reports is bounded for each slice, and within a slice the runs with the most
rows lose rows first, so that no run displaces another. What is dated in the future is refused.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

SCHEMA = 1
GAP = 900.0
"""Seconds without a look after which nothing is known: the longest pause of a watcher is 600."""
KEPT_DAYS = 90
FINE_DAYS = 2
"""Older points of curves are thinned to one for each COARSE seconds."""
COARSE = 600.0
MOST = {"span": 20_000, "event": 20_000, "point": 100_000}
"""Rows of one slice."""
_COLUMNS = {
    "span": ("id", "name", "seen"),
    "event": ("slice, run, at, worker, name, detail", "run", "at"),
    "point": ("slice, run, name, at", "run", "at"),
}
"""Of each table: the primary key, what a row is about, and its time."""
MOST_FACTS = 20_000
TIDY_EVERY = 3600.0
LOOKED = "looked:"
"""Facts of this name have the time of the last look at a kind of things."""
_WAIT = 10.0
_TABLES = """
CREATE TABLE span (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, slice TEXT NOT NULL, name TEXT NOT NULL,
  value TEXT NOT NULL, begun REAL NOT NULL, seen REAL NOT NULL
) STRICT;
CREATE INDEX span_by_time ON span (kind, seen);
CREATE TABLE event (
  slice TEXT NOT NULL, run TEXT NOT NULL, at REAL NOT NULL, worker INTEGER NOT NULL,
  name TEXT NOT NULL, detail TEXT NOT NULL, attempt INTEGER NOT NULL,
  PRIMARY KEY (slice, run, at, worker, name, detail)
) STRICT, WITHOUT ROWID;
CREATE TABLE point (
  slice TEXT NOT NULL, run TEXT NOT NULL, name TEXT NOT NULL, at REAL NOT NULL,
  step INTEGER NOT NULL, value REAL NOT NULL,
  PRIMARY KEY (slice, run, name, at)
) STRICT, WITHOUT ROWID;
CREATE TABLE fact (name TEXT PRIMARY KEY, at REAL NOT NULL, body TEXT NOT NULL) STRICT;
"""


class HistoryError(click.ClickException):
    """The history cannot be read or written; the message has file, reason and remedy."""


@dataclass(frozen=True, order=True)
class Event:
    """Something that happened at a moment."""

    at: float
    slice: str
    run: str
    worker: int
    """-1 for what the watcher reports."""
    name: str
    attempt: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Point:
    """A number that a run has reported: of the curve `step` the step itself."""

    slice: str
    run: str
    name: str
    at: float
    step: int
    value: float


def by_step(points: Iterable[Point], begins: Iterable[tuple[float, int]] = ()) -> list[Point]:
    """Return those of a curve's points, in the order of time, that count, in the order of steps.

    What is done again counts as it was done last. Where a later attempt began at an earlier step,
    what the one before had done from that step on is no part of the run any more: it may be of
    another version of the code. `begins` has when attempts began, and at which step, because not
    each step has a point.
    """
    found: list[Point] = []
    due = deque(sorted(begins))
    for one in points:
        while due and due[0][0] <= one.at:
            _cut(found, due.popleft()[1])
        _cut(found, one.step)
        found.append(one)
    for _at, step in due:
        _cut(found, step)
    return found


def _cut(points: list[Point], step: int) -> None:
    while points and points[-1].step >= step:
        points.pop()


@dataclass(frozen=True)
class Span:
    """An interval in which something was seen to be the same."""

    kind: str
    name: str
    value: Mapping[str, Any]
    begun: float
    seen: float


@dataclass
class Look:
    """What one look has seen. A kind that it did not ask for is missing in `spans`."""

    at: float
    spans: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)


def _write_ahead(db: sqlite3.Connection) -> None:
    """Let readers and a writer not wait for each other; a crash loses no finished look."""
    until = time.monotonic() + _WAIT
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            # Of two processes that begin a file at once SQLite refuses one at once, without a wait.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
    db.execute("PRAGMA synchronous=NORMAL")


class History:
    """The file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = self._opened()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise self._trouble(error) from error
            # No database: what is broken is kept beside, for a repair by hand.
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    file = Path(f"{path}{end}")
                    file.replace(f"{path}.broken{end}")
            self._db = self._opened()

    def _trouble(self, error: Exception) -> HistoryError:
        return HistoryError(f"The history {self.path} cannot be used: {error}.")

    def _opened(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._trouble(error) from error
        db = sqlite3.connect(
            str(self.path), timeout=_WAIT, check_same_thread=False, isolation_level=None
        )
        try:
            self.path.chmod(0o600)
            _write_ahead(db)
            self._migrate(db)
        except BaseException:
            db.close()
            raise
        return db

    def _migrate(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        try:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA:
                raise HistoryError(
                    f"The history {self.path} has schema {version}, and this tpu-fleet knows "
                    f"{SCHEMA}. Install the newer tpu-fleet that wrote it, or move the file away."
                )
            if version < SCHEMA:
                for statement in _TABLES.split(";\n"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {SCHEMA}")
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Write all of it, or nothing; another process that writes is waited for."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        except (sqlite3.Error, OverflowError) as error:
            raise self._trouble(error) from error

    # Writing -----------------------------------------------------------------------------------

    def add(self, look: Look) -> None:
        """Keep what a look has seen, and which kinds of things it has asked for.

        Events and points of more than GAP seconds after the look are left out: a run's user chooses
        their times.
        """
        latest = look.at + GAP
        facts = {**look.facts, **{f"{LOOKED}{kind}": None for kind in look.spans}}
        with self._writing() as db:
            for kind, seen in look.spans.items():
                _extend(db, kind, seen, look.at)
            db.executemany(
                "INSERT OR IGNORE INTO event VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        *_whole(e.slice, e.run),
                        e.at,
                        e.worker,
                        *_whole(e.name),
                        _text(e.detail),
                        e.attempt,
                    )
                    for e in look.events
                    if e.at <= latest
                ],
            )
            db.executemany(
                "INSERT OR IGNORE INTO point VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (*_whole(p.slice, p.run, p.name), p.at, p.step, p.value)
                    for p in look.points
                    if p.at <= latest
                ],
            )
            db.executemany(
                "INSERT INTO fact VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE "
                "SET at = ?2, body = ?3 WHERE at <= ?2",
                [(*_whole(name), look.at, _text(body)) for name, body in facts.items()],
            )
            told = db.execute("SELECT at FROM fact WHERE name = 'tidied'").fetchone()
            if told is None or abs(look.at - told[0]) > TIDY_EVERY:
                _tidy(db, look.at)

    # Reading -----------------------------------------------------------------------------------

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def spans(self, kind: str, since: float = 0.0) -> list[Span]:
        """Return the intervals of a kind that were seen since a time, in the order of time."""
        rows = self._rows(
            "SELECT name, value, begun, seen FROM span WHERE kind = ? AND seen >= ? ORDER BY id",
            kind,
            since,
        )
        return [
            Span(kind, name, json.loads(value), begun, seen) for name, value, begun, seen in rows
        ]

    def events(self, since: float = 0.0, also: str = "") -> list[Event]:
        """Return the events since a time, in the order of time; those of one name of all times."""
        return self._events("at >= ? OR name = ?", since, also)

    def events_of(self, slice_name: str, run: str) -> list[Event]:
        """Return all events of a run, in the order of time."""
        return self._events("slice = ? AND run = ?", slice_name, run)

    def _events(self, which: str, *values: Any) -> list[Event]:
        # The condition is a text of this class; what comes from outside is in the values.
        rows = self._rows(
            f"SELECT at, slice, run, worker, name, attempt, detail FROM event WHERE {which} "  # noqa: S608
            "ORDER BY at, slice, run, worker",
            *values,
        )
        return [
            Event(at, name, run, worker, event, attempt, json.loads(detail))
            for at, name, run, worker, event, attempt, detail in rows
        ]

    def curves(
        self, since: float, until: float, points: int, run: tuple[str, str] | None = None
    ) -> dict[tuple[str, str], dict[str, list[Point]]]:
        """Return the curves of each run (or of one slice's run), of at most so many points each.

        Which points they are does not change with each look: what is computed of them stands still.
        """
        width = 2.0 ** max(0, math.ceil(math.log2(max(1.0, until - since) / points)))
        rows = self._rows(
            "SELECT slice, run, name, max(at), step, value FROM point "
            "WHERE at >= ? AND (? OR (slice = ? AND run = ?)) "
            "GROUP BY slice, run, name, CAST(at / ? AS INTEGER) ORDER BY 1, 2, 3, 4",
            since,
            run is None,
            *(run or ("", "")),
            width,
        )
        found: dict[tuple[str, str], dict[str, list[Point]]] = {}
        for row in rows:
            point = Point(*row)
            found.setdefault((point.slice, point.run), {}).setdefault(point.name, []).append(point)
        return found

    def points_of(self, slice_name: str, run: str) -> dict[str, list[Point]]:
        """Return all points of a run, by the name of the curve, in the order of time."""
        rows = self._rows(
            "SELECT slice, run, name, at, step, value FROM point WHERE slice = ? AND run = ? "
            "ORDER BY name, at",
            slice_name,
            run,
        )
        found: dict[str, list[Point]] = {}
        for row in rows:
            point = Point(*row)
            found.setdefault(point.name, []).append(point)
        return found

    def facts(self, begin: str = "") -> dict[str, tuple[float, Any]]:
        """Return what was last said of things whose names have a prefix, with the time."""
        rows = self._rows(
            "SELECT name, at, body FROM fact WHERE substr(name, 1, ?) = ?", len(begin), begin
        )
        return {name[len(begin) :]: (at, json.loads(body)) for name, at, body in rows}

    def began(self) -> float | None:
        """Return the time of the first thing that is known."""
        found: float | None = self._rows(
            "SELECT min(at) FROM "
            "(SELECT min(begun) AS at FROM span UNION SELECT min(at) FROM event)"
        )[0][0]
        return found


def _whole(*texts: str) -> list[str]:
    """Return texts that can be written: half a character, as JSON can have it, cannot."""
    return [text.encode("utf-8", "replace").decode("utf-8") for text in texts]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _extend(
    db: sqlite3.Connection, kind: str, seen: Mapping[str, Mapping[str, Any]], now: float
) -> None:
    """Make intervals longer, end those of another value, and begin new ones."""
    rows = db.execute(
        "SELECT name, id, value, seen FROM span WHERE kind = ? AND seen >= ? ORDER BY id",
        (kind, now - GAP),
    )
    last = {name: (number, value, until) for name, number, value, until in rows}
    longer: list[tuple[float, int]] = []
    fresh: list[tuple[str, str, str, str, float, float]] = []
    for told, value in seen.items():
        (name,), text = _whole(told), _text(value)
        number, before, until = last.get(name, (0, "", 0.0))
        if number and now >= until:
            longer.append((now, number))
        if before != text and now >= until:
            fresh.append((kind, name.partition("/")[0], name, text, now, now))
    db.executemany("UPDATE span SET seen = ? WHERE id = ?", longer)
    db.executemany(
        "INSERT INTO span (kind, slice, name, value, begun, seen) VALUES (?, ?, ?, ?, ?, ?)", fresh
    )


def _tidy(db: sqlite3.Connection, now: float) -> None:
    """Remove what is old, and what is too much."""
    old, fine = now - KEPT_DAYS * 86400, now - FINE_DAYS * 86400
    db.execute("DELETE FROM span WHERE seen < ?", (old,))
    db.execute("DELETE FROM event WHERE at < ?", (old,))
    db.execute("DELETE FROM point WHERE at < ?", (old,))
    db.execute("DELETE FROM fact WHERE at < ?", (old,))
    db.execute(
        "DELETE FROM point WHERE at < ?1 AND (slice, run, name, at) NOT IN "
        "(SELECT slice, run, name, max(at) FROM point WHERE at < ?1 "
        "GROUP BY slice, run, name, CAST(at / ?2 AS INTEGER))",
        (fine, COARSE),
    )
    db.execute(
        "DELETE FROM fact WHERE at < (SELECT at FROM fact ORDER BY at DESC LIMIT 1 OFFSET ?)",
        (MOST_FACTS,),
    )
    for table, most in MOST.items():
        _cap(db, table, most, now + GAP)
    db.execute("INSERT OR REPLACE INTO fact VALUES ('tidied', ?, 'null')", (now,))


def _cap(db: sqlite3.Connection, table: str, most: int, latest: float) -> None:
    """Remove rows of slices that have too many: the oldest, of the runs that have the most rows.

    Rows dated after `latest`, which an earlier version accepted, go before the oldest.
    """
    # Linters see a text that is put together; all parts of it are constants of this module.
    key, run, at = _COLUMNS[table]
    full: Sequence[tuple[str]] = db.execute(
        f"SELECT slice FROM {table} GROUP BY slice HAVING count(*) > ?",  # noqa: S608
        (most,),
    ).fetchall()
    for (name,) in full:
        db.execute(
            f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM (SELECT *, row_number() "  # noqa: S608
            f"OVER (PARTITION BY {run} ORDER BY {at} > ?1, {at} DESC) AS place "
            f"FROM {table} WHERE slice = ?2) ORDER BY place, {at} DESC LIMIT -1 OFFSET ?3)",
            (latest, name, most),
        )
