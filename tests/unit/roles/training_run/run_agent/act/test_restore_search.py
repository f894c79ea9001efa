"""From which folder an attempt restores, against a server on loopback."""

from __future__ import annotations

from typing import Any

import pytest
from object_server import Objects
from run_agent.act import restore_search
from run_agent.act.bucket_requests import CannotLook

AT = 1_700_000_000.0


def place(lab: Objects, prefix: str = "digits/") -> dict[str, Any]:
    name = f"{prefix}.tpu-fleet-attempt.digits"
    return {"storage": lab.url, "metadata": lab.url, "bucket": "lab", "name": name}


def test_it_is_that_of_the_last_attempt_with_a_whole_checkpoint(lab: Objects) -> None:
    assert restore_search.folder(place(lab), 1, None) is None
    lab.step("digits/attempt-1/100", AT)
    lab.step("digits/attempt-2/200", AT + 60, mark="")
    assert restore_search.folder(place(lab), 3, "attempt-1") == "attempt-1"
    assert restore_search.folder(place(lab), 3, None) == "attempt-1"
    lab.step("digits/attempt-3/checkpoints/300", AT + 90)  # MaxText
    # An earlier attempt that still writes is on a course that was left.
    lab.step("digits/attempt-1/900", AT + 900)
    assert restore_search.folder(place(lab), 4, "attempt-1") == "attempt-3"
    # Its own is not there yet, or of an attempt that another has begun.
    assert restore_search.folder(place(lab), 3, "attempt-1") == "attempt-1"


def test_the_runs_own_folder_is_the_one_before_the_first(lab: Objects) -> None:
    lab.step("100", AT)
    assert restore_search.folder(place(lab, ""), 1, None) == ""
    assert restore_search.folder(place(lab, ""), 2, "") == ""
    lab.step("attempt-2/200", AT)
    assert restore_search.folder(place(lab, ""), 3, "") == "attempt-2"
    # A checkpoint of an attempt is none of the folder itself.
    del lab.items["100/commit_success.txt"], lab.items["100/_CHECKPOINT_METADATA"]
    for name in [name for name in lab.items if name.startswith("100/")]:
        del lab.items[name]
    assert restore_search.folder(place(lab, ""), 2, None) is None


def test_attempts_that_saved_nothing_cost_no_more_than_was_agreed(lab: Objects) -> None:
    assert restore_search.folder(place(lab), 1000, "attempt-3") == "attempt-3"
    assert lab.lists <= 3 * 20


def test_a_bucket_that_does_not_answer_is_not_taken_for_empty(lab: Objects) -> None:
    lab.refusal = (503, "later")
    with pytest.raises(CannotLook):
        restore_search.folder(place(lab), 2, None)
