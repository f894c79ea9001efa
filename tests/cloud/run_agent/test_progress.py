"""What a run reports of itself, and what happens to one that reports nothing any more."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
FOR_EVER = "exec sleep 1000"

# Reports a step each 50 ms for a while, then waits for something that never comes.
STUCK = (
    f"exec {sys.executable} -uc '"
    "import threading, time\n"
    "for n in range(5):\n"
    '    print("step", n); time.sleep(0.05)\n'
    "def wait_for_what_never_comes():\n"
    "    threading.Event().wait()\n"
    "wait_for_what_never_comes()\n"
    "'"
)


def names(worker: Any) -> list[str]:
    return [event["event"] for event in worker.events()]


def test_the_events_of_a_crash(gang: Make) -> None:
    workers = gang('[ "$TPU_FLEET_ATTEMPT" = 1 ] || exit 0; echo step 7; exec sleep 1000')
    for worker in workers:
        worker.up()
    pids = [worker.wait_running(attempt=1) for worker in workers]
    harness.wait_until(lambda: "step 7" in workers[1].log(), "the program's output")
    os.kill(pids[1], signal.SIGKILL)
    for worker in workers:
        worker.wait(state="succeeded", attempt=2)
    attempt = ["attempt-started", "attempt-ended"]
    told = ["agent-started", *attempt, *attempt]
    told.insert(2, "first-step")
    assert names(workers[1]) == told
    # The leader also tells how far its program came, before it ended: the first one said step 7.
    told.insert(3, "progress")
    harness.wait_until(lambda: names(workers[0]) == [*told, "run-succeeded"], "the leader's events")
    ended = workers[1].events("attempt-ended")[0]
    assert (ended["attempt"], ended["signal"], ended["exit_code"]) == (1, signal.SIGKILL, None)
    assert ended["step"] == 7
    assert {"at", "worker", "attempt", "run_id", "boot_id"} <= ended.keys()
    assert "signal 9" in workers[0].events("attempt-ended")[0]["cause"]


def test_the_events_of_a_reboot_and_of_another_definition(gang: Make) -> None:
    workers = gang(FOR_EVER, timing=harness.SOON_LOST)
    for worker in workers:
        worker.up()
    for worker in workers:
        worker.wait_running(attempt=1)
    workers[1].reboot()
    assert workers[0].wait_event("peer-lost")["peer"] == 1
    workers[1].up()
    workers[0].wait_event("peer-back")
    for worker in workers:
        worker.wait_running(attempt=2)
    for worker in workers:  # once one has it, the attempt ends on all
        definition = harness.json.loads(worker.definition.read_text())
        worker.define(dict(definition, command="exec sleep 2000"))
        worker.send(signal.SIGHUP)
    workers[0].wait_event("definition-changed")
    assert workers[1].events("attempt-ended")[0]["cause"] == "rebooted"


def test_the_event_of_other_code_has_its_version(gang: Make) -> None:
    (worker,) = gang(FOR_EVER, workers=1, code={"tree": "toy", "version": "w0"})
    worker.up()
    worker.wait_running(attempt=1)
    definition = harness.json.loads(worker.definition.read_text())
    worker.define(dict(definition, code={"tree": "toy", "version": "9d0e7a11"}))
    worker.send(signal.SIGHUP)
    assert worker.wait_event("code-changed")["version"] == "9d0e7a11"
    worker.wait_running(attempt=2)
    assert worker.events("attempt-ended")[0]["cause"] == "the definition changed"
    assert not worker.events("definition-changed")


def test_a_run_that_failed_tells_the_last_lines_of_who_failed(gang: Make) -> None:
    program = (
        f"[ $TPU_FLEET_WORKER = 0 ] && exec sleep 1000; {sys.executable} -c 'raise KeyError(4711)'"
    )
    workers = gang(program, retries=0)
    for worker in workers:
        worker.up()
    event = workers[0].wait_event("run-failed")
    assert event["failed_worker"] == 1
    assert "KeyError: 4711" in event["tail"]
    assert "exit code 1" in event["reason"]
    assert not workers[1].events("run-failed")


def test_an_exit_code_that_is_not_tried_again(gang: Make) -> None:
    (worker,) = gang("exit 42", workers=1, no_retry_exit_codes=[41, 42])
    worker.up()
    status = worker.wait(state="failed", attempt=1)
    assert "exit code 42, which is not tried again" in status["reason"]


@pytest.mark.parametrize(
    ("program", "pattern"),
    [
        ('echo \'{"step": 12}\' > "$TPU_FLEET_PROGRESS"; exec sleep 1000', None),
        ("printf 'Step: 11\\rstep=12 loss 3\\n'; exec sleep 1000", None),
        ("echo 'step 1'; echo 'epoch 12 of 99'; exec sleep 1000", r"epoch (\d+)"),
    ],
)
def test_the_step_is_shown(gang: Make, program: str, pattern: str | None) -> None:
    more = {"step_pattern": pattern} if pattern else {}
    (worker,) = gang(program, workers=1, **more)
    worker.up()
    status = worker.wait(step=12)
    assert status["start"] <= status["step_at"]
    assert status["since"] <= status["step_at"]


def test_numbers_beside_the_step_are_told_of(gang: Make) -> None:
    say = 'echo \'{"step": 12, "loss": 0.25}\' > "$TPU_FLEET_PROGRESS"; exec sleep 1000'
    timing = {**harness.TIMING, "progress": 0.5, "step": 0.2}
    workers = gang(say, timing=timing)
    for worker in workers:
        worker.up()
    told = workers[0].wait_event("progress")
    assert (told["step"], told["numbers"], told["attempt"]) == (12, {"loss": 0.25}, 1)
    # One worker is enough.
    assert not workers[1].events("progress")


def test_curves_end_with_what_the_program_wrote_last(gang: Make) -> None:
    write = 'echo "{\\"step\\": $n, \\"loss\\": 0.$n}" > "$TPU_FLEET_PROGRESS"'
    say = f"for n in 1 2 3 600; do {write}; done"
    # No other look at the progress would be told.
    timing = {**harness.TIMING, "progress": 1000.0, "step": 1000.0}
    workers = gang(say, timing=timing)
    for worker in workers:
        worker.up()
    for worker in workers:
        assert worker.wait(state="succeeded")["step"] == 600
    (told,) = workers[0].events("progress")
    assert (told["step"], told["numbers"], told["attempt"]) == (600, {"loss": 0.6}, 1)
    assert names(workers[0]).index("progress") < names(workers[0]).index("attempt-ended")
    assert workers[0].events("attempt-ended")[0]["step"] == 600
    assert not workers[1].events("progress")


def test_a_program_that_hangs_is_shown_and_started_again(gang: Make) -> None:
    # Worker 0 alone says nothing from the start: that is no hang.
    workers = gang(
        f"[ $TPU_FLEET_WORKER = 1 ] && {STUCK}; exec sleep 1000", hang_seconds=6, retries=1
    )
    for worker in workers:
        worker.up()
    for worker in workers:
        worker.wait_running(attempt=2)
        hang = worker.wait_event("hang")
        assert hang["seconds"] >= 6
        assert worker.events("attempt-ended")[0]["cause"] == "hung"
        assert worker.status()["history"][0]["cause"] == "hung"
    text = harness.Path(workers[1].wait_event("hang")["dump"]).read_text()
    assert "in wait_for_what_never_comes" in text
    assert "thread " in text
    # It counts: the second is one too many.
    for worker in workers:
        assert "hung" in worker.wait(state="failed", attempt=2)["reason"]


def test_who_writes_checkpoints_does_not_hang(gang: Make, tmp_path: Any) -> None:
    save = 'n=0; while :; do n=$((n+1)); mkdir -p "$TPU_FLEET_CHECKPOINT_DIR/$n"; sleep 0.5; done'
    timing = {**harness.TIMING, "fence": 0.3}
    (worker,) = gang(
        save, workers=1, hang_seconds=6, checkpoint_dir=str(tmp_path / "ck"), timing=timing
    )
    worker.up()
    worker.wait_running(attempt=1)
    time.sleep(13)  # twice as long as it may be silent
    assert worker.wait_running(attempt=1)
    assert not worker.events("hang")


def test_the_hook_leaves_a_hook_of_the_users_own_alone(gang: Make) -> None:
    (worker,) = gang(
        f"{sys.executable} -c 'import mine_was_run'; echo $?; exec sleep 1000",
        workers=1,
        hang_seconds=600,
    )
    own = worker.folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys; sys.modules['mine_was_run'] = sys\n")
    definition = harness.json.loads(worker.definition.read_text())
    worker.define(definition, {"PYTHONPATH": str(own)})
    worker.up()
    worker.wait_running(attempt=1)
    lines = harness.wait_until(lambda: worker.log().splitlines()[1:], "a line")
    assert lines[0].strip() == "0"


SAVE = """
cd "$TPU_FLEET_CHECKPOINT_DIR"
mkdir 1.orbax-checkpoint-tmp
touch 1.orbax-checkpoint-tmp/d
echo step 3, loss 0.25
while ! [ -e %s ]; do sleep 0.1; done
mv 1.orbax-checkpoint-tmp 1
exec sleep 1000
"""


def test_loss_and_checkpoints_are_told(gang: Make, tmp_path: Any) -> None:
    whole, timing = tmp_path / "whole", {**harness.TIMING, "fence": 0.3, "step": 0.2}
    checkpoints = str(tmp_path / "ck")
    (worker,) = gang(
        SAVE % whole,
        workers=1,
        checkpoint_dir=checkpoints,
        timing=timing,
        hang_seconds=600,  # it looks more often then
    )
    begun = time.time()
    worker.up()
    worker.wait_running(attempt=1)
    harness.wait_until(lambda: worker.status().get("loss") == 0.25, "the loss")
    # What is half there is none yet.
    harness.wait_until(lambda: worker.status().get("saved_at") == 0.0, "a look at the folder")
    whole.touch()
    harness.wait_until(lambda: worker.status().get("saved_at"), "the checkpoint")
    assert abs(worker.status()["saved_at"] - begun) < 60


NAN = """
cd "$TPU_FLEET_CHECKPOINT_DIR"
mkdir 100
touch 100/d
echo '{"step": 120, "loss": 2.5}' > "$TPU_FLEET_PROGRESS"
while ! [ -e %s ]; do sleep 0.1; done
echo '{"step": 124, "loss": NaN}' > "$TPU_FLEET_PROGRESS"
exec sleep 1000
"""


def test_a_loss_that_is_no_number_is_told_with_the_last_good_checkpoint(
    gang: Make, tmp_path: Any
) -> None:
    go = tmp_path / "go"
    timing = {**harness.TIMING, "fence": 0.3, "step": 0.2, "checkpoints": 0.5}
    checkpoints = str(tmp_path / "ck")
    (worker,) = gang(
        NAN % go, workers=1, checkpoint_dir=checkpoints, timing=timing, hang_seconds=600
    )
    worker.up()
    worker.wait_running(attempt=1)
    harness.wait_until(lambda: worker.status().get("loss") == 2.5, "the good loss")
    assert worker.status()["loss_trouble"] is None
    harness.wait_until(lambda: worker.status().get("saved_at"), "the checkpoint")
    go.touch()
    trouble = harness.wait_until(lambda: worker.status()["loss_trouble"], "the trouble")
    assert (trouble["what"], trouble["step"], trouble["saved_step"]) == ("nan", 124, 100)
    (told,) = harness.wait_until(lambda: worker.events("loss-trouble"), "the event")
    assert told["what"] == "loss is NaN since step 124; last checkpoint before it: step 100"


def test_where_the_time_of_an_attempt_goes(gang: Make) -> None:
    says = """echo '{"step": 5, "seconds": {"data": 0.5, "step": 9}}' > $TPU_FLEET_PROGRESS"""
    (worker,) = gang(f"sleep 1; {says}; sleep 2", workers=1)
    worker.up()
    first = worker.wait_event("first-step")
    assert first["first_step"] == 5
    parts = first["parts"]
    assert parts.keys() == {"wait", "prepare", "first_step"}  # no program of JAX
    assert parts["first_step"] >= 1
    worker.wait(state="succeeded")
    inside = worker.status()["inside"]
    assert inside["data"] == 0.5
    assert inside["init"] + inside["data"] >= 1
    assert inside["step"] >= 1
    ended = worker.events("attempt-ended")[0]
    assert (ended["inside"], worker.status()["history"][0]["start_parts"]) == (inside, parts)
    assert ended["at"] - worker.events("attempt-started")[0]["at"] == pytest.approx(
        sum(inside.values()), abs=2
    )
