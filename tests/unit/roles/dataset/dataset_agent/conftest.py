"""Make the agent of data sets importable, and start what it asks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from data_origin import DataOrigin, serving

FILES = Path(__file__).resolve().parents[5] / "roles" / "dataset" / "files"
sys.path.insert(0, str(FILES))


@pytest.fixture
def origin() -> Iterator[DataOrigin]:
    """Return a server with a small data set."""
    found = DataOrigin()
    found.files = {
        "data/a.bin": b"a" * 3000,
        "data/b.bin": b"b" * 500,
        "README.md": b"what it is",
    }
    with serving(found):
        yield found
