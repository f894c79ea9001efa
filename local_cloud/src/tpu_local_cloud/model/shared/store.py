"""Storage that survives a restart of the server: one row for each resource, in SQLite."""

from __future__ import annotations

import errno
import json
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

Row = tuple[str, str, str]


class Store:
    """Store JSON documents by kind and key; without a path, in memory."""

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._rows: _Rows = _File(path) if path else _Memory()

    def load(self, kind: str) -> list[dict[str, Any]]:
        """Return all documents of a kind, in the order of their keys."""
        with self._lock:
            bodies = self._rows.select(kind)
        return [json.loads(body) for body in bodies]

    def save(self, kind: str, key: str, document: dict[str, Any]) -> None:
        """Write one document."""
        self.save_all(kind, [(key, document)])

    def save_all(self, kind: str, documents: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Write many documents in one transaction."""
        rows = [(kind, key, json.dumps(document)) for key, document in documents]
        with self._lock:
            self._rows.replace(rows)

    def delete(self, kind: str, key: str) -> None:
        """Delete one document."""
        with self._lock:
            self._rows.delete(kind, key)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._rows.clear()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._rows.close()


def is_full(error: Exception) -> bool:
    """Return whether something could not be saved because the disk is full."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Rows(Protocol):
    def select(self, kind: str) -> list[str]: ...
    def replace(self, rows: list[Row]) -> None: ...
    def delete(self, kind: str, key: str) -> None: ...
    def clear(self) -> None: ...
    def close(self) -> None: ...


class _Memory:
    """For tests that create thousands of clouds: a database takes ten times as long."""

    def __init__(self) -> None:
        self._bodies: dict[str, dict[str, str]] = {}

    def select(self, kind: str) -> list[str]:
        return [body for _, body in sorted(self._bodies.get(kind, {}).items())]

    def replace(self, rows: list[Row]) -> None:
        for kind, key, body in rows:
            self._bodies.setdefault(kind, {})[key] = body

    def delete(self, kind: str, key: str) -> None:
        self._bodies.get(kind, {}).pop(key, None)

    def clear(self) -> None:
        self._bodies.clear()

    def close(self) -> None:
        pass


class _File:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(str(path), check_same_thread=False, isolation_level=None)
        path.chmod(0o600)  # metadata may be secret
        self._db.execute("PRAGMA journal_mode=WAL")
        # A crash of the computer may lose the last seconds, a crash of the server nothing.
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS documents "
            "(kind TEXT, key TEXT, body TEXT, PRIMARY KEY (kind, key))"
        )

    def select(self, kind: str) -> list[str]:
        query = "SELECT body FROM documents WHERE kind = ? ORDER BY key"
        return [body for (body,) in self._db.execute(query, (kind,)).fetchall()]

    def replace(self, rows: list[Row]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", rows)
        self._db.execute("COMMIT")

    def delete(self, kind: str, key: str) -> None:
        self._db.execute("DELETE FROM documents WHERE kind = ? AND key = ?", (kind, key))

    def clear(self) -> None:
        self._db.execute("DELETE FROM documents")

    def close(self) -> None:
        self._db.close()
