"""A chart of several curves in letters, for a terminal or a file. Pure.

Each curve has a letter, so that no colour is needed; a star stands where curves meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 80, 16
LABEL = 8
"""Cells of a label at the left."""
ROWS_BETWEEN = 5
"""Rows between two labels at the left."""
COLUMNS_BETWEEN = 18
"""Columns between two labels below."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MEET = "*"


@dataclass(frozen=True)
class Curve:
    """Points from left to right."""

    letter: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Scale:
    """Values on so many cells."""

    low: float
    high: float
    cells: int
    logarithmic: bool = False

    def cell(self, value: float) -> int:
        """Return the cell of a value."""
        low, high, value = (self._even(one) for one in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.0
        return min(self.cells - 1, max(0, round(share * (self.cells - 1))))

    def value(self, cell: int) -> float:
        """Return the value in the middle of a cell."""
        low, high = self._even(self.low), self._even(self.high)
        value = low + (high - low) * cell / max(1, self.cells - 1)
        return 10.0**value if self.logarithmic else value

    def _even(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value


def chart(
    curves: Sequence[Curve],
    x_label: Callable[[float], str],
    y_label: Callable[[float], str],
    width: int = WIDTH,
    height: int = HEIGHT,
    logarithmic: bool = False,
) -> list[str]:
    """Return the lines of a chart; none if no curve has a point that can be drawn.

    A logarithmic one leaves out values that are not above zero.
    """
    drawn = [
        Curve(one.letter, [p for p in one.points if _is_drawn(p, logarithmic)]) for one in curves
    ]
    every = [point for one in drawn for point in one.points]
    if not every:
        return []
    xs, ys = [x for x, _y in every], [y for _x, y in every]
    across = Scale(min(xs), max(xs), width - LABEL - 2)
    up = Scale(min(ys), max(ys), height, logarithmic)
    grid = [[" "] * across.cells for _row in range(height)]
    for one in drawn:
        for column, row in cells_of(one, across, up):
            here = grid[row][column]
            grid[row][column] = one.letter if here in (" ", one.letter) else MEET
    lines = []
    for row in reversed(range(height)):
        labelled = row % ROWS_BETWEEN == 0
        label = y_label(up.value(row)) if labelled else ""
        edge = "┤" if labelled else "│"
        lines.append(f"{label[:LABEL]:>{LABEL}} {edge}{''.join(grid[row]).rstrip()}".rstrip())
    return [*lines, *_below(across, x_label)]


def _is_drawn(point: tuple[float, float], logarithmic: bool) -> bool:
    return all(map(math.isfinite, point)) and (point[1] > 0 or not logarithmic)


def cells_of(curve: Curve, across: Scale, up: Scale) -> list[tuple[int, int]]:
    """Return column and row of each cell of a curve: of a column the mean, and straight between."""
    columns: dict[int, list[float]] = {}
    for x, y in curve.points:
        columns.setdefault(across.cell(x), []).append(y)
    means = [(column, sum(ys) / len(ys)) for column, ys in sorted(columns.items())]
    found = [(column, up.cell(y)) for column, y in means]
    for (left, before), (right, after) in pairwise(means):
        for column in range(left + 1, right):
            share = (column - left) / (right - left)
            found.append((column, up.cell(before + (after - before) * share)))
    return found


def _below(across: Scale, x_label: Callable[[float], str]) -> list[str]:
    """Return the axis with its labels."""
    places = list(range(0, across.cells, COLUMNS_BETWEEN))
    axis = "".join("┬" if column in places else "─" for column in range(across.cells))
    labels = ""
    for place in places:
        label = x_label(across.value(place))
        # A label begins at its mark, and the last one ends at the edge.
        at = min(place, across.cells - len(label))
        labels = f"{labels:<{at}}{label}" if len(labels) < at or not labels else labels
    return [f"{'':>{LABEL}} └{axis}", f"{'':>{LABEL + 2}}{labels}"]
