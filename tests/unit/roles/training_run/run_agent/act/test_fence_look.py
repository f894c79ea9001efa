"""A look at the fence beside the agent's loop: no answer gets lost, and none is old."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from run_agent.act import as_user, helper
from run_agent.act.fence_look import BucketLook, FolderLook
from run_agent.decide import config
from run_definition import PUBLIC

MARK = {"attempt": 8, "owner": "me"}


class Process:
    """Runs in its place, until it may end."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.may_end = threading.Event()

    def run_as(self, _user: str, argv: list[str], *_words: Any, **_more: Any) -> Any:
        self.asked.append(json.loads(argv[-1]))
        assert self.may_end.wait(20)
        told = {"mark": {**MARK, "attempt": len(self.asked)}, "error": ""}
        return as_user.Done(0, json.dumps(told).encode(), b"")


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    made = Process()
    monkeypatch.setattr(helper.as_user, "run_as", made.run_as)
    monkeypatch.setattr(helper.terminal, "user_environment", lambda _user: {})
    return made


def look_of() -> BucketLook:
    return BucketLook(config.parse(PUBLIC, {}), "the fence")


def attempt_of(look: BucketLook) -> int | None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        answer = look.answer(0.05)
        if answer is not None:
            return int(answer["mark"]["attempt"])
    return None


def test_an_answer_that_came_between_two_looks_is_taken(process: Process) -> None:
    look = look_of()
    look.begin({"n": 1})
    assert look.answer(0.05) is None
    process.may_end.set()
    time.sleep(0.3)
    look.begin({"n": 2})
    assert attempt_of(look) == 1
    assert process.asked == [{"n": 1}]
    look.begin({"n": 3})
    assert attempt_of(look) == 2
    assert process.asked[-1] == {"n": 3}


def test_an_answer_to_what_was_asked_before_an_attempt_is_none(process: Process) -> None:
    look = look_of()
    look.begin({"n": 1})
    look.forget()
    process.may_end.set()
    time.sleep(0.3)
    assert look.answer(5.0) is None
    look.begin({"n": 2})
    assert attempt_of(look) == 2


class Hand:
    """Has the answer that a test gives it, or fails."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers: Any = None

    def look(self, number: int, asked: dict[str, Any], _seconds: float) -> dict[str, Any] | None:
        self.asked.append((number, asked["n"]))
        if isinstance(self.answers, OSError):
            raise self.answers
        found: dict[str, Any] | None = self.answers
        return found


def test_a_folder_is_looked_at_by_the_hand() -> None:
    hand: Any = Hand()
    look = FolderLook(hand, "the fence")
    assert look.answer(0.1) is None
    look.begin({"n": 1})
    assert look.answer(0.1) is None
    look.begin({"n": 2})  # the first has no answer yet
    hand.answers = {"mark": MARK, "alone": 1}
    found = look.answer(0.1)
    assert found is not None
    assert (found["mark"], found["alone"], found["error"]) == (MARK, False, "")
    first = hand.asked[0]
    assert hand.asked == [first, first]
    look.begin({"n": 3})
    look.forget()
    assert look.answer(0.1) is None
    look.begin({"n": 4})
    assert look.answer(0.1) == found
    assert [n for _number, n in hand.asked] == [1, 1, 3, 4]
    assert len({number for number, _n in hand.asked}) == 3


def test_a_hand_that_does_not_answer_is_said() -> None:
    hand: Any = Hand()
    look = FolderLook(hand, "the fence")
    look.begin({"n": 1})
    hand.answers = OSError(5, "odd answer")
    found = look.answer(0.1)
    assert found is not None
    assert found["error"] == "the fence cannot be looked at: odd answer"
