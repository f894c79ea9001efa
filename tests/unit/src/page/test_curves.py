"""The curves of a run: its speed, and which of its numbers are drawn."""

from __future__ import annotations

import pytest

from tpu_fleet.history.look import STEP
from tpu_fleet.history.store import Point
from tpu_fleet.history.story import RunStory
from tpu_fleet.page.curves import MOST_CURVES, SPEED, curves_of, speeds
from tpu_fleet.page.draw import Axis


def points(name: str, *told: tuple[float, int, float]) -> list[Point]:
    return [Point("pair", "digits", name, *one) for one in told]


def steps(*told: tuple[float, int]) -> list[Point]:
    return points(STEP, *((at, step, float(step)) for at, step in told))


def test_the_speed_does_not_fall_where_two_workers_report_the_same_step() -> None:
    both = steps((0, 0), (0.05, 0), (10, 40), (10.02, 40), (10.08, 40), (20, 80), (20.03, 80))
    assert [one.value for one in speeds(both, [])] == [4.0, 4.0]


def test_a_program_that_stands_still_has_no_speed() -> None:
    found = speeds(steps((0, 0), (10, 40), (20, 40), (80, 40)), [])
    assert [one.value for one in found] == [4.0, 0.0, 0.0]


def test_no_speed_reaches_from_one_attempt_into_the_next() -> None:
    found = speeds(steps((0, 0), (10, 40), (30, 20), (40, 60)), [25.0])
    assert [(one.at, one.value) for one in found] == [(10, 4.0), (40, 4.0)]


@pytest.mark.parametrize("more", [0, 1, 3])
def test_each_number_is_drawn_or_named(more: int) -> None:
    names = ["tokens_per_s", "loss", "lr", "grad_norm", "a", "b", "c"][: MOST_CURVES + more]
    curves = {name: points(name, (0, 0, 1.0), (10, 40, 2.0)) for name in names}
    story = RunStory("pair", "digits", curves={**curves, STEP: steps((0, 0), (10, 40))})
    drawn, not_drawn = curves_of(story, Axis(0, 20))
    assert drawn[0].name == "loss"
    assert drawn[-1].name == SPEED
    assert {*(one.name for one in drawn[:-1]), *not_drawn} == set(names)
    assert len(not_drawn) == more


def test_a_point_that_stands_alone_is_a_dot() -> None:
    story = RunStory("pair", "digits", curves={"loss": points("loss", (5, 30, 8.6))})
    (curve,), _ = curves_of(story, Axis(0, 20))
    assert [shape.kind for shape in curve.shapes] == ["dots"]
