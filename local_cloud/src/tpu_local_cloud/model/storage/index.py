"""What is known of buckets, objects and uploads: rows in one SQLite database beside the contents.

A row of an object is written after its content is whole, and deleted before its content is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Document = dict[str, Any]
# live: what a name refers to. old: an earlier version. soft: deleted, and still to be restored.
State = Literal["live", "old", "soft"]
# Greater than every character of a name.
LAST = "\U0010ffff"

_TABLES = """
CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY, document TEXT);
CREATE TABLE IF NOT EXISTS objects (
  bucket TEXT, name TEXT, generation INTEGER, state TEXT, ends REAL, document TEXT,
  PRIMARY KEY (bucket, name, generation)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS states ON objects (bucket, state, name, generation);
CREATE INDEX IF NOT EXISTS ends ON objects (ends) WHERE ends IS NOT NULL;
CREATE TABLE IF NOT EXISTS uploads (id TEXT PRIMARY KEY, bucket TEXT, document TEXT);
CREATE TABLE IF NOT EXISTS last_generation (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER)
"""
_ROW = "SELECT name, generation, state, document FROM objects WHERE bucket = ? "


@dataclass(frozen=True)
class Row:
    """One generation of an object."""

    name: str
    generation: int
    state: State
    document: Document


class Index:
    """The database; its user sees to it that one thread uses it at a time."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(str(path), check_same_thread=False, isolation_level=None)
        path.chmod(0o600)
        # A crash of the computer may lose the last seconds, a crash of the server nothing.
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_TABLES)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all changes of a block, or none."""
        self._db.execute("BEGIN")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # After an error of the disk, SQLite may have ended the transaction itself.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    # Buckets ----------------------------------------------------------------------------------

    def bucket(self, name: str) -> Document | None:
        """Return a bucket's document, if there is one."""
        query = "SELECT document FROM buckets WHERE name = ?"
        found = self._db.execute(query, (name,)).fetchone()
        return json.loads(found[0]) if found else None

    def buckets(self) -> list[Document]:
        """Return all buckets by name."""
        query = "SELECT document FROM buckets ORDER BY name"
        return [json.loads(row) for (row,) in self._db.execute(query)]

    def put_bucket(self, document: Document) -> None:
        """Save a bucket."""
        row = (document["name"], json.dumps(document))
        self._db.execute("INSERT OR REPLACE INTO buckets VALUES (?, ?)", row)

    def drop_bucket(self, name: str) -> list[int]:
        """Delete a bucket with all rows; return the numbers of the contents that it had."""
        query = "SELECT generation FROM objects WHERE bucket = ?"
        numbers = [number for (number,) in self._db.execute(query, (name,))]
        for table, column in (("objects", "bucket"), ("uploads", "bucket"), ("buckets", "name")):
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))  # noqa: S608
        return numbers

    # Objects ----------------------------------------------------------------------------------

    def next_generation(self, least: int) -> int:
        """Return a generation higher than every earlier one, and at least `least`."""
        found = self._db.execute("SELECT number FROM last_generation").fetchone()
        number = max(least, (found[0] if found else 0) + 1)
        self._db.execute("INSERT OR REPLACE INTO last_generation VALUES (1, ?)", (number,))
        return number

    def live(self, bucket: str, name: str) -> Row | None:
        """Return what a name refers to."""
        query = _ROW + "AND state = 'live' AND name = ?"
        return next(self._rows(query, bucket, name), None)

    def generation(self, bucket: str, name: str, number: int) -> Row | None:
        """Return one generation, in whatever state."""
        return next(
            self._rows(_ROW + "AND name = ? AND generation = ?", bucket, name, number), None
        )

    def put(self, row: Row, ends: float | None = None) -> None:
        """Save a generation; ends: the moment at which it is deleted for good."""
        document = json.dumps(row.document)
        values = (row.document["bucket"], row.name, row.generation, row.state, ends, document)
        self._db.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)", values)

    def drop(self, bucket: str, name: str, number: int) -> None:
        """Delete a generation."""
        query = "DELETE FROM objects WHERE bucket = ? AND name = ? AND generation = ?"
        self._db.execute(query, (bucket, name, number))

    def holds(self, bucket: str) -> bool:
        """Return whether a bucket has objects or earlier versions."""
        query = "SELECT 1 FROM objects WHERE bucket = ? AND state IN ('live', 'old') LIMIT 1"
        return self._db.execute(query, (bucket,)).fetchone() is not None

    def ended(self, now: float) -> list[tuple[str, str, int]]:
        """Return bucket, name and number of all whose time is over."""
        query = "SELECT bucket, name, generation FROM objects WHERE ends <= ?"
        return self._db.execute(query, (now,)).fetchall()

    def after(
        self, bucket: str, states: tuple[State, ...], name: str, number: int = -1
    ) -> Iterator[Row]:
        """Yield the generations from a name on, in the order of names; read as far as used."""
        least = "(name > ? OR (name = ? AND generation > ?)) AND name >= ?"
        order = "ORDER BY name, generation"
        if states == ("live",) or states == ("soft",):
            query = f"{_ROW} AND state = ? AND {least} {order}"
            return self._rows(query, bucket, states[0], name, name, number, name)
        query = f"{_ROW} AND state != 'soft' AND {least} {order}"
        return self._rows(query, bucket, name, name, number, name)

    def numbers(self) -> set[int]:
        """Return the numbers of all contents."""
        return {number for (number,) in self._db.execute("SELECT generation FROM objects")}

    def _rows(self, query: str, *values: Any) -> Iterator[Row]:
        for name, generation, state, document in self._db.execute(query, values):
            yield Row(name, generation, state, json.loads(document))

    # Uploads ----------------------------------------------------------------------------------

    def upload(self, name: str) -> Document | None:
        """Return an upload in several requests, if it goes on."""
        query = "SELECT document FROM uploads WHERE id = ?"
        found = self._db.execute(query, (name,)).fetchone()
        return json.loads(found[0]) if found else None

    def uploads(self) -> list[tuple[str, Document]]:
        """Return all uploads by their ids."""
        found = self._db.execute("SELECT id, document FROM uploads ORDER BY id")
        return [(name, json.loads(document)) for name, document in found]

    def put_upload(self, name: str, document: Document) -> None:
        """Save an upload."""
        row = (name, document["bucket"], json.dumps(document))
        self._db.execute("INSERT OR REPLACE INTO uploads VALUES (?, ?, ?)", row)

    def drop_upload(self, name: str) -> None:
        """Delete an upload."""
        self._db.execute("DELETE FROM uploads WHERE id = ?", (name,))
