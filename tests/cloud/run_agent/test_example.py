"""The JAX example under two run agents: killed and rebooted, it ends as if nothing had been."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
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


# Each process says what all have, and how a process that has no certificate fares.
TOGETHER = """
import os, subprocess, sys, time
import jax
jax.config.update("jax_platforms", "cpu")
me, all_ = int(os.environ["TPU_FLEET_WORKER"]), int(os.environ["TPU_FLEET_WORKERS"])
where = os.environ["TPU_FLEET_COORDINATOR"]
jax.distributed.initialize(where, all_, me, initialization_timeout=60)
from jax.experimental import multihost_utils
print("together", multihost_utils.process_allgather(jax.numpy.array(me)).tolist(), flush=True)
if me == 0:
    mine = "JAX_MTLS", "JAX_DISTRIBUTED"
    bare = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    code = f"import jax; jax.distributed.initialize({where!r}, {all_}, 1, initialization_timeout=4)"
    done = subprocess.run([sys.executable, "-c", code], env=bare, capture_output=True, timeout=90)
    print("a stranger", "came in" if done.returncode == 0 else "is refused", flush=True)
multihost_utils.sync_global_devices("end")
"""


@pytest.mark.night
def test_processes_of_jax_know_each_other_by_the_key_of_the_gang(
    gang: Callable[..., list[Any]], python: str, tmp_path: Path
) -> None:
    program = tmp_path / "together.py"
    program.write_text(TOGETHER)
    workers = gang(f"exec {python} {program}", mtls=True)
    for worker in workers:
        worker.up()
    for worker in workers:
        worker.wait(state="succeeded", attempt=1)
        assert "together [0, 1]" in worker.log()
    assert "a stranger is refused" in workers[0].log()
