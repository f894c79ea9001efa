"""Shapes of the page's pictures: the `d` of SVG paths, one for each state. Pure.

A picture is WIDTH wide and is stretched to the width of the page, so it contains no text; labels
are HTML beside it. Nothing here is text of workers or users.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

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

    def share(self, at: float) -> float:
        """Return the same in percent."""
        return self.x(at) / WIDTH * 100


@dataclass(frozen=True)
class Tick:
    """A place of an axis that has a label."""

    share: float
    """In percent, from the left or from the top."""
    label: str


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
        ends = {min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])}
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


LOG_FROM = 50.0
"""The highest value divided by the lowest, from which on the scale is logarithmic."""
MARGIN = 3.0
MOST_TICKS = 5
SECONDS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400, 172_800, 604_800, 1_209_600),
)
"""Distances between two labels of a time axis."""


@dataclass(frozen=True)
class Ruler:
    """Values from the bottom to the top of a picture."""

    low: float
    high: float
    height: float
    is_log: bool = False

    @classmethod
    def of(cls, values: Sequence[float], height: float, low: float | None = None) -> Ruler:
        """Return the ruler for these values, which begins at `low` if that is given."""
        least, most = min(values) if low is None else low, max(values)
        return cls(least, most, height, least > 0 and most / least > LOG_FROM)

    def y(self, value: float) -> float:
        """Return the place of a value, the highest at the top."""
        low, high, at = self.low, self.high, value
        if self.is_log:
            low, high, at = (math.log10(max(one, self.low)) for one in (low, high, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return MARGIN + (1 - share) * (self.height - 2 * MARGIN)

    def ticks(self) -> list[Tick]:
        """Return a few round values."""
        values = self._decades() if self.is_log else round_values(self.low, self.high)
        return [Tick(self.y(value) / self.height * 100, f"{value:.10g}") for value in values]

    def _decades(self) -> list[float]:
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        if last - first < 2:
            fine = [float(f"{by}e{power}") for power in range(first - 1, last + 1) for by in (1, 3)]
            return [value for value in fine if self.low <= value <= self.high]
        every = -(-(last - first + 1) // MOST_TICKS)
        return [float(f"1e{power}") for power in range(first, last + 1, every)]


def round_values(low: float, high: float) -> list[float]:
    """Return at most MOST_TICKS round values from `low` to `high`; that value if they are equal."""
    span = high - low
    if not span > abs(high) * 1e-9:
        return [float(f"{low:.4g}")]
    if not math.isfinite(span):
        return []
    size = 10.0 ** math.floor(math.log10(span / (MOST_TICKS - 1)))
    step = next(size * by for by in (1, 2, 5, 10, 20) if span / (size * by) <= MOST_TICKS - 1)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{number * step:.6g}") for number in range(first, int(high / step + 1e-9) + 1)]


def time_ticks(axis: Axis) -> list[Tick]:
    """Return a few round times, in UTC."""
    width = axis.ended - axis.begun
    step = next((one for one in SECONDS if width / one <= MOST_TICKS), SECONDS[-1])
    form = "%H:%M:%S" if step < 60 else "%H:%M" if width < 86400 else "%d %b %H:%M"
    form = "%d %b" if step >= 86400 else form
    first = math.ceil(axis.begun / step)
    times = [float(number * step) for number in range(first, int(axis.ended // step) + 1)]
    return [
        Tick(axis.share(at), datetime.fromtimestamp(at, UTC).strftime(form))
        for at in times[: 2 * MOST_TICKS]
    ]


def step_ticks(axis: Axis) -> list[Tick]:
    """Return a few round numbers of steps."""
    return [Tick(axis.share(at), f"{at:,.0f}") for at in round_values(axis.begun, axis.ended)]
