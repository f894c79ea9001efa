"""Slices serve a queue: each submitted run is done once, whatever happens to the slices."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest

harness = sys.modules["queue_agent_harness"]
wait_until = harness.wait_until
FOR_EVER = "echo begun; exec sleep 1000"


def test_all_workers_run_it_once_with_its_code_and_keep_its_log(lab: Any) -> None:
    workers = lab.slice("pair", 2)
    says = 'cat said.txt; echo "worker $TPU_FLEET_WORKER"'
    lab.submit("one", says, files={"said.txt": "hello\n"})
    run = lab.wait("one", "done")
    assert (run.exit_code, run.claims, run.attempt, run.last) == (0, 1, 1, "pair")
    for number, worker in enumerate(workers):
        wait_until(lambda worker=worker: worker.runs() == [], "its definition is gone")
        assert f"hello\nworker {number}\n" in worker.log("one")
        assert worker.status("one")["state"] == "succeeded"


def test_what_is_not_signed_so_fails_alone_and_another_is_stopped_by_a_killed_agent(
    lab: Any,
) -> None:
    (worker,) = lab.slice("solo")
    lab.submit("forged", "echo never", by=lab.eve)
    lab.submit("as-other", "echo never", person="eve", by=lab.eve)
    lab.submit("sets", "echo never", secrets=("wandb",))
    lab.submit("bad", "echo oh; exit 3")
    assert lab.wait("bad", "failed").exit_code == 3
    assert "signature: it is not one of alice" in lab.wait("forged", "failed").reason
    assert "eve may not submit as" in lab.wait("as-other", "failed").reason
    assert "alice may not use wandb" in lab.wait("sets", "failed").reason
    assert [worker.log(name) for name in ("forged", "as-other", "sets")] == [""] * 3

    lab.submit("long", FOR_EVER)
    wait_until(lambda: "begun" in worker.log("long"), "its first line")
    worker.end()
    worker.up()
    lab.queue.stop("long", "alice")
    run = lab.wait("long", "stopped")
    assert (run.reason, run.claims) == ("stopped by alice", 1)
    # The agent that began in between did not disturb it.
    assert worker.log("long").count("begun") == 1
    wait_until(lambda: worker.runs() == [], "its definition is gone")


# In CI tests/unit/roles/run_queue has what is decided then.
@pytest.mark.night
def test_a_machine_that_is_switched_off_gives_its_run_to_another(lab: Any) -> None:
    (first,) = lab.slice("solo")
    lab.submit("moves", FOR_EVER)
    wait_until(lambda: "begun" in first.log("moves"), "its first line")
    (second,) = lab.slice("other")
    first.switch_off()
    wait_until(lambda: "begun" in second.log("moves"), "its first line elsewhere")
    run = lab.state("moves")
    assert (run.state, run.claims, run.failures, run.last) == ("running", 2, 0, "other")
    lab.queue.stop("moves", "alice")
    lab.wait("moves", "stopped")


@pytest.mark.night
def test_a_run_that_another_slice_has_ends_here(lab: Any) -> None:
    (worker,) = lab.slice("solo")
    lab.submit("taken", FOR_EVER)
    wait_until(lambda: "begun" in worker.log("taken"), "its first line")
    worker.process.send_signal(signal.SIGSTOP)
    assert lab.queue.take_away(lab.queue.read("taken"), "solo was deleted") is not None
    lab.queue.stop("taken", "alice")
    worker.process.send_signal(signal.SIGCONT)
    wait_until(lambda: worker.runs() == [], "its definition is gone")
    run = lab.state("taken")
    assert (run.state, run.reason) == ("stopped", "stopped by alice")
