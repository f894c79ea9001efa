"""The JAX example under two run agents: killed and rebooted, it ends as if nothing had been."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
from example_python import example_python

harness = sys.modules["run_agent_harness"]
EXAMPLE = harness.ROOT / "examples/jax"
OPTIONS = "--steps 240 --checkpoint-every 20 --step-seconds 0.05"


@pytest.fixture(scope="session")
def python() -> str:
    """Return a Python with the example's requirements."""
    return example_python()


def final(worker: Any) -> dict[str, Any]:
    return dict(json.loads((worker.folder / "checkpoints/final.json").read_text()))


def losses(worker: Any) -> dict[str, str]:
    lines = [line.split() for line in worker.log().splitlines() if " loss " in line]
    return {words[3]: words[5] for words in lines if words[0] == "worker"}


# JAX compiles for most of a minute. In CI tests/machines/e2e kills and reboots the same program,
# and compares its parameters.
@pytest.mark.night
def test_the_final_parameters_do_not_tell_what_happened(
    gang: Callable[..., list[Any]], python: str
) -> None:
    # A folder on each worker's own disk, as relative to its working folder.
    command = f"exec {python} {EXAMPLE}/train.py {OPTIONS} --checkpoint-dir checkpoints"
    timing = {"tick": 0.2, "lost": 30.0, "restart_delay": 0.1}
    workers = gang(command, timing=timing)
    for worker in workers:
        worker.up()
    for worker in workers:
        worker.wait(state="succeeded", attempt=1)
    undisturbed = final(workers[0])
    assert undisturbed["process_count"] == 2
    assert final(workers[1]) == undisturbed
    assert losses(workers[0]) == losses(workers[1])
    assert len(losses(workers[0])) >= 12

    for worker in workers:
        worker.stop()
        for name in ("checkpoints", "state", "log", "r"):
            shutil.rmtree(worker.folder / name)
        worker.up()
    pids = [worker.wait_running(attempt=1) for worker in workers]
    steps = workers[0].folder / "checkpoints/steps"
    harness.wait_until((steps / "40/commit_success.txt").exists, "a checkpoint")
    os.kill(pids[1], signal.SIGKILL)
    workers[0].wait_running(attempt=2)
    harness.wait_until(lambda: "attempt 2 begins at step" in workers[0].log(), "a resume")

    harness.wait_until((steps / "120/commit_success.txt").exists, "a later one")
    workers[0].reboot()
    workers[0].up()
    for worker in workers:
        worker.wait(state="succeeded", attempt=3)
        assert "attempt 2 begins at step 0\n" not in worker.log().replace("\r", "")
        assert re.search(r"attempt 3 begins at step [12]\d\d", worker.log())
        assert final(worker) == undisturbed
