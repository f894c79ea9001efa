"""The curves of a run: its speed, and which of its numbers are drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tpu_fleet.history.look import STEP
from tpu_fleet.history.store import Event, Point
from tpu_fleet.history.story import Attempt, RunStory
from tpu_fleet.page.curves import (
    MOST_COMPARED,
    MOST_CURVES,
    MOST_HITS,
    SPEED,
    TOTAL,
    comparison_of,
    curves_of,
    no_number,
    spark_of,
    speeds,
    total_of,
)
from tpu_fleet.page.draw import Axis
from tpu_fleet.workers.ask.run_view import RunView


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
    assert [shape.kind for shape in curve.shapes] == ["grid", "dots"]


def falling(run: str, count: int = 100, last: float = 1.0) -> RunStory:
    told = [(float(n), n * 10, last + 200.0 / (n + 1)) for n in range(count)]
    return RunStory("pair", run, curves={"loss": points("loss", *told)}, until=float(count))


def test_each_part_of_a_curve_has_its_value_at_the_pointer() -> None:
    (curve,), _ = curves_of(falling("digits"), Axis(0, 100))
    assert curve.is_log
    assert 2 < len(curve.ys) < 7
    assert 2 < len(curve.xs) < 7
    assert len(curve.hits) <= MOST_HITS + 1
    assert sum(hit.width for hit in curve.hits) == pytest.approx(1000.0)
    assert curve.hits[-1].text == "step 990 · 3 · 01 Jan 00:01:39"


def test_time_without_a_number_is_marked_until_it_is_good_or_the_run_ended() -> None:
    bad = {"what": "loss is NaN since step 3; no checkpoint from before it is known"}
    marks = (
        Event(10, "pair", "digits", 0, "loss-trouble", 1, bad),
        Event(20, "pair", "digits", 0, "loss-good", 1),
        Event(60, "pair", "digits", 0, "loss-trouble", 2, bad),
    )
    attempts = (Attempt(1, 0, 50, "crashed"), Attempt(2, 55, 80, "crashed"))
    story = RunStory("pair", "digits", marks=marks, attempts=attempts, until=100)
    found = [(span.left, span.width, span.word) for span in no_number(story, Axis(0, 100))]
    assert found == [(10, 10, "NaN"), (60, 20, "NaN")]
    # What has exploded is a number; without an event the last look knows it.
    for what, spans in (("exploded", []), ("inf", [(30, 70, "infinite")])):
        view = RunView("digits", "pair", loss_trouble={"what": what, "at": 30.0})
        one = RunStory("pair", "digits", view=view, until=100)
        assert [(s.left, s.width, s.word) for s in no_number(one, Axis(0, 100))] == spans


def test_the_background_has_attempts_and_only_faults_are_red() -> None:
    attempts = (
        Attempt(1, 0, 20, "crashed", down=10),
        Attempt(2, 30, 50, "stopped", down=10),
        Attempt(3, 60),
    )
    story = RunStory(
        "pair", "digits", attempts=attempts, until=100, curves={"loss": points("loss", (5, 1, 2.0))}
    )
    (curve,), _ = curves_of(story, Axis(0, 100))
    shapes = {shape.kind: shape.d for shape in curve.shapes}
    assert shapes["gap"] == "M200 0h100v100h-100z"
    assert shapes["rest"] == "M500 0h100v100h-100z"
    assert shapes["band"] == "M300 0h200v100h-200z"


def test_the_total_of_steps_is_no_curve() -> None:
    told = {TOTAL: points(TOTAL, (0, 1, 6000.0)), "lr": points("lr", (0, 1, 0.1))}
    story = RunStory("pair", "digits", curves=told)
    drawn, left = curves_of(story, Axis(0, 20))
    assert ([one.name for one in drawn], left, total_of(story)) == (["lr"], [], 6000)
    assert total_of(RunStory("pair", "digits")) is None
    assert spark_of(story) is None


def test_losses_before_a_restart_at_an_earlier_step_are_no_part_of_the_comparison() -> None:
    began = (Attempt(1, 0.0, first_step=0), Attempt(2, 99.5, first_step=205))
    found = comparison_of([falling("a"), replace(falling("b"), attempts=began)])
    assert found is not None
    near = [int(hit.text.split()[1]) for hit in found.hits if "b on pair" in hit.text]
    assert 200 < near[-1] < 250


def test_losses_of_several_runs_stand_over_their_steps() -> None:
    assert comparison_of([falling("a")]) is None
    found = comparison_of([falling("a"), RunStory("pair", "none"), falling("b", 50)])
    assert found is not None
    assert [one.run for one in found.runs] == ["", "a", "b"]
    assert len({one.kind for one in found.runs}) == 3
    assert found.left_out == 0
    assert "a on pair" in found.hits[-1].text
    assert "b on pair" not in found.hits[-1].text
    many = comparison_of([falling(f"r{n}", 10 + n) for n in range(MOST_COMPARED + 3)])
    assert many is not None
    assert many.left_out == 3
    # Those that reported last, in the order of the table.
    assert [one.run for one in many.runs[1:]] == [f"r{n}" for n in range(3, MOST_COMPARED + 3)]
