"""The examples of sweeps, processes for slices: killed, they lose no trial and double none."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_python import ROOT, example_python
from ports import free_port

EXAMPLES = ROOT / "examples/sweeps"
LIMIT = 600  # seconds, for a computer that does much else
TRAINING = ("--steps=120", "--checkpoint-every=20", "--step-seconds=0.05")


@pytest.fixture(scope="session")
def python() -> str:
    """Return a Python with the examples' requirements."""
    return example_python()


class Slice:
    """A slice whose workers are processes of this computer."""

    def __init__(self, name: str, folder: Path, workers: int = 1) -> None:
        self.name, self.workers = name, workers
        self._folder, self._shared = folder, folder / "shared"
        self._processes: list[subprocess.Popen[bytes]] = []

    def begin(self, *words: str) -> None:
        """Start the program on all workers."""
        port = free_port()
        for worker in range(self.workers):
            environment = {
                **os.environ,
                "PYTHONPATH": "",
                "PYTHONUNBUFFERED": "1",
                "TPU_FLEET_RUN": "demo",
                "TPU_FLEET_SLICE": self.name,
                "TPU_FLEET_WORKER": str(worker),
                "TPU_FLEET_WORKERS": str(self.workers),
                "TPU_FLEET_COORDINATOR": f"127.0.0.1:{port}",
                "TPU_FLEET_CHECKPOINT_DIR": str(self._shared),
            }
            with (self._folder / f"{self.name}-{worker}.log").open("ab") as log:
                self._processes.append(
                    subprocess.Popen(
                        words,
                        cwd=self._folder,
                        env=environment,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )

    def end(self, number: int = signal.SIGKILL) -> list[int]:
        """Signal all that runs on the slice, as at the end of a machine; return the exit codes."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, number)
        codes = [process.wait(LIMIT) for process in self._processes]
        self._processes = []
        return codes

    def wait(self) -> None:
        """Wait until all workers have ended, each with success."""
        assert [process.wait(LIMIT) for process in self._processes] == [0] * self.workers, self.log

    @property
    def log(self) -> str:
        """What the first worker has printed."""
        return (self._folder / f"{self.name}-0.log").read_text().replace("\r", "")


@pytest.fixture
def slices(tmp_path: Path) -> Iterator[Callable[..., Slice]]:
    """Make slices, and leave none of their processes behind."""
    made: list[Slice] = []

    def make(name: str, workers: int = 1) -> Slice:
        made.append(Slice(name, tmp_path, workers))
        return made[-1]

    yield make
    for one in made:
        one.end()


def wait_for(what: str, one: Slice, pattern: str) -> re.Match[str]:
    """Wait until a slice has printed something."""
    deadline = time.monotonic() + LIMIT
    while not (found := re.search(pattern, one.log, re.M | re.S)):
        assert time.monotonic() < deadline, f"{what}: not within {LIMIT} s\n{one.log}"
        time.sleep(0.1)
    return found


def journal(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "study.journal").read_text().splitlines()]


def test_a_study_has_each_trial_once(
    python: str, slices: Callable[..., Slice], tmp_path: Path
) -> None:
    solo, pair = slices("solo"), slices("pair", workers=2)
    trials = 5
    words = (python, str(EXAMPLES / "optuna/sweep.py"), f"--trials={trials}", *TRAINING)
    # Each alone, so that there is something left to do for both. One is asked to stop and saves
    # where it is; the other is killed in the middle of a trial, behind its first checkpoint.
    solo.begin(*words)
    wait_for("a trial", solo, "step 40 loss")
    assert solo.end(signal.SIGTERM) == [143]
    saved = re.findall(r"saved step (\d+)", solo.log)[-1]
    pair.begin(*words)
    number = wait_for("a trial", pair, r"^pair: trial (\d+) with .* step 40 loss")[1]
    assert pair.end() == [-signal.SIGKILL] * 2
    for one in (solo, pair):
        one.begin(*words)
    wait_for("the resume", solo, rf"begins at step {saved}$")
    again = wait_for(
        "the resume", pair, rf"(^pair: trial {number} with [^\n]*).*\1.*?begins at step (\d+)"
    )
    assert int(again[2]) >= 20
    for one in (solo, pair):
        one.wait()

    log = journal(tmp_path / "shared")
    owners = {
        (line["trial_id"], line["user_attr"]["slice"]) for line in log if line["op_code"] == 8
    }
    assert sorted(trial for trial, _slice in owners) == list(range(trials))
    told = [(line["trial_id"], line["state"]) for line in log if line["op_code"] == 6]
    assert sorted(told) == [(trial, 1) for trial in range(trials)], "each complete, and once"
    finals = sorted((tmp_path / "shared").glob("trial-*/final.json"))
    assert len(finals) == trials
    assert {json.loads(path.read_text())["steps"] for path in finals} == {120}
    best = json.loads(re.findall(r"best so far (.*)", pair.log)[-1])
    assert set(best) == {"trial", "loss", "learning_rate", "hidden"}


def test_what_a_slice_left_for_good_is_taken_over_once(
    python: str, slices: Callable[..., Slice], tmp_path: Path
) -> None:
    gone = slices("gone")
    words = (python, str(EXAMPLES / "optuna/sweep.py"), "--trials=1", *TRAINING)
    gone.begin(*words)
    wait_for("a checkpoint", gone, "step 40 loss")
    gone.end()
    heirs = [slices("one"), slices("other")]
    for heir in heirs:
        heir.begin(*words, "--take-over", "gone")
    for heir in heirs:
        heir.wait()
    begun = [step for heir in heirs for step in re.findall(r"begins at step (\d+)", heir.log)]
    assert len(begun) == 1
    assert int(begun[0]) >= 20
    log = journal(tmp_path / "shared")
    assert [line["state"] for line in log if line["op_code"] == 6] == [1]


def test_an_exception_ends_the_attempt_and_the_third_the_trial(
    python: str, slices: Callable[..., Slice], tmp_path: Path
) -> None:
    one = slices("solo")
    # No batch can be drawn: what a mistake in the program is to a sweep.
    words = (python, str(EXAMPLES / "optuna/sweep.py"), "--trials=1", "--steps=2", "--seed=-1")
    for attempt in (1, 2, 3):
        one.begin(*words)
        wait_for("its end", one, rf"(Traceback.*){{{attempt}}}")
        assert one.end(0) == [1]
    one.begin(*words)
    one.wait()
    told = [line["state"] for line in journal(tmp_path / "shared") if line["op_code"] == 6]
    assert told == [3], "failed"
    errors = (tmp_path / "shared/trial-000/errors.txt").read_text()
    assert errors.count("=== behind step 0\n") == 3


def test_a_grid_without_wandbs_server_has_each_point_once(
    python: str, slices: Callable[..., Slice], tmp_path: Path
) -> None:
    sweep = yaml.safe_load((EXAMPLES / "wandb/sweep.yaml").read_text())
    sweep["parameters"]["learning_rate"]["values"] = [0.001, 0.01]
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    words = (python, str(EXAMPLES / "wandb/offline.py"), "sweep.yaml", *TRAINING)
    first, second = slices("first"), slices("second")
    second.begin(*words)
    wait_for("a trial", second, r"^second: \S+\n.* step 40 loss")
    assert second.end(signal.SIGTERM) == [143]
    first.begin(*words)
    point = wait_for("a trial", first, r"^first: (\S+)\n.* step 40 loss")[1]
    assert first.end() == [-signal.SIGKILL]
    for one in (first, second):
        one.begin(*words)
    again = wait_for(
        "the resume", first, rf"(^first: {re.escape(point)}\n).*\1.*?begins at step (\d+)"
    )
    assert int(again[2]) >= 20
    for one in (first, second):
        one.wait()

    folders = sorted((tmp_path / "shared").iterdir())
    assert len(folders) == 4
    for folder in folders:
        assert (folder / "end").read_text() == "0\n"
        assert (folder / "claim").read_text() in ("first", "second")
        logged = (folder / "history.jsonl").read_text().splitlines()
        assert [json.loads(line)[0] for line in logged] == list(range(20, 121, 20))
    ended = [
        json.loads(line)
        for one in (first, second)
        for line in one.log.splitlines()
        if line.startswith('{"slice"')
    ]
    assert Counter(json.dumps(line["point"]) for line in ended).most_common(1)[0][1] == 1
    assert len(ended) == 4
    parts = [path.name for path in (tmp_path / "shared").glob("*/wandb/offline-run-*")]
    assert len(parts) > 4, "that one which was interrupted has another"
    assert len({name.split("-", 3)[3] for name in parts}) == 4, "with the same id"
