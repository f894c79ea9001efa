"""Programs of Hydra whose multirun is submitted to a bucket of the local cloud.

CI has tests/unit/src/queue/test_jobs.py instead: Hydra takes an environment of its own.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Definition
from example_python import hydra_packages

pytestmark = pytest.mark.night
PROGRAM = """
import hydra
from hydra.core.hydra_config import HydraConfig

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config):
    job = HydraConfig.get().job
    print("RAN", config.lr, config.model.width, job.num, job.override_dirname)
    return config.lr

main()
"""
# Also what only this computer knows of: on a machine there is no such launcher.
CONFIG = """
defaults: [_self_, {override hydra/launcher: tpu_fleet}]
lr: 1
model: {width: 8}
hydra: {launcher: {where: [v4-8], priority: 5, at_once: 1, options: {hang_after: 30m}}}
"""
SWEEPER = """
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

class Sweeper(BasicSweeper):
    def sweep(self, arguments):
        results = super().sweep(arguments)
        return [float(job.return_value) for batch in results for job in batch]
"""


@pytest.fixture(scope="module")
def packages() -> Path:
    return hydra_packages()


@pytest.fixture
def program(lab: Any) -> Path:
    """A program of Hydra in the lab's folder of code."""
    lab.declare()
    (lab.code / "conf").mkdir()
    (lab.code / "conf" / "config.yaml").write_text(CONFIG)
    path: Path = lab.code / "train_net.py"
    path.write_text(PROGRAM)
    return path


def start(lab: Any, path: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Start the program as a person does."""
    environment = {**lab.environment(), "PYTHONPATH": f"{lab.environment()['PYTHONPATH']}:{path}"}
    key = f"hydra.launcher.key={lab.keys['alice']}"
    return subprocess.run(
        [sys.executable, "train_net.py", "--multirun", key, *words],
        cwd=lab.code, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def definitions(lab: Any) -> list[Definition]:
    signed = [objects.signed_of(lab.read(name)) for name in lab.objects("definitions/")]
    found = [objects.definition_of(one.signed) for one in signed]
    return sorted(found, key=lambda one: one.name)


def unpacked(lab: Any, definition: Definition, folder: Path) -> Path:
    """Return the code of a run as a machine has it."""
    data = lab.read(f"code/{definition.code}.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_each_job_is_a_run_and_runs_there_as_it_would_here(
    lab: Any, program: Path, packages: Path, tmp_path: Path
) -> None:
    done = start(lab, str(packages), "lr=1,2", "+model.note='a, b'", "hydra.job.name=train_net")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "train-net-2 : lr=2" in done.stdout
    found = definitions(lab)
    assert [one.name for one in found] == ["train-net-1", "train-net-2"]
    assert {(one.priority, one.types, one.person) for one in found} == {(5, ("v4-8",), "alice")}
    assert [one.options for one in found] == [
        {"hang_after": "30m", "results": [f"outputs/{number}"]} for number in range(2)
    ]
    assert {(one.sweep, one.at_once, one.submitted_at) for one in found} == {
        ("train-net", 1, found[0].submitted_at)
    }
    assert [one.parameters["lr"] for one in found] == ["1", "2"]
    assert found[0].code == found[1].code
    # What hydra writes here is no part of the code.
    code = unpacked(lab, found[1], tmp_path / "machine")
    assert {path.name for path in code.glob("[!.]*")} == {"conf", "train.py", "train_net.py"}
    ran = subprocess.run(
        [sys.executable, *found[1].command[1:]],
        cwd=code, env={**os.environ, "PYTHONPATH": str(packages)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert found[1].command[0] == "python"
    assert ran.stdout.split() == ["RAN", "2", "8", "1", "+model.note='a,", "b',lr=2"]
    assert (code / "outputs/1/.hydra/config.yaml").is_file()


def test_a_later_multirun_has_other_names_and_a_batch_the_next_numbers(
    lab: Any, program: Path, packages: Path
) -> None:
    assert start(lab, str(packages), "lr=1").returncode == 0
    done = start(lab, str(packages), "lr=1,2,3", "hydra.sweeper.max_batch_size=2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [one.name for one in definitions(lab)] == [
        "train-net-1", "train-net2-1", "train-net2-2", "train-net2-3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("lr=1,2", "hydra.launcher.where=[v4-9]"), "--on v4-9: "),
        (("lr=1,2", "depth=3"), "Could not override 'depth'"),
        (("lr=1,2", "hydra.launcher.prio=3"), "Key 'prio'"),
        (("lr=1,2", "+hydra.launcher.options.tpu=3"), "tpu = 3: is not a known key"),
    ],
)
def test_a_mistake_is_named_before_anything_is_submitted(
    lab: Any, program: Path, packages: Path, words: tuple[str, ...], said: str
) -> None:
    done = start(lab, str(packages), *words)
    assert (done.returncode, said in done.stdout + done.stderr) == (1, True), done.stderr
    assert lab.objects("runs/") == []


@pytest.mark.parametrize(
    ("name", "is_submitted"), [("hydra_optuna_sweeper", False), ("own_sweeper", True)]
)
def test_a_sweeper_that_learns_from_results_is_refused(
    lab: Any, program: Path, packages: Path, name: str, is_submitted: bool
) -> None:
    """One that is not known here submits its first jobs, and then sees no number."""
    plugins = lab.folder / "plugins" / "hydra_plugins"
    plugins.mkdir(parents=True)
    (plugins / f"{name}.py").write_text(SWEEPER)
    target = f"hydra.sweeper._target_=hydra_plugins.{name}.Sweeper"
    done = start(lab, f"{packages}:{plugins.parent}", "lr=1,2", target)
    assert done.returncode == 1
    assert "A sweeper that learns from results cannot use it" in done.stderr
    assert bool(lab.objects("runs/")) == is_submitted
