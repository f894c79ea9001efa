"""What survives a restart of the server: one row for each resource, in SQLite."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Store:
    """Keep JSON documents by kind and key; a path of None keeps them in memory."""

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(
            str(path) if path else ":memory:", check_same_thread=False, isolation_level=None
        )
        if path:
            path.chmod(0o600)  # metadata may hold what its owner thinks secret
        self._db.execute("PRAGMA journal_mode=WAL")
        # A crash of the computer may lose the last seconds; a crash of the server loses nothing.
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS documents "
            "(kind TEXT, key TEXT, body TEXT, PRIMARY KEY (kind, key))"
        )

    def load(self, kind: str) -> list[dict[str, Any]]:
        """Return all documents of a kind, in the order of their keys."""
        with self._lock:
            rows = self._db.execute(
                "SELECT body FROM documents WHERE kind = ? ORDER BY key", (kind,)
            ).fetchall()
        return [json.loads(body) for (body,) in rows]

    def save(self, kind: str, key: str, document: dict[str, Any]) -> None:
        """Write one document."""
        self.save_all(kind, [(key, document)])

    def save_all(self, kind: str, documents: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Write many documents in one transaction."""
        rows = [(kind, key, json.dumps(document)) for key, document in documents]
        with self._lock:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", rows)
            self._db.execute("COMMIT")

    def delete(self, kind: str, key: str) -> None:
        """Forget one document."""
        with self._lock:
            self._db.execute("DELETE FROM documents WHERE kind = ? AND key = ?", (kind, key))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._db.execute("DELETE FROM documents")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()
