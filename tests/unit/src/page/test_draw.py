"""Shapes."""

from __future__ import annotations

import pytest

from tpu_fleet.page.draw import (
    MOST_POINTS,
    Axis,
    Ruler,
    bars,
    is_between,
    line,
    round_values,
    thinned,
    ticks,
    time_ticks,
)

AXIS = Axis(0.0, 100.0)


def test_what_touches_is_one_bar() -> None:
    assert bars(AXIS, [(0, 10), (10, 20), (50, 60)], 2, 5) == ("M0 2h200v5h-200zM500 2h100v5h-100z")


def test_the_shortest_interruption_is_to_be_seen() -> None:
    assert bars(Axis(0, 604_800), [(302_400, 302_401)], 0, 5) == "M500 0h2v5h-2z"


def test_what_is_outside_is_not_drawn() -> None:
    assert bars(AXIS, [(-20, -10), (200, 300)], 0, 5) == ""
    assert ticks(AXIS, [-1, 50, 50.001, 101], 0, 9) == "M500 0v9"


def test_a_line_is_interrupted_between_attempts() -> None:
    assert line(AXIS, [(0, 0), (10, 1), (20, 0)], lambda value: 10 * (1 - value), [15]) == (
        "M0 10L100 0",
        "M200 10h0",
    )


def test_thinned_lines_keep_their_peaks() -> None:
    points = [(float(n), 9.0 if n == 777 else 0.0) for n in range(5000)]
    found = thinned(points)
    assert len(found) <= MOST_POINTS + 2
    assert (777.0, 9.0) in found


@pytest.mark.parametrize(("begun", "ended", "found"), [(0, 1, False), (4, 5, True), (5, 6, False)])
def test_moments(begun: float, ended: float, found: bool) -> None:
    assert is_between([5.0, 9.0], begun, ended) is found


def test_a_curve_of_one_value_is_in_the_middle() -> None:
    assert Ruler(3, 3, 100).y(3) == 50
    assert [one.label for one in Ruler(3, 3, 100).ticks()] == ["3"]


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0.43, 3.55, [1, 2, 3]),
        (0, 1.25, [0, 0.5, 1]),
        (5.8001, 5.8004, [5.8001, 5.8002, 5.8003, 5.8004]),
        (-3, 7, [0, 5]),
        (0, 1_000_000, [0, 500_000, 1_000_000]),
        (-1e308, 1e308, []),
    ],
)
def test_labels_are_round(low: float, high: float, found: list[float]) -> None:
    assert round_values(low, high) == pytest.approx(found)


def test_a_value_that_falls_far_has_a_logarithmic_scale() -> None:
    ruler = Ruler.of([100.0, 1e-3, 1.0], 100.0)
    assert ruler.is_log
    assert [one.label for one in ruler.ticks()] == ["0.001", "0.01", "0.1", "1", "10", "100"][::2]
    assert ruler.y(100.0) < ruler.y(1.0) < ruler.y(1e-3)
    assert not Ruler.of([100.0, 0.0], 100.0).is_log
    assert not Ruler.of([100.0, 2.0], 100.0).is_log
    assert len(Ruler.of([1e-300, 1e300], 100.0).ticks()) <= 6


@pytest.mark.parametrize("width", [1, 61, 3000, 86_400, 700_000, 90 * 86_400])
def test_a_time_axis_has_a_few_labels_in_their_order(width: int) -> None:
    found = time_ticks(Axis(1_795_644_123.0, 1_795_644_123.0 + width))
    assert len(found) <= 10
    assert found or width == 1
    assert [one.share for one in found] == sorted(one.share for one in found)
