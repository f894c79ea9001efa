"""The fence in a bucket: who may start an attempt, and who ends its program because another has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from object_server import Objects

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
FOR_EVER = "exec sleep 1000"
EVERY = 1.0
TIMING = {**harness.TIMING, "bucket": 0.3, "bucket_dollars": 1e6, "fence_in_bucket": EVERY}
FENCE = "digits/.tpu-fleet-attempt.demo"
AT = 1_700_000_000.5


def given(lab: Objects, **more: Any) -> dict[str, Any]:
    place = {"checkpoint_dir": "gs://lab/digits", "storage": lab.url, "metadata": lab.url}
    return {**place, "timing": TIMING, "slice": "pair", **more}


def mark_of(lab: Objects) -> dict[str, Any]:
    return dict(json.loads(lab.contents[FENCE]))


def writes(lab: Objects) -> int:
    return sum(method == "POST" for method, _path in lab.requests)


def all_of(worker: Any) -> list[int]:
    """Return the agent of a worker and everything below it, its tmux server's processes too."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    lines = [line.split(None, 1) for line in listed.splitlines()]
    mine = [int(pid) for pid, words in lines if str(worker.folder) in words]
    return [*mine, worker.status()["pid"]]


def freeze(worker: Any) -> list[int]:
    """Stop all processes of a machine, as one that its host does not run any more."""
    frozen = [pid for pid in all_of(worker) if pid != os.getpid()]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    return frozen


def thaw(frozen: list[int]) -> None:
    for pid in frozen:
        if harness.alive(pid):
            os.kill(pid, signal.SIGCONT)


def test_each_attempt_is_written_before_it_begins(gang: Make, lab: Objects) -> None:
    workers = gang(FOR_EVER, **given(lab))
    for worker in workers:
        worker.up()
    pids = [worker.wait_running(attempt=1) for worker in workers]
    mark, status = mark_of(lab), workers[0].status()
    assert (mark["attempt"], mark["run_id"], mark["slice"]) == (1, status["run_id"], "pair")
    assert not mark["reserved"]
    os.kill(pids[0], signal.SIGKILL)
    for worker in workers:
        worker.wait_running(attempt=2)
    assert mark_of(lab)["attempt"] == 2
    assert writes(lab) == 2
    # It is no checkpoint.
    assert workers[0].wait(saved_at=0)["bucket"].get("name") is None


def test_a_slice_that_is_created_again_ends_the_old_ones_program(gang: Make, lab: Objects) -> None:
    old = list(gang(FOR_EVER, **given(lab)))
    for worker in old:
        worker.up()
    pids = [worker.wait_running(attempt=1) for worker in old]
    # The other workers' ports are taken here, so the new slice has one worker.
    new = gang(FOR_EVER, workers=1, folder="new", **given(lab))[-1]
    new.up()
    wanted = "attempt 1 may still run elsewhere: it is given time to end"
    harness.wait_until(lambda: wanted in new.status().get("reason", ""), "the wait")
    status = old[0].wait(state="failed")
    assert status["reason"].startswith("fenced by attempt 2 of slice pair on ")
    assert "fenced" in status["history"][-1]["cause"]
    # The worker that reads it first has the event, and the others end with it.
    seen = [event for worker in old for event in worker.events("fenced")]
    assert seen
    assert seen[0]["by"].startswith("fenced by attempt 2 of slice pair")
    ended = old[1].wait(state="failed")["history"][-1]
    assert not any(map(harness.alive, pids))
    # Without a grace in which it could save.
    assert (ended["signal"], "fenced" in ended["cause"]) == (signal.SIGKILL, True)
    new.wait_running(attempt=2)
    assert new.status()["run_id"] == status["run_id"]
    begun = new.events("attempt-started")[0]["at"]
    assert begun > max(status["history"][-1]["end"], ended["end"])
    # It stays so until a person says otherwise, and then the numbers go on.
    old[0].stop()
    old[0].up()
    old[0].wait(agent_pid=old[0].process.pid, state="failed")
    new.stop()
    old[0].send(signal.SIGUSR1)
    for worker in old:
        worker.wait_running(attempt=3)


# Worker 1 saves for longer than worker 0 waits until its last order was fetched.
SAVES_LONGER = (
    'if [ "$TPU_FLEET_WORKER" = 1 ]; then trap "sleep 2; exit 0" TERM; fi; '
    "touch ready$TPU_FLEET_ATTEMPT; while :; do sleep 0.1; done"
)


def test_a_slice_that_was_told_to_stop_is_not_waited_for(gang: Make, lab: Objects) -> None:
    old = list(gang(SAVES_LONGER, **given(lab)))
    for worker in old:
        worker.up()
    for worker in old:
        worker.wait_running(attempt=1)
    harness.wait_until((old[1].folder / "ready1").exists, "its handler")
    for worker in old:
        worker.send(signal.SIGTERM)
    harness.wait_until(lambda: mark_of(lab)["ended"], "the word that it has ended")
    assert not any(harness.alive(worker.status()["pid"]) for worker in old)
    new = gang(FOR_EVER, workers=1, folder="new", **given(lab))[-1]
    new.up()
    new.wait_running(attempt=2)
    # One that waits puts its name there twice.
    assert (writes(lab), mark_of(lab)["ended"]) == (3, False)
    new.stop()
    # The next attempt of the same slice writes its own number.
    new.up()
    new.wait_running(attempt=3)
    assert (mark_of(lab)["attempt"], mark_of(lab)["ended"]) == (3, False)


# In CI tests/worlds/property/test_writers.py freezes machines, test_bucket_guard.py a process.
@pytest.mark.night
@pytest.mark.parametrize("kind", ["the leader", "another worker"])
def test_a_frozen_worker_that_wakes_is_ended_before_it_writes(
    gang: Make, lab: Objects, tmp_path: Path, kind: str
) -> None:
    """Its program writes all the time, but not a moment longer than the fence needs."""
    journal = tmp_path / "journal"
    write = f"while :; do echo $TPU_FLEET_ATTEMPT $(date +%s.%N) >> {journal}; sleep 0.02; done"
    workers = 2 if kind == "another worker" else 1
    old = list(gang(write, workers=workers, **given(lab)))
    for worker in old:
        worker.up()
    for worker in old:
        worker.wait_running(attempt=1)
    zombie = old[-1]
    frozen = freeze(zombie)
    for worker in old[:-1]:  # the rest of the slice is gone
        worker.stop()
        worker.kill_tmux()
    lab_at = time.time()
    new = gang("sleep 1000", workers=1, folder="new", **given(lab))[-1]
    new.up()
    new.wait_running(attempt=2)
    time.sleep(3 * EVERY)
    woken_at = time.time()
    thaw(frozen)
    zombie_pid = zombie.status()["pid"]
    harness.wait_until(lambda: not harness.alive(zombie_pid), "the end of the zombie")
    late = [float(line.split()[1]) for line in journal.read_text().splitlines()]
    late = [at for at in late if at > max(woken_at, lab_at)]
    assert not late or max(late) - woken_at < 0.3
    assert new.status()["state"] == "running"
    assert mark_of(lab)["attempt"] == 2


# In CI the same worlds have two slices, and the unit test_fence_object.py many leaders.
@pytest.mark.night
def test_of_two_slices_at_the_same_time_one_goes_on(gang: Make, lab: Objects) -> None:
    lab.delay = 0.1
    (one,) = gang(FOR_EVER, workers=1, **given(lab))
    two = gang(FOR_EVER, workers=1, folder="two", **given(lab))[-1]
    one.up()
    two.up()

    def settled() -> bool:
        return {worker.status().get("state") for worker in (one, two)} == {"running", "failed"}

    harness.wait_until(settled, "one of them")
    winner, loser = (one, two) if one.status()["state"] == "running" else (two, one)
    assert "fenced by attempt" in loser.status()["reason"]
    assert not loser.status()["pid"] or not harness.alive(loser.status()["pid"])
    assert mark_of(lab)["attempt"] == winner.status()["attempt"]


# In CI the unit test_fence_object.py has answers that are lost and writes that are refused.
@pytest.mark.night
def test_a_lost_answer_is_recognised_as_ones_own_write(gang: Make, lab: Objects) -> None:
    lab.loses_answers = 1
    (worker,) = gang(FOR_EVER, workers=1, **given(lab))
    worker.up()
    worker.wait_running(attempt=1)
    assert (writes(lab), mark_of(lab)["attempt"]) == (1, 1)


@pytest.mark.night
def test_a_write_that_is_refused_lets_no_attempt_begin(gang: Make, lab: Objects) -> None:
    lab.upload_refusal = (403, "does not have storage.objects.create access")
    (worker,) = gang(FOR_EVER, workers=1, **given(lab))
    worker.up()
    wanted = "roles/storage.objectUser"
    harness.wait_until(lambda: wanted in worker.status().get("reason", ""), "the reason")
    assert worker.status()["attempt"] == 0
    lab.upload_refusal = None
    worker.wait_running(attempt=1)


SAVES = (
    'echo "restore=$TPU_FLEET_RESTORE_DIR write=$TPU_FLEET_CHECKPOINT_DIR"; '
    "while [ ! -e over$TPU_FLEET_ATTEMPT ]; do sleep 0.1; done; exit 1"
)


def test_attempts_with_folders_of_their_own_restore_from_the_last_one_that_is_whole(
    gang: Make, lab: Objects
) -> None:
    more = given(lab, attempt_folders=True, retries=9)
    (worker,) = gang(SAVES, workers=1, **more)
    worker.up()
    worker.wait_running(attempt=1)
    lab.step("digits/attempt-1/100", AT)
    (worker.folder / "over1").touch()
    worker.wait_running(attempt=2)
    lab.step("digits/attempt-2/200", AT + 60, mark="")  # not whole
    (worker.folder / "over2").touch()
    worker.wait_running(attempt=3)
    lab.step("digits/attempt-3/200", AT + 60)
    lab.step("digits/attempt-1/300", AT + 90)  # of a zombie: newer, and of a course that was left
    (worker.folder / "over3").touch()
    worker.wait_running(attempt=4)

    def told() -> list[str]:
        lines = [line.partition("restore=") for line in worker.log().splitlines()]
        return [rest for _before, found, rest in lines if found]

    lines = harness.wait_until(lambda: len(told()) == 4 and told(), "four attempts")
    place = "gs://lab/digits"
    assert lines == [
        f" write={place}/attempt-1",
        f"{place}/attempt-1 write={place}/attempt-2",
        f"{place}/attempt-1 write={place}/attempt-3",
        f"{place}/attempt-3 write={place}/attempt-4",
    ]
    assert worker.wait(saved_at=AT + 90)["bucket"]["name"] == "attempt-1/300"


# In CI the unit test_restore_search.py has a run with a folder of its own.
@pytest.mark.night
def test_a_run_that_begins_to_have_such_folders_restores_from_its_own(
    gang: Make, lab: Objects
) -> None:
    lab.step("digits/100", AT)
    (worker,) = gang(SAVES, workers=1, **given(lab, attempt_folders=True))
    worker.up()
    worker.wait_running(attempt=1)
    wanted = "restore=gs://lab/digits write=gs://lab/digits/attempt-1"
    harness.wait_until(lambda: wanted in worker.log(), "its variables")
