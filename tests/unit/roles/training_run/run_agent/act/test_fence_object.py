"""The fence in a bucket, against a server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from object_server import Objects, serving
from run_agent.act import fence_object
from run_agent.act.bucket_requests import CannotLook
from run_agent.act.fence_object import FenceObject
from run_agent.decide.fence import Claim, Mark

NAME = "digits/.tpu-fleet-attempt.digits"
MINE = Mark(1, "me", "digits-1", "vm-a", slice="pair")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    monkeypatch.setattr(fence_object, "_PAUSE", 0.01)
    with serving(Objects()) as objects:
        yield objects


def place(lab: Objects) -> dict[str, Any]:
    return {"storage": lab.url, "metadata": lab.url, "bucket": "lab", "name": NAME}


def mark_in(lab: Objects) -> Mark | None:
    return Mark.from_json(json.loads(lab.contents[NAME]))


def new(owner: str) -> Claim:
    return Claim(Mark(1, owner), is_new=True, is_sure=False)


def test_it_is_claimed_read_and_trusted_little(lab: Objects) -> None:
    fence = FenceObject(place(lab))
    assert fence.read() is None
    assert fence.claim(Claim(MINE, is_new=True, is_sure=False)) == MINE
    assert fence.read() == fence.read_once() == MINE
    # A second time there is nothing to write.
    assert fence.claim(Claim(MINE, is_new=False, is_sure=False)) == MINE
    assert [method for method, _path in lab.requests].count("POST") == 1
    lab.contents[NAME] = b'{"attempt": "9"}'
    assert fence.read() is None
    # What says nothing is written over, and not what has come in its place.
    assert fence.claim(Claim(MINE, is_new=False, is_sure=False)) == MINE


def test_of_many_leaders_at_the_same_time_one_has_each_number(lab: Objects) -> None:
    found: dict[str, Mark | None] = {}

    def claim(owner: str) -> None:
        found[owner] = FenceObject(place(lab)).claim(new(owner))

    threads = [threading.Thread(target=claim, args=(f"gang-{n}",)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = [mark for owner, mark in found.items() if mark is not None and mark.owner == owner]
    numbers = [mark.attempt for mark in written]
    assert len(set(numbers)) == len(numbers) >= 1
    assert mark_in(lab) == max(written, key=lambda mark: mark.attempt)
    assert sum(not mark.reserved for mark in written) == 1


def test_an_answer_that_is_lost_after_the_write(lab: Objects) -> None:
    lab.loses_answers = 1
    assert FenceObject(place(lab)).claim(new("me")) == mark_in(lab)
    assert [method for method, _path in lab.requests].count("POST") == 1


def test_a_write_that_another_was_faster_with(lab: Objects) -> None:
    def complete(mark: Mark) -> Mark:
        FenceObject(place(lab)).claim(new("other"))
        return mark

    found = FenceObject(place(lab)).claim(new("me"), complete)
    assert found is not None
    assert found.owner == "other"


def test_an_attempt_that_has_ended_is_released_once_and_by_its_owner(lab: Objects) -> None:
    fence = FenceObject(place(lab))
    assert fence.release("me", 1) is None
    fence.claim(Claim(MINE, is_new=True, is_sure=False))
    assert fence.release("other", 1) == fence.release("me", 2) == MINE
    asked = {"place": place(lab), "claim": None, "ended": {"owner": "me", "attempt": 1}}
    assert fence_object.answer(asked)["mark"]["ended"]
    assert mark_in(lab) == fence.release("me", 1) == MINE._replace(ended=True)
    assert [method for method, _path in lab.requests].count("POST") == 2
    heir = fence.claim(new("heir"))
    assert heir is not None
    assert (heir.attempt, heir.reserved, heir.ended) == (2, False, False)


def test_a_release_that_a_claim_was_faster_than(
    lab: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence, later = FenceObject(place(lab)), FenceObject(place(lab))
    fence.claim(Claim(MINE, is_new=True, is_sure=False))
    real = FenceObject._write

    def write(self: FenceObject, data: bytes, generation: int) -> bool:
        if self is fence:
            later.claim(new("heir"))
        return real(self, data, generation)

    monkeypatch.setattr(FenceObject, "_write", write)
    found = fence.release("me", 1)
    assert found is not None
    assert (found.owner, found.reserved, found.ended) == ("heir", True, False)


@pytest.mark.parametrize("refusal", [(403, "no"), (429, "slow down"), (503, "later")])
def test_a_claim_of_which_nothing_is_known_is_none(lab: Objects, refusal: tuple[int, str]) -> None:
    lab.upload_refusal = refusal
    with pytest.raises(CannotLook):
        FenceObject(place(lab)).claim(new("me"))
    lab.refusal = refusal
    with pytest.raises(CannotLook):
        FenceObject(place(lab)).read()


def test_the_helper_prints_what_the_object_says(lab: Objects, capsys: Any) -> None:
    def said(claim: dict[str, Any] | None) -> dict[str, Any]:
        asked = {"place": place(lab), "folders": False, "claim": claim}
        fence_object.main([json.dumps(asked)])
        return dict(json.loads(capsys.readouterr().out))

    assert said(None) == {"mark": None, "error": ""}
    claim = {"mark": MINE._asdict(), "is_new": True, "is_sure": False}
    assert said(claim)["mark"]["owner"] == "me"
    assert said(None)["mark"]["at"] == 0  # what an object says of times is not taken
    lab.refusal = (403, "no")
    error = said(claim)["error"]
    assert error.startswith(f"the fence gs://lab/{NAME}: the bucket refuses (403)")
