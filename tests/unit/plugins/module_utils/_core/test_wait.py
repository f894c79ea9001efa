"""Waits have a limit and say what they waited for."""

from __future__ import annotations

from itertools import islice

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import WaitTimeout
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import Backoff, Seen, wait_for
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    STEADY,
    FakeClock,
)


def test_delays_grow_to_their_most() -> None:
    assert list(islice(STEADY.delays(), 6)) == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_jitter_only_shortens() -> None:
    delays = Backoff(first=10.0, jitter=0.5, chance=lambda: 1.0).delays()
    assert next(delays) == 5.0


def test_value_is_returned_once_it_is_there() -> None:
    clock = FakeClock()
    looks = iter([Seen("a"), Seen("b"), Seen("c", True, 42)])
    value = wait_for(
        lambda _elapsed: next(looks), what="x", timeout=60, clock=clock, backoff=STEADY
    )
    assert value == 42
    assert clock.sleeps == [1.0, 2.0]


def test_limit_is_kept_and_named() -> None:
    clock = FakeClock()
    with pytest.raises(WaitTimeout) as caught:
        wait_for(
            lambda _elapsed: Seen("CREATING"),
            what="the node",
            timeout=10,
            clock=clock,
            backoff=STEADY,
        )
    assert clock.time == 10
    assert caught.value.last_state == "CREATING"
    assert str(caught.value).startswith("Waited 10 s for the node; last seen: CREATING.")


def test_there_is_a_look_at_the_limit() -> None:
    clock = FakeClock()
    value = wait_for(
        lambda elapsed: Seen("late", elapsed >= 10, "yes"),
        what="x",
        timeout=10,
        clock=clock,
        backoff=STEADY,
    )
    assert value == "yes"
