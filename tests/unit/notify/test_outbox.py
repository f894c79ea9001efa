"""Whom a message goes to, how many an hour, and that none goes twice, whatever restarts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tpu_fleet.notify.message import Message, digest
from tpu_fleet.notify.outbox import HOUR, KEEP, QUEUE, REMEMBER, Box, Outbox, Way

NOW = 1_000_000.0
ALL = Way("all")
FEW = Way("few", per_hour=2)


def message(key: str = "", event: str = "failed", at: float = NOW, slice: str = "") -> Message:
    return Message(event, f"title {key}", "text", at, slice=slice, key=key)


@pytest.mark.parametrize(
    ("way", "event", "slice", "takes"),
    [
        (Way("w"), "failed", "pair", True),
        (Way("w", events=("failed",)), "failed", "", True),
        (Way("w", events=("failed",)), "finished", "", False),
        (Way("w", slices=("pair",)), "failed", "pair", True),
        (Way("w", slices=("pair",)), "failed", "solo", False),
        (Way("w", slices=("pair",)), "grant_ending", "", True),
    ],
)
def test_who_is_told(way: Way, event: str, slice: str, takes: bool) -> None:
    assert way.takes(message(event=event, slice=slice)) is takes


def again(outbox: Outbox) -> Outbox:
    """What a watcher finds that begins anew."""
    return Outbox.from_dict(json.loads(json.dumps(outbox.to_dict())))


def test_nothing_is_told_twice_even_after_a_restart() -> None:
    outbox = Outbox().put([message("a"), message("b"), message("a")], [ALL], NOW)
    assert [m.key for m in outbox.boxes["all"].waiting] == ["a", "b"]
    outbox = again(outbox.went(ALL, NOW))
    outbox = outbox.put([message("a"), message("b")], [ALL], NOW)
    assert [m.key for m in outbox.boxes["all"].waiting] == ["b"]
    assert (outbox.knows("a"), outbox.knows("c")) == (True, False)
    late = outbox.put([message("c")], [], NOW + REMEMBER + 1)
    assert not late.knows("a")


def run_for(
    outbox: Outbox, way: Way, seconds: float, step: float = 60.0
) -> list[tuple[float, str]]:
    """Send what is due, by a way that always works; return when, and the titles."""
    sent, now = [], NOW
    while now <= NOW + seconds:
        outbox = again(outbox).settle(way, now)
        due = outbox.due(way, now)
        if due:
            sent.append((now - NOW, due.title))
            outbox = outbox.went(way, now)
        now += 60.0
    return sent


def test_what_is_over_the_limit_comes_later_as_one() -> None:
    outbox = Outbox().put([message(str(n)) for n in range(7)], [FEW], NOW)
    sent = run_for(outbox, FEW, 2 * HOUR)
    assert sent == [(0.0, "title 0"), (60.0, "title 1"), (HOUR, "5 messages")]
    assert outbox.next_at([FEW], NOW) == NOW


def test_the_limit_holds_over_a_restart() -> None:
    outbox = Outbox().put([message("a")], [FEW], NOW)
    outbox = replace(outbox, boxes={"few": replace(outbox.boxes["few"], sent=(NOW - 9, NOW - 5))})
    outbox = again(outbox)
    assert outbox.due(FEW, NOW) is None
    assert outbox.next_at([FEW], NOW) == NOW - 9 + HOUR
    assert outbox.settle(FEW, NOW).boxes["few"].limited


def test_what_cannot_be_sent_is_tried_again_ever_later_and_given_up_in_the_end() -> None:
    outbox = Outbox().put([message("a")], [ALL], NOW)
    now, pauses = NOW, []
    while outbox.boxes["all"].waiting:
        outbox = again(outbox).settle(ALL, now)
        if outbox.due(ALL, now) is None:
            break
        outbox = outbox.failed(ALL, now)
        later = outbox.next_at([ALL], now)
        assert later is not None
        pauses.append(later - now)
        now = later
    assert pauses[:4] == [60.0, 120.0, 240.0, 480.0]
    assert max(pauses) == HOUR
    box = outbox.boxes["all"]
    assert (box.waiting, box.lost, now - NOW > KEEP) == ((), 1, True)


def test_a_box_does_not_grow_for_ever() -> None:
    outbox = Outbox().put([message(str(n)) for n in range(QUEUE + 5)], [ALL], NOW)
    box = outbox.boxes["all"]
    assert (len(box.waiting), box.lost, box.waiting[0].key) == (QUEUE, 5, "5")


def test_one_message_of_several_is_as_grave_as_the_gravest() -> None:
    several = [message("a", "finished"), message("b", "failed"), message("c", "healed")]
    one = digest(several)
    assert (one.event, one.title, one.text.count("\n")) == ("failed", "3 messages", 2)
    assert digest(several[:1]) == several[0]


def test_a_box_of_nothing() -> None:
    assert Outbox().due(ALL, NOW) is None
    assert Outbox().next_at([ALL], NOW) is None
    assert Outbox().settle(ALL, NOW).boxes["all"] == Box()
