"""Leaders that see room at the same moment part, and trust what they have compared a while."""

from __future__ import annotations

import random

from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import LOOK
from ansible_collections.tpu.fleet.plugins.module_utils._queue.crowds import (
    TRUST,
    Compared,
    Crowds,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import Held


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def waited(crowds: Crowds, time: Time) -> float:
    """Return the seconds until a leader may try again."""
    begun = time.now
    while crowds.waits("alice"):
        time.now += 0.01
    return time.now - begun


def test_one_that_was_one_too_many_waits_longer_each_time_but_no_longer_than_a_look() -> None:
    longest = []
    for number in (1, 3, 20):
        seconds = []
        for seed in range(100):
            time = Time()
            crowds = Crowds(time, random.Random(seed))  # noqa: S311 - repeatable
            for _ in range(number):
                crowds.too_many("alice")
            assert not crowds.waits("bob")
            seconds.append(waited(crowds, time))
        assert min(seconds) < max(seconds) / 5, "they part"
        longest.append(max(seconds))
    assert longest[0] < 2.1 < longest[1] < 8.1 < longest[2] < LOOK + 0.1


def test_one_that_found_room_begins_again() -> None:
    time = Time()
    crowds = Crowds(time, random.Random(1))  # noqa: S311 - repeatable
    for _ in range(9):
        crowds.too_many("alice")
    crowds.took("alice")
    assert not crowds.waits("alice")
    crowds.too_many("alice")
    assert waited(crowds, time) < 2.1


def test_what_was_compared_holds_for_a_while() -> None:
    time = Time()
    compared = Compared(time)
    held = compared.put("hint", Held("one", 4))
    time.now += TRUST - 1
    assert compared.get("hint") == held
    assert compared.get("other") is None
    time.now += 2
    assert compared.get("hint") is None
