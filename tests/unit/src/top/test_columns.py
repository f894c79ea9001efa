"""Cells: how figures are written, and where they are cut."""

from __future__ import annotations

import pytest

from tpu_fleet.top.columns import counted, cut, duration, pace


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (7380, "2h03"),
        (266_400, "3d02"),
        (1e9, ">99d"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("speed", "text"),
    [(None, "-"), (12.345, "12.3/s"), (4321, "4321/s"), (0.5, "30/m"), (0.001, "3.6/h")],
)
def test_speeds(speed: float | None, text: str) -> None:
    assert pace(speed) == text


def test_other_figures() -> None:
    assert [counted(value) for value in (None, 7, -(1 << 53))] == ["-", "7", "-9.01e+15"]


@pytest.mark.parametrize(
    ("text", "width", "cell"),
    [
        ("short", 7, "short  "),
        ("a longer one", 6, "a lon…"),
        ("\u65e5\u672c\u8a9e", 4, "\u65e5 …"),
        ("\x1b[2Jx\ny", 5, "x y  "),
        ("any", 0, ""),
    ],
)
def test_cells(text: str, width: int, cell: str) -> None:
    assert cut(text, width) == cell


def test_numbers_stand_at_the_right() -> None:
    assert cut("12", 5, right=True) == "   12"
    assert cut("123456", 5, right=True) == "1234…"
