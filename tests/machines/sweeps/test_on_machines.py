"""The examples' own fleet files: a sweep under the run agent, through a reboot and a kill.

`.venv/bin/pytest tests/machines/sweeps`. The machines have kernels of their own, for the share.
What sweeps do as mere processes is in tests/cloud/sweeps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from fleet import NOTHING, ROOT, Fleet, wait_until

STEPS, INTERVAL = 300, 50
# Shorter than in the example, and slow enough to be met in the middle.
SHORT = f"--steps={STEPS} --checkpoint-every={INTERVAL} --step-seconds=0.1"
TRIALS = 4
LIMIT = 1500  # seconds, for what takes a few minutes when nothing else is done here


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A cloud in which there is nothing."""
    fleet = Fleet(tmp_path_factory.mktemp("sweeps"), NOTHING)
    fleet.up()
    try:
        yield fleet
    finally:
        fleet.down()


def example(engine: str, words: dict[str, str]) -> dict[str, Any]:
    """Return an example's fleet file with machines as NFS needs them here, and a shorter sweep."""
    declared: dict[str, Any] = yaml.safe_load(
        (ROOT / "examples/sweeps" / engine / "fleet.yml").read_text()
    )
    for entry in declared["fleet_slices"]:
        entry["metadata"] = {"local-cloud-kernel": "own"}
        if entry["name"] == "cheap" and entry["accelerator_type"] == "v4-32":
            # Two workers in place of four: all of them have the cores of this computer.
            entry["accelerator_type"] = "v4-16"
    [run] = declared["fleet_runs"]
    for old, new in words.items():
        assert old in run["command"]
        run["command"] = run["command"].replace(old, new)
    return {**NOTHING, **declared}


def step_of(fleet: Fleet, host: str, run: str) -> int:
    """Return how far the trial is that is under way."""
    *_before, trial = re.split(r"begins at step", fleet.log(host, run))
    found = re.findall(r"step (\d+) loss", trial)
    return int(found[-1]) if found else 0


def disturb(fleet: Fleet, first: str, run: str) -> None:
    """Reboot one slice, and kill the program of the other, each in the middle of a trial."""
    middle = range(INTERVAL + 1, STEPS - INTERVAL)
    wait_until("cheap is in the middle", lambda: step_of(fleet, first, run) in middle, LIMIT)
    fleet.run("tpu-fleet", "cloud", "reboot", "cheap")
    wait_until("steady is in the middle", lambda: step_of(fleet, "steady", run) in middle, LIMIT)
    fleet.ssh("steady", f"sudo kill -9 {fleet.status('steady', run)['pid']}")
    for host in ("steady", first):
        wait_until(
            f"{run} succeeds on {host}",
            lambda host=host: fleet.status(host, run).get("state") == "succeeded",
            LIMIT,
        )
        assert fleet.status(host, run)["attempt"] >= 2


def resumed(log: str, begin: str) -> list[int]:
    """Return from which steps trials went on that had begun before."""
    begun: set[str] = set()
    steps: list[int] = []
    marks = list(re.finditer(begin, log, re.M))
    for mark, after in zip(marks, [*(m.start() for m in marks[1:]), len(log)], strict=True):
        if mark[1] in begun:
            found = re.findall(r"begins at step (\d+)", log[mark.end() : after])
            steps += [int(step) for step in found]
        begun.add(mark[1])
    return steps


def test_optuna(cloud: Fleet) -> None:
    shorter = {"--trials 24": f"--trials {TRIALS}", "--steps 1000": SHORT}
    with cloud.holding(example("optuna", shorter)):
        disturb(cloud, "cheap-w0", "search")
        for host, name in (("cheap-w0", "cheap"), ("steady", "steady")):
            steps = resumed(cloud.log(host, "search"), rf"^{name}: trial (\d+) with ")
            assert steps, host
            assert min(steps) >= INTERVAL, host
        # As docs/sweeps.md looks at it.
        study = "--study-name digits --storage /sweeps/search/study.journal"
        show = f"/opt/venvs/sweeps/bin/optuna trials {study} -f json 2>/dev/null"
        trials = json.loads(cloud.ssh("steady", show))
        assert [one["number"] for one in trials] == list(range(TRIALS))
        assert {one["state"] for one in trials} == {"COMPLETE"}
        assert {one["user_attrs"]["slice"] for one in trials} == {"cheap", "steady"}
        finals = cloud.ssh("steady", "cat /sweeps/search/trial-*/final.json")
        assert re.findall(r'"steps": (\d+)', finals) == [str(STEPS)] * TRIALS


def test_wandb_without_its_server(cloud: Fleet) -> None:
    with cloud.holding(example("wandb", {"--steps=1000": SHORT})):
        disturb(cloud, "cheap", "grid")
        for name in ("cheap", "steady"):
            log = cloud.log(name, "grid")
            steps = resumed(log, rf"^{name}: (hidden-\S+)")
            assert steps, log
            assert min(steps) >= INTERVAL, name
        ends = cloud.ssh("steady", "cat /sweeps/grid/*/end").split()
        assert ends == ["0"] * 6
        claims = cloud.ssh("steady", "for it in /sweeps/grid/*/claim; do cat $it; echo; done")
        assert set(claims.split()) == {"cheap", "steady"}
        finals = cloud.ssh("steady", "cat /sweeps/grid/*/final.json")
        assert re.findall(r'"steps": (\d+)', finals) == [str(STEPS)] * 6
