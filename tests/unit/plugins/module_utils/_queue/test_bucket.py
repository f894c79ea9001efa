"""How patiently a bucket is asked, and how its lists are read."""

from __future__ import annotations

import random

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import bucket
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import Asking, NoAnswer
from memory_bucket import MemoryBucket


def asking(pauses: list[float]) -> Asking:
    return Asking(pauses.append, random.Random(1))  # noqa: S311 - repeatable


def test_a_question_is_asked_a_few_times_after_longer_and_longer_pauses() -> None:
    pauses: list[float] = []
    left = [bucket.TRIES - 1]

    def ask() -> str:
        if left[0]:
            left[0] -= 1
            raise NoAnswer("503")
        return "answer"

    assert asking(pauses).again(ask) == "answer"
    for number, pause in enumerate(pauses):
        assert 0.5 <= pause / (bucket.PAUSE * 2**number) <= 1.5
    left[0] = bucket.TRIES
    with pytest.raises(NoAnswer):
        asking([]).again(ask)


def test_pages_are_asked_for_when_they_are_needed() -> None:
    there = MemoryBucket()
    for number in range(25):
        there.put(f"runs/{number:02}", b"", {})
    there.put("stop/1", b"", {})
    found = asking([]).pages(there, "runs/", 10)
    assert next(found).name == "runs/00"
    assert there.asked["list"] == 1
    assert [one.name for one in found] == [f"runs/{number:02}" for number in range(1, 25)]
    assert there.asked["list"] == 2


def test_a_list_without_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    there = MemoryBucket()
    there.put("runs/1", b"", {})
    monkeypatch.setattr(there, "list", lambda *_words: ([there.items["runs/1"]], "more"))
    assert len(list(asking([]).pages(there, "runs/"))) == bucket.MOST_PAGES
