"""The examples of sweeps, with a slice that is a thread: killed, they lose no trial and no line."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import site
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._host.unpack import unpack
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Outcome
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import DONE, FAILED, Owner
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Seen
from example_python import ROOT, example_python
from queue_lab import Lab

EXAMPLES = ROOT / "examples"
LIMIT = 600  # seconds, for a computer that does much else
SOLO = Serving("solo", "v4-8", 4)


@pytest.fixture(scope="session")
def python() -> str:
    """Return a Python with the examples' requirements."""
    return example_python()


def owner_of(lab: Lab) -> Owner:
    """Return a slice that the API has: from one that is gone its run would be taken."""
    nodes = f"{lab.cloud.url}v2/projects/{lab.cloud.project}/locations/us-central2-b/nodes"
    body = {"acceleratorType": SOLO.type, "runtimeVersion": "tpu-ubuntu2204-base"}
    made = requests.post(nodes, params={"nodeId": SOLO.name}, json=body, timeout=60)
    made.raise_for_status()
    (node,) = lab.nodes()
    assert node["state"] == "READY"
    return Owner(SOLO.name, "us-central2-b", SOLO.type, SOLO.chips, node["id"], "boot-1")


class Slice(threading.Thread):
    """Takes one run after the other from the queue, and starts its program in its code."""

    def __init__(self, lab: Lab, python: str) -> None:
        super().__init__()
        self._lab, self._python = lab, python
        self._queue, self._owner = lab.queue(), owner_of(lab)
        self.over = threading.Event()

    def run(self) -> None:
        """Serve the queue until it is over."""
        while not self.over.is_set():
            mine = self._queue.claim_next(SOLO, self._owner)
            if mine is None:
                time.sleep(0.2)
                continue
            code, progress = self._done(mine)
            run = replace(mine.run, step=progress.get("step"), loss=progress.get("loss"))
            state, reason = (FAILED, f"exit {code}") if code else (DONE, "")
            self._queue.finish(mine._replace(run=run), Outcome(state, reason, code, 1))

    def _done(self, mine: Seen) -> tuple[int, dict[str, Any]]:
        signed = objects.signed_of(self._lab.read(f"definitions/{mine.run.definition}"))
        definition = objects.definition_of(signed.signed)
        folder = self._lab.folder / "machine" / definition.name
        code = folder / "code"
        code.mkdir(parents=True)
        unpack(io.BytesIO(self._lab.read(f"code/{definition.code}.tar.gz")), code)
        environment = {
            **{**os.environ, "PYTHONPATH": "", "TPU_FLEET_RUN": definition.name},
            "TPU_FLEET_CHECKPOINT_DIR": str(folder / "checkpoints"),
            "TPU_FLEET_PROGRESS": str(folder / "progress.json"),
        }
        words = [self._python, *definition.command[1:]]
        with (folder / "log").open("wb") as log:
            done = subprocess.run(
                words, cwd=code, env=environment, stdout=log, stderr=log, check=False
            )
        path = folder / "progress.json"
        return done.returncode, json.loads(path.read_text()) if path.exists() else {}


@pytest.fixture
def solo(lab: Lab, python: str) -> Iterator[Slice]:
    """A slice that serves the queue of the lab, as soon as it is started."""
    lab.declare()
    one = Slice(lab, python)
    yield one
    one.over.set()
    if one.is_alive():
        one.join(LIMIT)


def search(lab: Lab, python: str, *words: str) -> subprocess.Popen[str]:
    """Start the search, as on a person's computer."""
    environment = lab.environment()
    environment["PYTHONPATH"] += f":{':'.join(site.getsitepackages())}"
    key = ("--ssh-key", str(lab.keys["alice"]), "--dir", str(lab.folder))
    return subprocess.Popen(
        [python, str(EXAMPLES / "sweeps/optuna/search.py"), *key, "--every", "1", *words],
        cwd=lab.code, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def states(lab: Lab) -> dict[str, str]:
    return {one.name: one.state for one in lab.queue().all().states}


def journal(lab: Lab) -> list[dict[str, Any]]:
    lines = (lab.folder / "search.journal").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_search_goes_on_after_its_program_was_killed_and_has_each_trial_once(
    lab: Lab, python: str, solo: Slice
) -> None:
    words = ("--trials", "3", "--at-once", "2", "--", "--steps=40", "--log-every=10")
    first = search(lab, python, *words)
    deadline = time.monotonic() + LIMIT
    while len(states(lab)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    first.kill()
    first.wait(LIMIT)
    assert states(lab) == {"search-0": "waiting", "search-1": "waiting"}
    solo.start()
    second = search(lab, python, *words)
    said, _none = second.communicate(timeout=LIMIT)
    assert second.returncode == 0, said
    assert states(lab) == dict.fromkeys(("search-0", "search-1", "search-2"), "done")
    told = {line["trial_id"]: line["values"] for line in journal(lab) if line["op_code"] == 6}
    losses = [
        json.loads((lab.folder / f"machine/search-{number}/progress.json").read_text())["loss"]
        for number in range(3)
    ]
    assert told == {number: [loss] for number, loss in enumerate(losses)}
    assert re.search(rf"best: search-\d {min(losses)} ", said), said


def test_a_trial_without_a_result_has_failed_and_another_search_takes_another_name(
    lab: Lab, python: str, solo: Slice
) -> None:
    solo.start()
    # No batch can be drawn: what a mistake in the program is to a search.
    one = search(lab, python, "--trials", "1", "--", "--steps=2", "--seed=-1")
    said, _none = one.communicate(timeout=LIMIT)
    assert (one.returncode, "search-0 failed: exit 1" in said) == (0, True), said
    assert [line["state"] for line in journal(lab) if line["op_code"] == 6] == [3]
    (lab.folder / "search.journal").unlink()
    again = search(lab, python, "--trials", "1")
    said, _none = again.communicate(timeout=LIMIT)
    assert again.returncode == 1
    assert "--name search-0: search-0 exists and is failed" in said


def test_a_trial_of_wandb_that_was_killed_has_each_line_once(python: str, tmp_path: Path) -> None:
    words = [python, str(EXAMPLES / "sweeps/wandb/trial.py"), "--hidden=32", "--learning_rate=0.01"]
    words += ["--steps=160", "--checkpoint-every=50", "--step-seconds=0.02"]
    environment = {
        **{**os.environ, "PYTHONPATH": "", "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path)},
        **{"TPU_FLEET_RUN": "grid-1", "TPU_FLEET_CHECKPOINT_DIR": str(tmp_path / "checkpoints")},
        **{"TPU_FLEET_PROGRESS": str(tmp_path / "progress.json"), "PYTHONUNBUFFERED": "1"},
    }
    log = (tmp_path / "log").open("ab")
    first = subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + LIMIT
    while "step 80 loss" not in (tmp_path / "log").read_text():
        assert time.monotonic() < deadline
        assert first.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(LIMIT)
    subprocess.run(words, env=environment, stdout=log, stderr=log, check=True, timeout=LIMIT)
    begun = re.findall(r"begins at step (\d+)", (tmp_path / "log").read_text())
    assert begun == ["0", "50"]
    logged = json.loads((tmp_path / "checkpoints/history.json").read_text())
    assert [step for step, _loss in logged] == list(range(20, 161, 20))
    assert json.loads((tmp_path / "progress.json").read_text())["step"] == 160
    parts = [path.name for path in (tmp_path / "wandb").glob("offline-run-*")]
    assert [name.rpartition("-grid-1")[1:] for name in parts] == [("-grid-1", "")] * 2


def test_agents_of_wandb_keep_their_trials_in_one_place(python: str, tmp_path: Path) -> None:
    """As wandb's agent starts it; there is no server of wandb here."""
    environment = {
        **{**os.environ, "PYTHONPATH": "", "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path)},
        **{"TPU_FLEET_RUN": "agent-1", "WANDB_RUN_ID": "x7", "WANDB_SWEEP_ID": "s"},
    }
    words = [f"--checkpoints={tmp_path}/all", "--hidden=32", "--learning_rate=0.01", "--steps=5"]
    program = str(EXAMPLES / "sweeps/wandb/trial.py")
    subprocess.run([python, program, *words], env=environment, check=True, timeout=LIMIT)
    assert json.loads((tmp_path / "all/x7/final.json").read_text())["steps"] == 5
    assert sys.executable != python
