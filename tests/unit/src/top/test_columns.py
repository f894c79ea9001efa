"""Cells: how figures are written, and where they are cut."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import LARGEST

from tpu_fleet.show.figures import loss_text
from tpu_fleet.top.columns import COLUMNS, counted, cut, duration
from tpu_fleet.top.lines import Line
from tpu_fleet.workers.ask.run_view import RunView


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


EXTREMES = (0.0, 1e-300, -1.2345678e-5, 1.609e-5, 0.123456, 999.94, 12345.6, 9.9e29, -9.9e29)


@pytest.mark.parametrize("value", EXTREMES)
def test_no_column_of_numbers_cuts_one(value: float) -> None:
    """What is cut from a number is its size."""
    whole = int(max(-LARGEST, min(LARGEST, value * 1e9)))
    view = RunView(
        *("digits", "pair"),
        attempt=abs(whole),
        step=whole,
        speed=max(abs(value), 1e-12),
        loss=value,
        saved_age=abs(value),
        age=abs(value),
        duty_cycle=100.0,
        memory_used=1,
        memory=1,
        tokens_per_second=min(abs(value) * 1e9, 1e15),
        mfu=1.0,
    )
    row = ("digits", "pair", "pair-w0", 0, "running")
    line = Line(*row, disk=100, chips=12_288, workers=3072, view=view)
    for column in (one for one in COLUMNS.values() if one.right):
        text = column.text(line)
        assert cut(text, column.width, right=True).strip() == text, column.title


@pytest.mark.parametrize(
    ("loss", "text"),
    [(1.609e-5, "1.61e-05"), (-1.609e-5, "-1.6e-05"), (8.6381, "8.638"), ("nan", "nan")],
)
def test_a_loss_keeps_its_exponent(loss: float | str, text: str) -> None:
    assert loss_text(loss) == text


def test_numbers_stand_at_the_right() -> None:
    assert cut("12", 5, right=True) == "   12"
    assert cut("123456", 5, right=True) == "1234…"
