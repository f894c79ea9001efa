"""Time as the user of the cloud lets it pass."""

from __future__ import annotations

import re

import pytest

from tpu_local_cloud.model.shared import clock as module
from tpu_local_cloud.model.shared.clock import Clock, seconds_of, timestamp


class Seconds:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_800_000_000.0 + self.now


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    made = Seconds()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.mark.parametrize(("mode", "passed"), [("real", 5.0), ("immediate", 5.0), ("manual", 0.0)])
def test_whether_real_seconds_count(seconds: Seconds, mode: module.Mode, passed: float) -> None:
    clock = Clock(mode)
    before = clock.now()
    seconds.now += 5
    assert clock.now() - before == passed


@pytest.mark.parametrize(("mode", "wait"), [("real", 7.0), ("immediate", 0.0), ("manual", 7.0)])
def test_when_something_is_due(seconds: Seconds, mode: module.Mode, wait: float) -> None:
    clock = Clock(mode)
    assert clock.due(7.0) - clock.now() == wait


@pytest.mark.parametrize("mode", module.MODES)
def test_time_can_be_made_to_pass(seconds: Seconds, mode: module.Mode) -> None:
    clock = Clock(mode)
    before = clock.now()
    clock.advance(30)
    assert clock.now() - before == 30


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        Clock("manual").advance(-1)


@pytest.mark.parametrize("first", module.MODES)
@pytest.mark.parametrize("second", module.MODES)
def test_a_change_of_mode_is_no_jump(
    seconds: Seconds, first: module.Mode, second: module.Mode
) -> None:
    clock = Clock(first)
    clock.advance(12)
    seconds.now += 3
    before = clock.now()
    clock.set(second)
    assert clock.now() == before
    assert clock.mode == second


@pytest.mark.parametrize("speed", [0.001, 60.0, 86400.0])
def test_real_time_may_pass_faster(seconds: Seconds, speed: float) -> None:
    clock = Clock("real", speed)
    before = clock.now()
    seconds.now += 10
    assert clock.now() - before == pytest.approx(10 * speed)
    assert clock.real_seconds(600 * speed) == pytest.approx(600)


def test_a_change_of_speed_is_no_jump(seconds: Seconds) -> None:
    clock = Clock("real")
    seconds.now += 7
    before = clock.now()
    clock.set(speed=3600)
    assert clock.now() == before
    seconds.now += 1
    assert clock.now() == before + 3600


@pytest.mark.parametrize("speed", [0, -1, 2e6, float("nan")])
def test_speeds_that_make_no_sense(speed: float) -> None:
    with pytest.raises(ValueError, match="is not between"):
        Clock("real").set(speed=speed)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="mode 'backwards' is none of real, immediate, manual"):
        Clock("real").set("backwards")  # type: ignore[arg-type]


def test_sums_of_odd_delays_meet_their_moment() -> None:
    clock = Clock("manual")
    due = clock.due(1.1)
    for _ in range(11):
        clock.advance(0.1)
    assert clock.now() == due


def test_what_was_due_happens_as_of_its_moment() -> None:
    clock = Clock("manual", start=1_000_000.0)
    clock.advance(50)
    with clock.at(1_000_010.0):
        assert clock.now() == 1_000_010.0
        assert clock.timestamp() == "1970-01-12T13:46:50.000000000Z"
    assert clock.now() == 1_000_050.0


@pytest.mark.parametrize(("mode", "passed"), [("real", 200.0), ("manual", 0.0)])
def test_another_clock_goes_on_from_what_was_stored(
    seconds: Seconds, mode: module.Mode, passed: float
) -> None:
    clock = Clock(mode, 20.0)
    clock.advance(1e6)
    stored, before = clock.to_dict(), clock.now()
    seconds.now += 10  # nobody is there
    other = Clock("immediate")
    other.restore(stored)
    assert (other.mode, other.speed) == (mode, 20.0)
    assert other.now() - before == pytest.approx(passed)


def test_each_change_by_hand_can_be_written_down() -> None:
    changes: list[dict[str, object]] = []
    clock = Clock("manual")
    clock.on_change = lambda: changes.append(clock.to_dict())
    clock.advance(1)
    clock.set("real", 60)
    assert [(item["mode"], item["speed"]) for item in changes] == [("manual", 1.0), ("real", 60.0)]


def test_times_of_day_have_nine_digits() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", Clock().timestamp())


@pytest.mark.parametrize("moment", [0.0, 1_800_000_000.123456, 4_000_000_000.000001])
def test_times_of_day_there_and_back(moment: float) -> None:
    assert seconds_of(timestamp(moment)) == moment
