"""The curves of a run's card: its numbers, and the speed that its steps make. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..history.look import STEP
from ..history.store import Point
from ..history.story import RunStory
from . import draw, words
from .draw import Axis

MOST_CURVES = 4
"""Numbers with a curve, as many as the run agent notes at once."""
SPEED = "steps a second"
LEAST_BETWEEN = 5.0
"""Seconds between two points that make a speed. Workers of a slice report the same step within
milliseconds of each other, which is no pause of the program."""
TABLE = 12
"""Points in the table of a curve, and the last one."""


@dataclass(frozen=True)
class Shape:
    """One path, of a state."""

    kind: str
    d: str


@dataclass(frozen=True)
class Curve:
    """A small picture of one number over time."""

    name: str
    shapes: list[Shape]
    low: str
    high: str
    last: str
    points: list[tuple[float, int, float]]
    """For the table: time, step, value."""


def curves_of(one: RunStory, axis: Axis) -> tuple[list[Curve], list[str]]:
    """Return the curves of a run, and the names of its numbers that have none."""
    breaks = [a.begun for a in one.attempts[1:]]
    gaps = [(a.ended, a.ended + a.down) for a in one.attempts if a.ended is not None and a.down]
    names = sorted((n for n in one.curves if n != STEP), key=lambda n: ("loss" not in n.lower(), n))
    found = [curve_of(name, one.curves[name], axis, breaks, gaps) for name in names[:MOST_CURVES]]
    speed = speeds(one.curves.get(STEP, ()), breaks)
    found.append(curve_of(SPEED, speed, axis, breaks, gaps, low=0.0))
    return [curve for curve in found if curve is not None], names[MOST_CURVES:]


def speeds(points: Sequence[Point], breaks: Sequence[float]) -> list[Point]:
    """Return how many steps a second were done between two reports of one attempt."""
    found = []
    before: Point | None = None
    for point in points:
        if before is None or draw.is_between(breaks, before.at, point.at):
            before = point
        elif (seconds := point.at - before.at) >= LEAST_BETWEEN:
            speed = (point.step - before.step) / seconds
            if speed >= 0:
                found.append(Point(point.slice, point.run, "speed", point.at, point.step, speed))
            before = point
    return found


def curve_of(
    name: str,
    points: Sequence[Point],
    axis: Axis,
    breaks: Sequence[float],
    gaps: Sequence[tuple[float, float]],
    low: float | None = None,
) -> Curve | None:
    """Draw one number; None if it was not seen in this time."""
    inside = [point for point in points if axis.begun <= point.at <= axis.ended]
    if not inside:
        return None
    values = [point.value for point in inside]
    least = min(values) if low is None else low
    y = draw.scale(least, max(values), 100.0)
    line, dots = draw.line(axis, [(p.at, p.value) for p in inside], y, breaks)
    shapes = [
        Shape("gap", draw.bars(axis, gaps, 0.0, 100.0)),
        Shape("curve", line),
        Shape("dots", dots),
    ]
    width = max(1, len(inside) // TABLE)
    table = [*inside[:-1][::width], inside[-1]]
    return Curve(
        name,
        [shape for shape in shapes if shape.d],
        words.number(least),
        words.number(max(values)),
        words.number(values[-1]),
        [(p.at, p.step, p.value) for p in table],
    )
