"""Slices serve a queue: each submitted run is done once, whatever happens to the slices."""

from __future__ import annotations

import signal
import sys
from typing import Any

harness = sys.modules["queue_agent_harness"]
wait_until = harness.wait_until
FOR_EVER = "echo begun; exec sleep 1000"


def test_all_workers_run_it_once_with_its_code_and_keep_its_log(lab: Any) -> None:
    workers = lab.slice("pair", 2)
    lab.submit(
        "one", 'cat said.txt; echo "worker $TPU_FLEET_WORKER"', files={"said.txt": "hello\n"}
    )
    run = lab.wait("one", "done")
    assert (run.exit_code, run.claims, run.attempt, run.last) == (0, 1, 1, "pair")
    for number, worker in enumerate(workers):
        wait_until(lambda worker=worker: worker.runs() == [], "its definition is gone")
        assert f"hello\nworker {number}\n" in worker.log("one")
        assert worker.status("one")["state"] == "succeeded"


def test_what_a_person_has_not_signed_fails_and_costs_only_itself(lab: Any) -> None:
    lab.slice("solo")
    lab.submit("forged", "echo never", by=lab.eve)
    lab.submit("as-root", "echo never", person="eve", by=lab.eve)
    lab.submit("sets", "echo never", secrets=("wandb",))
    lab.submit("one", "echo fine")
    lab.wait("one", "done")
    assert "signature: it is not one of alice" in lab.wait("forged", "failed").reason
    assert "eve may not submit as" in lab.wait("as-root", "failed").reason
    assert "alice may not use wandb" in lab.wait("sets", "failed").reason
    assert not any(worker.log("forged") for worker in lab.workers)


def test_a_run_that_fails_or_is_to_stop_ends_so(lab: Any) -> None:
    (worker,) = lab.slice("solo")
    lab.submit("one", "echo oh; exit 3")
    assert lab.wait("one", "failed").exit_code == 3
    lab.submit("two", FOR_EVER)
    wait_until(lambda: "begun" in worker.log("two"), "its first line")
    lab.queue.stop("two", "alice")
    assert lab.wait("two", "stopped").reason == "stopped by alice"
    wait_until(lambda: worker.runs() == [], "its definition is gone")


def test_a_queue_agent_that_is_killed_goes_on_with_its_run(lab: Any) -> None:
    (worker,) = lab.slice("solo")
    lab.submit("one", "echo begun; while [ ! -e over ]; do sleep 0.1; done", files={"x": "y"})
    wait_until(lambda: "begun" in worker.log("one"), "its first line")
    worker.end()
    worker.up()
    (folder,) = (worker.root / "var/lib/tpu-fleet/submitted/one").iterdir()
    (folder / "over").touch()
    assert lab.wait("one", "done").claims == 1
    assert worker.status("one")["attempt"] == 1
    assert worker.log("one").count("begun") == 1


def test_a_machine_that_is_switched_off_gives_its_run_to_another(lab: Any) -> None:
    (first,) = lab.slice("solo")
    lab.submit("one", FOR_EVER)
    wait_until(lambda: "begun" in first.log("one"), "its first line")
    (second,) = lab.slice("other")
    first.switch_off()
    run = wait_until(
        lambda: lab.state("one") if lab.state("one").last == "other" else None, "another has it"
    )
    assert (run.state, run.claims, run.failures) == ("running", 2, 0)
    wait_until(lambda: "begun" in second.log("one"), "its first line")


def test_a_run_that_another_slice_has_ends_here(lab: Any) -> None:
    (worker,) = lab.slice("solo")
    lab.submit("one", FOR_EVER)
    wait_until(lambda: "begun" in worker.log("one"), "its first line")
    worker.process.send_signal(signal.SIGSTOP)
    assert lab.queue.take_away(lab.queue.read("one"), "solo was deleted") is not None
    lab.queue.stop("one", "alice")
    worker.process.send_signal(signal.SIGCONT)
    wait_until(lambda: worker.runs() == [], "its definition is gone")
    assert (lab.state("one").state, lab.state("one").reason) == ("stopped", "stopped by alice")
