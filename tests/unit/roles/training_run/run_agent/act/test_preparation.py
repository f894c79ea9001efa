"""Free space before a start."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_agent.act import (
    preparation,
)


@pytest.mark.parametrize(
    ("free", "wanted", "text"),
    [(None, 5, ""), (5, 5, ""), (4, 5, "/log has 4 B free, a start needs 5 B (min_free)")],
)
def test_room_on_a_disk(free: int | None, wanted: int, text: str) -> None:
    assert preparation.low(Path("/log"), free, wanted) == text
    assert preparation.size(3 * 2**30) == "3.0 GiB"
