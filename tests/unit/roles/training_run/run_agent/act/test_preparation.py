"""Free space and the fence before a start."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_agent.act import (
    hand,
    preparation,
)
from run_agent.decide import config
from run_agent.decide.gang_state import GATHERING, Gang
from run_agent.decide.run_states import RUNNING
from run_definition import PUBLIC


@pytest.mark.parametrize(
    ("free", "wanted", "text"),
    [(None, 5, ""), (5, 5, ""), (4, 5, "/log has 4 B free, a start needs 5 B (min_free)")],
)
def test_room_on_a_disk(free: int | None, wanted: int, text: str) -> None:
    assert preparation.low(Path("/log"), free, wanted) == text
    assert preparation.size(3 * 2**30) == "3.0 GiB"


MINE = {"attempt": 8, "owner": "me", "run_id": "demo-1", "where": "vm-b"}
IN_BUCKET = {"checkpoint_dir": "gs://lab/d", "timing": {"lost": 30, "fence_in_bucket": 0.1}}


class Look:
    """A look at the fence that finds given marks, and keeps what it was asked."""

    def __init__(self, *marks: dict[str, Any] | None) -> None:
        self.marks = list(marks)
        self.asked: list[dict[str, Any]] = []

    def begin(self, asked: dict[str, Any]) -> None:
        self.asked.append(asked)

    def forget(self) -> None:
        """There is nothing under way."""

    def answer(self, _seconds: float) -> dict[str, Any]:
        mark = self.marks.pop(0) if len(self.marks) > 1 else self.marks[0]
        return {"mark": mark, "error": "", "free": None, "alone": False}


def ready_with(look: Look) -> preparation.Preparation:
    given = config.parse({**PUBLIC, **IN_BUCKET, "worker": 0}, {})
    given = replace(given, min_free_bytes=0)
    ready = preparation.Preparation(given, hand.Hand(given.user))
    ready._look = look  # type: ignore[assignment]
    return ready


def gang_of(phase: str = GATHERING, attempt: int = 0, claimed: bool = False) -> Gang:
    return Gang("d", "demo-2", phase, attempt, owner="me", claimed=claimed)


def test_an_heir_waits_until_the_other_has_seen_it_and_takes_its_number() -> None:
    look = Look({**MINE, "reserved": True}, {**MINE, "reserved": True}, MINE)
    ready = ready_with(look)
    assert ready.obstacle(gang_of()) == (
        "attempt 7 may still run elsewhere: it is given time to end"
    )
    claim = look.asked[0]["claim"]
    assert (claim["mark"]["attempt"], claim["is_new"], claim["is_sure"]) == (1, True, False)
    time.sleep(0.25)  # two looks of the other
    assert "does not name the next attempt yet" in ready.obstacle(gang_of())
    assert ready.obstacle(gang_of()) == ""
    assert look.asked[-1]["claim"]["is_sure"]
    # The gang begins just the attempt that is named.
    assert (ready.floor, ready.run_id) == (7, "demo-1")


def test_of_two_heirs_the_one_that_is_not_named_does_not_begin() -> None:
    ready = ready_with(Look({**MINE, "owner": "other"}, {**MINE, "attempt": 9}))
    assert "does not name the next attempt yet" in ready.obstacle(gang_of())
    assert ready.obstacle(gang_of()) == ""
    assert ready.floor == 8


def test_a_gang_that_comes_back_finds_its_run_elsewhere() -> None:
    ready = ready_with(Look({**MINE, "owner": "other", "slice": "pair"}))
    wanted = "fenced by attempt 8 of slice pair on vm-b; to go on here all the same"
    assert ready.obstacle(gang_of(attempt=3, claimed=True)).startswith(wanted)
    assert ready.elsewhere.startswith(wanted)


def test_a_run_that_is_taken_back_does_not_fail_by_the_look_before() -> None:
    look = Look({**MINE, "owner": "other"})
    ready = ready_with(look)
    ready.obstacle(gang_of(attempt=3, claimed=True))
    assert ready.elsewhere
    time.sleep(0.15)
    look.answer = lambda _seconds: None  # type: ignore[assignment, method-assign, return-value]
    assert ready.obstacle(gang_of(attempt=3)).endswith("does not answer")
    assert not ready.elsewhere


def test_what_was_waited_for_counts_no_more_when_another_has_come() -> None:
    reserved = {**MINE, "reserved": True}
    look = Look(reserved, reserved, {**MINE, "owner": "other"}, reserved)
    ready = ready_with(look)
    ready.obstacle(gang_of())
    time.sleep(0.25)
    assert "does not name the next attempt yet" in ready.obstacle(gang_of())
    assert ready.named == "me"
    assert ready.obstacle(gang_of()) == ready.elsewhere != ""
    time.sleep(0.15)
    ready.obstacle(gang_of())
    # A person took it back: the other one has time to end once more.
    assert [asked["claim"]["is_sure"] for asked in look.asked] == [False, False, True, False]


def test_an_attempt_that_has_just_begun_is_not_shut_out_by_a_claim_of_the_next() -> None:
    look = Look(MINE)
    assert ready_with(look).obstacle(gang_of(RUNNING, attempt=8, claimed=True)) == ""
    assert look.asked == []


def test_the_fence_is_released_for_the_attempt_that_has_ended() -> None:
    look = Look(MINE)
    ready_with(look).release(gang_of(attempt=8), 1.0)
    [asked] = look.asked
    assert (asked["claim"], asked["ended"]) == (None, {"owner": "me", "attempt": 8})


def test_another_worker_only_looks() -> None:
    look = Look(None)
    assert ready_with(look).obstacle(None) == ""
    assert look.asked[0]["claim"] is None


def test_a_bucket_that_refuses_is_asked_at_its_pace() -> None:
    look = Look(None)
    ready = ready_with(look)
    look.answer = lambda _seconds: {"error": "the bucket refuses (403)"}  # type: ignore[method-assign]
    assert [ready.obstacle(gang_of()) for _ in range(5)] == ["the bucket refuses (403)"] * 5
    assert len(look.asked) < 5
    time.sleep(0.15)
    ready.obstacle(gang_of())
    assert len(look.asked) > 1
