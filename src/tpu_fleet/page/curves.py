"""The curves of runs: their numbers over time, and the losses of several runs over steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import EXPLODED, loss_state

from ..history.causes import WANTED
from ..history.look import STEP
from ..history.store import Point, by_step
from ..history.story import RunStory
from ..show.figures import loss_text
from . import draw, words
from .draw import Axis, Ruler, Tick

MOST_CURVES = 4
"""Numbers with a curve, as many as the run agent notes at once."""
SPEED = "steps a second"
TOTAL = "total_steps"
"""The number in which a program says how many steps it will do; it has no curve."""
LEAST_BETWEEN = 5.0
"""Seconds between two points that make a speed. Workers of a slice report the same step within
milliseconds of each other, which is no pause of the program."""
TABLE = 12
"""Points in the table of a curve, and the last one."""
MOST_HITS = 48
"""Places of a curve that show their value at the pointer."""
MOST_COMPARED = 6
SPARK = 48
"""Points of a curve in the table of runs."""
HEIGHT = 100.0


@dataclass(frozen=True)
class Shape:
    """One path, of a state."""

    kind: str
    d: str


@dataclass(frozen=True)
class Hit:
    """A part of a picture that shows a text at the pointer."""

    left: float
    width: float
    text: str


@dataclass(frozen=True)
class Span:
    """A part of a picture, in percent of its width, with a word."""

    left: float
    width: float
    word: str


@dataclass(frozen=True)
class Curve:
    """A picture of one number over time."""

    name: str
    shapes: list[Shape]
    hits: list[Hit]
    no_number: list[Span]
    """Where the program reported no number: NaN, infinite."""
    xs: list[Tick]
    ys: list[Tick]
    is_log: bool
    low: str
    high: str
    last: str
    points: list[tuple[float, int, float]]
    """For the table: time, step, value."""


@dataclass(frozen=True)
class Spark:
    """A curve as small as a word."""

    d: str
    no_number: list[Span]


@dataclass(frozen=True)
class Compared:
    """A run in the picture of several."""

    slice: str
    run: str
    kind: str
    """The class of its colour."""
    d: str
    last: str


@dataclass(frozen=True)
class Comparison:
    """The losses of several runs over their steps."""

    runs: list[Compared]
    hits: list[Hit]
    xs: list[Tick]
    ys: list[Tick]
    is_log: bool
    left_out: int
    """Runs that have a loss, and no line."""


def loss_of(one: RunStory) -> str:
    """Return the name of the number that is the run's loss; empty if it has none."""
    return loss_in(one.curves)


def loss_in(names: Iterable[str]) -> str:
    """Return which of these numbers is the loss; empty if none is."""
    found = sorted(name for name in names if "loss" in name.lower())
    return "loss" if "loss" in found else next(iter(found), "")


def total_of(one: RunStory) -> int | None:
    """Return how many steps the run will do, if its program says so."""
    points = one.curves.get(TOTAL, ())
    return int(points[-1].value) if points and points[-1].value >= 1 else None


def curves_of(one: RunStory, axis: Axis) -> tuple[list[Curve], list[str]]:
    """Return the curves of a run, and the names of its numbers that have none."""
    breaks = [a.begun for a in one.attempts[1:]]
    back = _background(one, axis)
    first = loss_of(one)
    names = sorted(
        (n for n in one.curves if n not in (STEP, TOTAL)),
        key=lambda n: (n != first, "loss" not in n.lower(), n),
    )
    found = []
    for name in names[:MOST_CURVES]:
        spans = no_number(one, axis) if name == first else []
        found.append(curve_of(name, one.curves[name], axis, breaks, back, spans))
    speed = speeds(one.curves.get(STEP, ()), breaks)
    found.append(curve_of(SPEED, speed, axis, breaks, back, low=0.0))
    return [curve for curve in found if curve is not None], names[MOST_CURVES:]


def _background(one: RunStory, axis: Axis) -> list[Shape]:
    """Return every second attempt as a band, and the time between attempts: faults in red."""
    ends = [(a, one.until if a.ended is None else a.ended) for a in one.attempts]
    bands = [(a.begun, ended) for a, ended in ends[1::2]]
    down: dict[str, list[tuple[float, float]]] = {"rest": [], "gap": []}
    for a in one.attempts:
        if a.ended is not None and a.down:
            kind = "rest" if a.kind in WANTED else "gap"
            down[kind].append((a.ended, a.ended + a.down))
    shapes = [Shape("band", draw.bars(axis, bands, 0.0, HEIGHT))]
    shapes += [Shape(kind, draw.bars(axis, spans, 0.0, HEIGHT)) for kind, spans in down.items()]
    return [shape for shape in shapes if shape.d]


def no_number(one: RunStory, axis: Axis) -> list[Span]:
    """Return when the loss was no number, by the events of the run and its last look."""
    begun: float | None = None
    word, found = "", []
    for event in one.marks:
        what = str(event.detail.get("what", ""))
        if event.name == "loss-trouble" and begun is None and ("NaN" in what or "infinite" in what):
            begun, word = event.at, "NaN" if "NaN" in what else "infinite"
        elif event.name == "loss-good" and begun is not None:
            found.append((begun, event.at, word))
            begun = None
    now = one.view.loss_trouble
    if begun is None and now is not None and now.get("what") != EXPLODED and now.get("at"):
        begun, word = float(now["at"]), loss_state(str(now["what"])).removeprefix("loss ")
    if begun is not None:
        last = one.attempts[-1].ended if one.attempts else None
        found.append((begun, last or one.until, word))
    return [
        Span(left := axis.share(start), max(0.3, axis.share(end) - left), word)
        for start, end, word in found
        if start <= axis.ended and end >= axis.begun
    ]


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
    back: Sequence[Shape] = (),
    spans: Sequence[Span] = (),
    low: float | None = None,
) -> Curve | None:
    """Draw one number; None if it was not seen in this time."""
    inside = [point for point in points if axis.begun <= point.at <= axis.ended]
    if not inside:
        return None
    values = [point.value for point in inside]
    ruler = Ruler.of(values, HEIGHT, low)
    line, dots = draw.line(axis, [(p.at, p.value) for p in inside], ruler.y, breaks)
    xs, ys = draw.time_ticks(axis), ruler.ticks()
    shapes = [*back, *_grid(xs, ys), Shape("curve", line), Shape("dots", dots)]
    width = max(1, len(inside) // TABLE)
    table = [*inside[:-1][::width], inside[-1]]
    return Curve(
        name,
        [shape for shape in shapes if shape.d],
        _hits(inside, axis),
        list(spans),
        xs,
        ys,
        ruler.is_log,
        words.number(min(values) if low is None else low),
        words.number(max(values)),
        words.number(values[-1]),
        [(p.at, p.step, p.value) for p in table],
    )


def _grid(xs: Sequence[Tick], ys: Sequence[Tick]) -> list[Shape]:
    d = "".join(f"M{draw.n(one.share * draw.WIDTH / 100)} 0v{draw.n(HEIGHT)}" for one in xs)
    return [
        Shape("grid", d + "".join(f"M0 {draw.n(one.share)}h{draw.n(draw.WIDTH)}" for one in ys))
    ]


def _parts(places: Sequence[float]) -> list[tuple[float, float]]:
    """Return for each place the part of the width that is nearest to it."""
    middles = [(one + other) / 2 for one, other in pairwise(places)]
    lefts, rights = [0.0, *middles], [*middles, draw.WIDTH]
    return [(left, right - left) for left, right in zip(lefts, rights, strict=True)]


def _spread(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most so many of the points, and the last one."""
    width = -(-len(points) // most)
    return [*points[:-1][::width], points[-1]]


def _hits(points: Sequence[Point], axis: Axis) -> list[Hit]:
    taken = _spread(points, MOST_HITS)
    return [
        Hit(left, width, f"step {p.step:,} · {words.number(p.value)} · {words.clock(p.at)}")
        for p, (left, width) in zip(taken, _parts([axis.x(p.at) for p in taken]), strict=True)
    ]


def spark_of(one: RunStory) -> Spark | None:
    """Draw the run's loss as small as a word; None if it has none."""
    points = one.curves.get(loss_of(one), ())
    if not points:
        return None
    axis = Axis(points[0].at, max(points[-1].at, one.until if not one.is_over else 0.0))
    ruler = Ruler.of([point.value for point in points], 20.0)
    told = [(p.at, p.value) for p in _spread(points, SPARK)]
    line, dots = draw.line(axis, told, ruler.y, [a.begun for a in one.attempts[1:]])
    return Spark(line + dots, no_number(one, axis))


def comparison_of(stories: Sequence[RunStory]) -> Comparison | None:
    """Draw the losses of the runs that reported one last; None if there is nothing to compare."""
    with_loss = [(one, by_step(one.curves.get(loss_of(one), ()), one.begins)) for one in stories]
    told = [(one, points) for one, points in with_loss if len(points) > 1]
    newest = sorted(told, key=lambda pair: -max(point.at for point in pair[1]))[:MOST_COMPARED]
    drawn = [pair for pair in told if pair in newest]
    if len(drawn) < 2:
        return None
    ends = [point.step for _one, points in drawn for point in (points[0], points[-1])]
    axis = Axis(min(ends), max(ends))
    ruler = Ruler.of([point.value for _one, points in drawn for point in points], HEIGHT)
    runs = []
    for number, (one, points) in enumerate(drawn):
        d, _dots = draw.line(axis, [(p.step, p.value) for p in points], ruler.y)
        loss = one.view.loss
        last = words.number(points[-1].value) if loss is None else loss_text(loss)
        runs.append(Compared(one.slice, one.run, f"u{number}", d, last))
    xs, ys = draw.step_ticks(axis), ruler.ticks()
    runs.insert(0, Compared("", "", "grid", _grid(xs, ys)[0].d, ""))
    hits = _hits_of_several(drawn, axis)
    return Comparison(runs, hits, xs, ys, ruler.is_log, len(told) - len(drawn))


def _hits_of_several(drawn: Sequence[tuple[RunStory, Sequence[Point]]], axis: Axis) -> list[Hit]:
    width = (axis.ended - axis.begun) / MOST_HITS
    found = []
    for number in range(MOST_HITS):
        middle = axis.begun + (number + 0.5) * width
        values = []
        for one, points in drawn:
            near = min(points, key=lambda point: abs(point.step - middle))
            if abs(near.step - middle) <= 2 * width:
                values.append(f"{one.run} on {one.slice}: {words.number(near.value)}")
        text = "\n".join([f"step {middle:,.0f}", *values])
        found.append(Hit(number * draw.WIDTH / MOST_HITS, draw.WIDTH / MOST_HITS, text))
    return found
