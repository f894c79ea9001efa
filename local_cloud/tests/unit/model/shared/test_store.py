"""The store of the local cloud, when the disk has no room."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tpu_local_cloud.model.shared.store import Store, is_full


def test_a_full_database_is_a_full_disk(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    store.save("node", "a", {"name": "a"})
    # As SQLite reports a disk without room.
    store._rows._db.execute("PRAGMA max_page_count = 1")  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="full") as raised:
        store.save("node", "b", {"metadata": "x" * 1_000_000})
    assert is_full(raised.value)
    assert store.load("node") == [{"name": "a"}]
    store._rows._db.execute("PRAGMA max_page_count = 100000")  # type: ignore[attr-defined]
    store.save("node", "b", {"name": "b"})
    assert store.load("node") == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (ValueError("full"), False),
    ],
)
def test_other_errors(error: Exception, expected: bool) -> None:
    assert is_full(error) is expected
