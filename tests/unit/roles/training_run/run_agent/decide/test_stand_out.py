"""Which worker stands out from the others, and that noise names none."""

from __future__ import annotations

import random

import pytest
from run_agent.decide import stand_out
from run_agent.decide.pace import Pace
from run_agent.decide.stand_out import EVERY, Watch


@pytest.mark.parametrize(
    ("paces", "slow"),
    [
        ({0: 1.0, 1: 1.0, 2: 2.0}, [2]),
        ({0: 1.0, 1: 1.02, 2: 0.98, 3: 1.2}, []),
        ({0: 1.0, 1: 2.0}, []),  # of two, none
        ({0: 1.0, 1: 0.0, 2: 2.0}, []),  # not known of one
        ({0: 1.0, 1: 1.9, 2: 0.4, 3: 2.0}, []),  # they differ widely in any case
        ({0: 0.5, 1: 0.5, 2: 0.5, 3: 0.2}, []),  # faster than the others
    ],
)
def test_a_slow_worker(paces: dict[int, float], slow: list[int]) -> None:
    assert stand_out.slow(paces) == slow


def test_it_is_named_when_it_stays_slow() -> None:
    watch, paces = Watch(), {0: 1.0, 1: 1.01, 2: 2.0}
    for number in range(3):
        assert watch.lines() == []
        watch = watch.seen(paces, {}, number * EVERY)
        # A second look within the minute is none.
        watch = watch.seen(paces, {}, number * EVERY + 1)
    assert watch.lines() == ["worker 2 is slow: 2 s a step, the others 1 s"]
    assert watch.seen({0: 1.0, 1: 1.0, 2: 1.0}, {}, 4 * EVERY).lines() == []


def test_noise_names_none() -> None:
    seed = random.Random(33)  # noqa: S311 - the same each time
    named = 0
    for _life in range(200):
        watch = Watch()
        for minute in range(30):
            paces = {worker: seed.lognormvariate(0.0, 0.15) for worker in range(8)}
            watch = watch.seen(paces, {}, minute * EVERY)
            named += bool(watch.lines())
    assert named == 0


def test_a_worker_that_computes_something_else() -> None:
    watch = Watch().seen({}, {0: [(1, "0.5")], 1: [(1, "0.5")], 2: [(1, "0.6")]}, 0.0)
    assert watch.lines() == []
    watch = watch.seen({}, {0: [(2, "0.4")], 1: [(2, "0.4")], 2: [(2, "0.7")]}, 1.0)
    assert watch.lines() == [
        "worker 2 computes something else: its loss at step 2 is 0.7, that of the others 0.4"
    ]


def test_no_number_on_one_worker_alone_is_named_at_once() -> None:
    said = {0: [(7, "0.5")], 1: [(7, "nan")], 2: [(7, "0.5")]}
    assert "worker 1 computes something else" in Watch().seen({}, said, 0.0).lines()[0]
    everywhere = {worker: [(7, "nan")] for worker in range(3)}
    assert Watch().seen({}, everywhere, 0.0).lines() == []


def test_losses_of_each_workers_own_data_name_none() -> None:
    own = {worker: [(step, f"0.{worker}{step}") for step in range(8)] for worker in range(4)}
    assert Watch().seen({}, own, 0.0).lines() == []


def test_chips_that_report_an_error_are_named() -> None:
    found = stand_out.in_error({0: "", 2: "core 1: ECC", 1: ""})
    assert found == ["the chips of worker 2 report an error: core 1: ECC"]
    assert len(stand_out.in_error(dict.fromkeys(range(99), "core 0: ECC"))) == 3


def test_a_pace_is_that_of_the_last_minute() -> None:
    pace = Pace()
    for second in range(0, 200, 2):
        pace.look(float(second), second // 2, 0.5)
    assert pace.seconds == pytest.approx(2.0)
    assert pace.losses[-1] == [99, "0.5"]
    assert len(pace.losses) == 8
    # After a restart from a checkpoint the steps begin again.
    pace.look(300.0, 3, "nan")
    assert pace.losses[-1] == [3, "nan"]
    assert pace.seconds == pytest.approx(2.0)
