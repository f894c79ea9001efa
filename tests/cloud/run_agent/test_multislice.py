"""Two slices that are one gang: one attempt for all, and a place in the queue of each."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
UNTIL_TOLD = "while [ ! -e over ]; do sleep 0.1; done"
SHOW = f"env | grep -E '^(MEGASCALE|TPU_FLEET_WORKER)' | sort; {UNTIL_TOLD}"
TIMING = {**harness.TIMING, "lost": 15.0, "fence": 0.3}


def several(hosts: tuple[str, ...] = harness.HOSTS) -> dict[str, Any]:
    """Return what the role writes for a run over slices of one worker each."""
    return {
        "slices": [[host] for host in hosts],
        "multislice": {"num_slices": len(hosts)},
        "megascale_port": 25001,
        "timing": TIMING,
    }


def test_all_slices_run_the_same_attempt(gang: Make) -> None:
    workers = gang(SHOW, **several())
    for worker in workers:
        worker.up()
    for worker in workers:
        worker.wait_running(attempt=1)
    for index, worker in enumerate(workers):
        log = worker.log
        harness.wait_until(lambda log=log: "TPU_FLEET_WORKERS" in log(), "the environment")
        found = log()
        for line in (
            "MEGASCALE_COORDINATOR_ADDRESS=127.0.0.2:25001",
            "MEGASCALE_NUM_SLICES=2",
            "MEGASCALE_PORT=25001",
            f"MEGASCALE_SLICE_ID={index}",
            f"TPU_FLEET_WORKER={index}",
            "TPU_FLEET_WORKERS=2",
        ):
            assert line in found
    # A worker that is lost in one slice brings all slices to the next attempt.
    workers[1].reboot()
    workers[1].up()
    for worker in workers:
        worker.wait_running(attempt=2)
    for worker in workers:
        (worker.folder / "over").touch()
    for worker in workers:
        worker.wait(state="succeeded", attempt=2)


def test_a_slice_that_was_made_again_is_taken_up_under_its_new_address(gang: Make) -> None:
    first, second = workers = gang(SHOW, **several())
    for worker in workers:
        worker.up()
    for worker in workers:
        worker.wait_running(attempt=1)
    second.reboot()
    first.wait(state="restarting")
    moved = ("127.0.0.2", "127.0.0.4")
    for worker in workers:
        definition = {**worker.given, **several(moved), "hosts": list(moved)}
        worker.define(definition)
    first.send(signal.SIGHUP)
    second.up()
    for worker in workers:
        worker.wait_running(attempt=2)
    assert not first.events("definition-changed")


def test_two_runs_over_the_same_slices_do_not_wait_for_each_other_for_ever(
    gang: Make, tmp_path: Path
) -> None:
    def run(name: str, position: int) -> list[Any]:
        made = gang(SHOW, folder=name, run=name, position=position, needs_tpu="true", **several())
        mine = made[-2:]
        for worker in mine:
            worker.define(
                {**worker.given, "paths": {"queue": str(tmp_path / f"queue{worker.index}")}}
            )
        return mine

    one, two = run("one", 0), run("two", 1)
    # Each is first on another slice.
    one[0].up()
    two[1].up()
    harness.wait_until(lambda: (tmp_path / "queue0/one.json").exists(), "a ticket on the first")
    two[0].up()
    one[1].up()
    for worker in one:
        worker.wait_running(attempt=1)

    def behind() -> Any:
        return (two[0].status().get("queue") or {}).get("behind")

    # Not at the first look, if the queue's lock was taken then.
    harness.wait_until(lambda: behind() == "one", "a place behind the first")
    assert two[0].status()["state"] == "pending"
    for worker in one:
        (worker.folder / "over").touch()
    for worker in two:
        worker.wait_running(attempt=1)
