"""Shapes of the page's pictures: the `d` of SVG paths, one for each state. Pure.

A picture is WIDTH wide and is stretched to the width of the page, so it contains no text; labels
are HTML beside it. Nothing here is text of workers or users.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

WIDTH = 1000.0
THINNEST = 2.0
"""An interruption of a minute in a week is still to be seen."""
MOST_POINTS = 400


@dataclass(frozen=True)
class Axis:
    """Times from left to right."""

    begun: float
    ended: float

    def x(self, at: float) -> float:
        """Return the place of a time."""
        whole = max(1.0, self.ended - self.begun)
        return min(WIDTH, max(0.0, (at - self.begun) / whole * WIDTH))

    def percent(self, at: float) -> str:
        """Return the same for CSS."""
        return f"{self.x(at) / WIDTH * 100:.2f}%"


def n(value: float) -> str:
    """Format a coordinate briefly."""
    return f"{value:.1f}".removesuffix(".0")


def bars(axis: Axis, spans: Iterable[tuple[float, float]], top: float, height: float) -> str:
    """Return the path of intervals as bars; what touches is joined."""
    joined: list[list[float]] = []
    for begun, ended in sorted(spans):
        if ended < axis.begun or begun > axis.ended:
            continue
        left, right = axis.x(begun), max(axis.x(ended), axis.x(begun) + THINNEST)
        if joined and left <= joined[-1][1] + 0.05:
            joined[-1][1] = max(joined[-1][1], right)
        else:
            joined.append([left, right])
    return "".join(
        f"M{n(left)} {n(top)}h{n(right - left)}v{n(height)}h{n(left - right)}z"
        for left, right in joined
    )


def ticks(axis: Axis, times: Iterable[float], top: float, height: float) -> str:
    """Return the path of moments as lines; those at the same place are one."""
    places = {n(axis.x(at)) for at in times if axis.begun <= at <= axis.ended}
    return "".join(f"M{place} {n(top)}v{n(height)}" for place in sorted(places, key=float))


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most MOST_POINTS, with the lowest and the highest of each part of the line."""
    if len(points) <= MOST_POINTS:
        return list(points)
    width = -(-len(points) * 2 // MOST_POINTS)
    found: list[tuple[float, float]] = []
    for at in range(0, len(points), width):
        part = points[at : at + width]
        ends = {
            min(part, key=lambda point: point[1]),
            max(part, key=lambda point: point[1]),
        }
        found += sorted(ends)
    return found


def is_between(moments: Sequence[float], begun: float, ended: float) -> bool:
    """Return whether one of these moments, which are sorted, is after one time until another."""
    at = bisect_right(moments, begun)
    return at < len(moments) and moments[at] <= ended


def line(
    axis: Axis,
    points: Sequence[tuple[float, float]],
    y: Callable[[float], float],
    breaks: Sequence[float] = (),
) -> tuple[str, str]:
    """Return the path of a curve, which is interrupted where an attempt ended, and of its dots.

    Dots are the points that stand alone, which a line as thin as the curve would hide.
    """
    parts: list[list[str]] = []
    before: float | None = None
    for at, value in thinned(points):
        if at < axis.begun or at > axis.ended:
            continue
        if before is None or is_between(breaks, before, at):
            parts.append([])
        parts[-1].append(f"{n(axis.x(at))} {n(y(value))}")
        before = at
    lines = "".join(f"M{'L'.join(part)}" for part in parts if len(part) > 1)
    # Round caps make a dot of a line without a length.
    return lines, "".join(f"M{part[0]}h0" for part in parts if len(part) == 1)


def scale(low: float, high: float, height: float, margin: float = 3.0) -> Callable[[float], float]:
    """Return the function from a value to its place, the highest at the top."""
    span = high - low

    def y(value: float) -> float:
        share = (value - low) / span if span else 0.5
        return margin + (1 - share) * (height - 2 * margin)

    return y
