"""A chart in letters: where points are drawn, and how they are labelled."""

from __future__ import annotations

import math

import pytest

from tpu_fleet.show.chart import LABEL, Curve, Scale, chart

WIDTH, HEIGHT = 40, 11


def drawn(*curves: Curve, logarithmic: bool = False, width: int = WIDTH) -> list[str]:
    return chart(curves, lambda x: f"{x:.0f}", lambda y: f"{y:g}", width, HEIGHT, logarithmic)


def test_curves_go_where_their_values_are() -> None:
    lines = drawn(Curve("a", [(0, 0), (10, 10)]), Curve("b", [(0, 10), (10, 0)]))
    grid = [line[LABEL + 2 :] for line in lines[:HEIGHT]]
    assert (grid[0][0], grid[0][-1], grid[-1][0], grid[-1][-1]) == ("b", "a", "a", "b")
    # Between two points it is straight, and where they meet stands a star.
    assert "*" in grid[HEIGHT // 2]
    assert lines[0].startswith(f"{'10':>{LABEL}} ┤")
    assert lines[HEIGHT - 1].startswith(f"{'0':>{LABEL}} ┤")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_is_as_wide_as_the_terminal_and_says_what_is_below(width: int) -> None:
    lines = drawn(Curve("a", [(0, 1), (1000, 2)]), width=width)
    assert max(map(len, lines)) == width
    assert len(lines) == HEIGHT + 2
    marks = [at for at, char in enumerate(lines[-2]) if char == "┬"]
    assert lines[-1].split()[0] == "0"
    assert len(lines[-1].split()) == len(marks)


def test_a_column_with_many_points_has_their_mean() -> None:
    points = [(0.0, 0.0), *((5.0, float(y)) for y in (0, 10)), (10.0, 10.0)]
    grid = [line[LABEL + 2 :] for line in drawn(Curve("a", points))[:HEIGHT]]
    assert grid[HEIGHT // 2][len(grid[0]) // 2] == "a"


def test_what_is_no_number_is_left_out() -> None:
    points = [(0.0, 1.0), (1.0, math.nan), (2.0, math.inf), (3.0, 2.0)]
    assert drawn(Curve("a", points)) == drawn(Curve("a", [points[0], points[-1]]))
    assert drawn(Curve("a", [(0.0, math.nan)])) == []
    assert drawn() == []


def test_a_logarithmic_scale_leaves_out_what_is_not_above_zero() -> None:
    points = [(0.0, 0.01), (1.0, 1.0), (2.0, 100.0)]
    lines = drawn(Curve("a", [*points, (3.0, 0.0)]), logarithmic=True)
    assert lines == drawn(Curve("a", points), logarithmic=True)
    assert lines[HEIGHT // 2].startswith(f"{'1':>{LABEL}} ┤")
    assert drawn(Curve("a", [(0.0, -1.0)]), logarithmic=True) == []


def test_one_point_is_drawn() -> None:
    assert "a" in drawn(Curve("a", [(7.0, 7.0)]))[HEIGHT - 1]
    assert Scale(7.0, 7.0, 5).cell(7.0) == 0
