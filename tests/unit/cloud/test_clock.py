"""Time as the user of the cloud lets it pass."""

from __future__ import annotations

import re

import pytest

from tpu_fleet.cloud import clock as module
from tpu_fleet.cloud.clock import Clock, timestamp


class Seconds:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


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
    clock.set_mode(second)
    assert clock.now() == before
    assert clock.mode == second


def test_times_of_day_have_nine_digits() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", timestamp())
