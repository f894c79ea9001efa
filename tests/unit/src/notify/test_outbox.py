"""Whom a message goes to, how many an hour, and that none goes twice, whatever restarts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tpu_fleet.notify.message import Message, digest
from tpu_fleet.notify.outbox import HOUR, KEEP, MOST_REMEMBERED, QUEUE, REMEMBER, Box, Outbox, Way

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
    """What a watcher finds that begins again."""
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


def test_a_slice_that_tells_too_much_costs_itself() -> None:
    outbox = Outbox().put(
        [message("grant:g", "grant_ending"), message("run:alice:digits", slice="alice")], [ALL], NOW
    )
    for look in range(10):
        evil = [message(f"run:evil:{look}-{n}", slice="evil") for n in range(1000)]
        outbox = again(outbox.put(evil, [ALL], NOW + 1 + look))
    keys = [one.key for one in outbox.boxes["all"].waiting]
    assert keys[:2] == ["grant:g", "run:alice:digits"]
    assert (len(keys), keys[-1]) == (QUEUE, "run:evil:9-999")
    assert outbox.knows("grant:g")
    assert outbox.knows("run:alice:digits")
    assert len(outbox.told) == MOST_REMEMBERED


def test_the_grant_stays_whoever_else_there_is() -> None:
    many = [message(f"run:s{n}:r", slice=f"s{n}") for n in range(2 * QUEUE)]
    outbox = Outbox().put([message("grant:g", "grant_ending"), *many], [ALL], NOW)
    assert outbox.boxes["all"].waiting[0].key == "grant:g"
    # Nor does it grow when all of it is the grant's.
    grants = [message(f"grant:{n}", "grant_ending") for n in range(QUEUE + 5)]
    assert len(Outbox().put(grants, [ALL], NOW).boxes["all"].waiting) == QUEUE


def test_one_message_of_several_is_as_grave_as_the_gravest() -> None:
    several = [message("a", "finished"), message("b", "failed"), message("c", "healed")]
    one = digest(several)
    assert (one.event, one.title, one.text.count("\n")) == ("failed", "3 messages", 2)
    assert digest(several[:1]) == several[0]


def test_a_box_of_nothing() -> None:
    assert Outbox().due(ALL, NOW) is None
    assert Outbox().next_at([ALL], NOW) is None
    assert Outbox().settle(ALL, NOW).boxes["all"] == Box()


def test_a_message_that_is_refused_holds_nobody_back_and_is_given_up() -> None:
    now, sent, tries = NOW, [], 0
    outbox = Outbox().put([message("bad"), message("good"), message("better")], [ALL], now)
    while now < NOW + 12 * HOUR:
        outbox = outbox.settle(ALL, now)
        due = outbox.due(ALL, now)
        if due is not None and due.key == "bad":
            outbox, tries = outbox.failed(ALL, now, refused=True), tries + 1
        elif due is not None:
            sent.append(due.key)
            outbox = again(outbox.went(ALL, now))
        now += 30
        if len(sent) == 2 and tries >= 3 and "later" not in outbox.told:
            outbox = outbox.put([message("later", at=now)], [ALL], now)
    assert sent == ["good", "better", "later"]
    assert (outbox.boxes["all"].waiting, outbox.boxes["all"].lost) == ((), 1)


def test_a_receiver_that_refuses_everything_loses_nothing_for_a_day() -> None:
    outbox, now = Outbox().put([message("a"), message("b")], [ALL], NOW), NOW
    while now < NOW + KEEP - HOUR:
        if outbox.due(ALL, now):
            outbox = outbox.failed(ALL, now, refused=True)
        now += 30
    assert {one.key for one in outbox.boxes["all"].waiting} == {"a", "b"}


def test_what_workers_write_into_a_message_can_always_be_sent() -> None:
    evil = "\ud800\x1b]0;x\x07\u202e\x00"
    bad = Message("failed", f"a{evil}\nb", evil, NOW, run=evil, log=(evil, "x\ny"), key=evil)
    assert (bad.title, bad.log[1:]) == ("a\ufffd\ufffd]0;x\ufffd\ufffd\ufffd b", ("x", "y"))
    # Also one that an earlier watcher left in its file.
    old = {**bad.to_dict(), "title": evil}
    assert Message.from_dict(old).title.isprintable()
