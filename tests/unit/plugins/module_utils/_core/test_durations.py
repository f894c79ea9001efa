"""Durations for people."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.durations import long


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3660, "1 h 1 min"),
        (86400, "1 d"),
        (86400 * 2 + 7200, "2 d 2 h"),
    ],
)
def test_long(seconds: float, text: str) -> None:
    assert long(seconds) == text
