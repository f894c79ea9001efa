"""Shapes."""

from __future__ import annotations

import pytest

from tpu_fleet.page.draw import MOST_POINTS, Axis, bars, is_between, line, scale, thinned, ticks

AXIS = Axis(0.0, 100.0)


def test_what_touches_is_one_bar() -> None:
    assert bars(AXIS, [(0, 10), (10, 20), (50, 60)], 2, 5) == ("M0 2h200v5h-200zM500 2h100v5h-100z")


def test_the_shortest_interruption_is_to_be_seen() -> None:
    assert bars(Axis(0, 604_800), [(302_400, 302_401)], 0, 5) == "M500 0h2v5h-2z"


def test_what_is_outside_is_not_drawn() -> None:
    assert bars(AXIS, [(-20, -10), (200, 300)], 0, 5) == ""
    assert ticks(AXIS, [-1, 50, 50.001, 101], 0, 9) == "M500 0v9"


def test_a_line_is_interrupted_between_attempts() -> None:
    y = scale(0, 1, 10, margin=0)
    assert line(AXIS, [(0, 0), (10, 1), (20, 0)], y, [15]) == (
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
    assert scale(3, 3, 100)(3) == 50
