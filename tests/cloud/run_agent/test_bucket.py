"""A run whose checkpoints are in a bucket: its agents see there what they see in a folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from object_server import TOKEN, Objects

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
FOR_EVER = "exec sleep 1000"
AT = 1_700_000_000.5
OFTEN = {**harness.TIMING, "bucket": 0.3, "bucket_dollars": 1e6, "fence_in_bucket": 0.5}


def given(lab: Objects, **more: Any) -> dict[str, Any]:
    place = {"checkpoint_dir": "gs://lab/digits", "storage": lab.url, "metadata": lab.url}
    return {**place, "timing": OFTEN, **more}


def test_the_status_has_the_marks_time_of_the_newest_whole_checkpoint(
    gang: Make, lab: Objects
) -> None:
    lab.step("digits/100", AT)
    lab.step("digits/200", AT + 60, mark="")
    workers = gang(FOR_EVER, **given(lab))
    for worker in workers:
        worker.up()
    status = workers[0].wait(state="running", saved_at=AT)
    assert (status["checkpoints_on"], status["problems"]) == ("bucket", [])
    assert status["bucket"]["step"] == 100
    lab.step("digits/200", AT + 60)
    status = workers[0].wait(saved_at=AT + 60)
    assert (status["bucket"]["name"], status["bucket"]["bytes"]) == ("200", 310)
    assert {f"Bearer {TOKEN}", None} == set(lab.tokens)
    # One worker asks for all, and the others have its answer.
    assert workers[1].wait(saved_at=AT + 60)["bucket"] is None


# In CI the unit test_bucket_watch.py has the last look.
@pytest.mark.night
def test_what_a_program_saves_at_its_end_is_seen(gang: Make, lab: Objects) -> None:
    (worker,) = gang("sleep 2", workers=1, **given(lab))
    worker.up()
    worker.wait(state="running", saved_at=0)
    lab.put("digits/last.pt", AT)
    worker.wait(state="succeeded", saved_at=AT)
    time.sleep(2)  # the last look may be on
    asked = lab.lists
    time.sleep(2)
    assert lab.lists == asked


def test_a_bucket_that_refuses_lets_no_attempt_begin_and_ends_none(
    gang: Make, lab: Objects
) -> None:
    lab.refusal = (403, "does not have storage.objects.list access")
    (worker,) = gang(FOR_EVER, workers=1, **given(lab))
    worker.up()
    harness.wait_until(lambda: "objectViewer" in worker.status().get("reason", ""), "the reason")
    assert worker.status()["state"] == "pending"
    lab.refusal = None
    pid = worker.wait_running(attempt=1)
    lab.refusal = (403, "does not have storage.objects.list access")
    harness.wait_until(lambda: worker.status()["problems"], "the problem")
    assert "roles/storage.objectViewer" in worker.status()["problems"][0]
    harness.wait_until(lambda: "the program goes on" in worker.log(), "its line")
    assert (worker.status()["state"], harness.alive(pid)) == ("running", True)
    lab.refusal = None
    lab.put("digits/1.pt", AT)
    assert worker.wait(saved_at=AT)["problems"] == []
    harness.wait_until(lambda: "it is read again" in worker.log(), "its line")


# In CI test_progress.py has a program that hangs, and one that saves in a folder.
@pytest.mark.night
def test_a_bucket_that_grows_keeps_a_silent_program_alive_and_one_that_does_not_shows_a_hang(
    gang: Make, lab: Objects
) -> None:
    (worker,) = gang(FOR_EVER, workers=1, hang_seconds=4, **given(lab))
    worker.up()
    worker.wait_running(attempt=1)
    begun = time.monotonic()
    while time.monotonic() - begun < 9:  # parts of one checkpoint, no mark yet
        lab.put(f"digits/100/d/{len(lab.items)}", time.time())
        time.sleep(0.3)
    assert worker.status()["attempt"] == 1
    hang = worker.wait_event("hang")
    assert (hang["attempt"], hang["seconds"] >= 4) == (1, True)
    worker.wait(state="running", attempt=2)


# In CI the unit test_bucket_watch.py has slow and silent buckets.
@pytest.mark.night
def test_a_bucket_that_does_not_answer_delays_no_end(gang: Make, lab: Objects) -> None:
    workers = gang("while [ ! -e over ]; do sleep 0.1; done", **given(lab))
    for worker in workers:
        worker.up()
    for worker in workers:
        worker.wait_running(attempt=1)
    lab.delay = 30.0
    begun = time.monotonic()
    for worker in workers:
        (worker.folder / "over").touch()
    for worker in workers:
        worker.wait(state="succeeded", attempt=1)
    assert time.monotonic() - begun < 20
