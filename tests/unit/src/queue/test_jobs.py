"""The command of a job of Hydra: the same program, with the job's overrides, as one run."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Definition

from tpu_fleet.queue import submit as submitting
from tpu_fleet.queue.jobs import JobError, command_of, flags_of, parameters_of, program_of
from tpu_fleet.queue.submit import Submission, submit_numbered
from tpu_fleet.queue.sweep import SubmitError

HERE, PREFIX = Path("/home/alice/code"), Path("/home/alice/venv")


@pytest.mark.parametrize(
    ("argv0", "module", "words"),
    [
        ("train.py", None, ["python", "train.py"]),
        ("./tools/train.py", None, ["python", "tools/train.py"]),
        ("/home/alice/code/train.py", None, ["python", "train.py"]),
        ("/home/alice/code/lab/train.py", "lab.train", ["python", "-m", "lab.train"]),
        ("/home/alice/code/lab/__main__.py", "lab.__main__", ["python", "-m", "lab"]),
        ("/home/alice/venv/bin/train", None, ["train"]),
    ],
)
def test_a_program_is_started_as_it_was_here(
    argv0: str, module: str | None, words: list[str]
) -> None:
    assert program_of(argv0, module, HERE, PREFIX) == words


@pytest.mark.parametrize("argv0", ["/home/alice/other/train.py", "../train.py", "/usr/bin/train"])
def test_a_program_that_is_not_in_the_code_is_refused(argv0: str) -> None:
    with pytest.raises(JobError, match="is not in /home/alice/code"):
        program_of(argv0, None, HERE, PREFIX)


def test_the_configuration_is_the_same() -> None:
    given = {"config-path": "conf", "config-name": "big", "config-dir": f"{HERE}/more"}
    assert flags_of(given, HERE) == [
        *("--config-path", "conf", "--config-name", "big", "--config-dir", "more")
    ]
    assert flags_of(dict.fromkeys(given), HERE) == []
    for wrong in ({"config-dir": "/etc/conf"}, {"config-path": f"{HERE}/conf"}):
        with pytest.raises(JobError, match="--config-"):
            flags_of(wrong, HERE)


def test_what_launches_here_does_not_launch_there() -> None:
    of_hydra = [
        *("hydra/launcher=tpu_fleet", "hydra.launcher.priority=3", "+hydra.launcher.options.a=1"),
        *("hydra/sweeper=basic", "hydra.sweep.dir=x", "hydra.mode=MULTIRUN", "hydra.run.dir=y"),
        *("hydra.verbose=true", "hydra/job_logging=none", "hydra.job.name=lr", "hydra.job.num=7"),
    ]
    assert command_of(["python", "train.py"], of_hydra, ["lr=1", "+note='a, b'", "~x"], 4) == [
        *("python", "train.py", "hydra.verbose=true", "hydra/job_logging=none"),
        *("hydra.job.name=lr", "lr=1", "+note='a, b'", "~x"),
        *("hydra.run.dir=outputs/4", "hydra.job.num=4", "hydra.job.id=4"),
        *("hydra.mode=RUN", "~hydra/launcher"),
    ]


def test_the_values_of_a_job_have_names() -> None:
    job = ["lr=1e-3", "+model.width=8", "~old", "hydra.job.name=x", "note='a=b'", "1=2"]
    assert parameters_of(job) == {
        "lr": "1e-3", "model_width": "8", "hydra_job_name": "x", "note": "'a=b'",
    }  # fmt: skip
    assert parameters_of([f"text={'x' * 2000}"]) == {}


def test_runs_are_numbered_on_as_arms_of_one_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Definition] = []

    class Fake:
        """Keeps what would be submitted."""

        fleet = SimpleNamespace(opened=lambda: None)

        def prepared(self, wanted: Any, _queue: Any) -> Submission:
            found = [
                Definition(one.name, "alice", "alice", tuple(one.command), "", n)
                for n, one in enumerate(wanted)
            ]
            return Submission(found, [])

        def send(self, submission: Submission, _queue: Any) -> None:
            sent.extend(submission.definitions)

    monkeypatch.setattr(submitting.Submitting, "here", lambda *_words: Fake())
    entries = [{"command": ["a"]}, {"command": ["b", "c d"]}]
    values = [{"lr": "1"}, {"lr": "2"}]
    submit_numbered(entries, "lr", parameters=values, first=3, at_once=1)
    assert [(one.name, one.command) for one in sent] == [("lr-3", ("a",)), ("lr-4", ("b", "c d"))]
    assert [one.parameters for one in sent] == values
    assert {(one.sweep, one.at_once) for one in sent} == {("lr", 1)}
    assert len({one.submitted_at for one in sent}) == 1
    with pytest.raises(SubmitError, match="at_once"):
        submit_numbered(entries, "lr", parameters=values, at_once=0)


def test_the_launcher_is_found_without_what_it_starts() -> None:
    """Hydra imports it in all of its programs: Ansible would make each of them slower."""
    import hydra_plugins

    places = [Path(place).resolve() for place in hydra_plugins.__path__]
    (found,) = {path for place in places for path in place.glob("*.py")}
    top = [line for line in found.read_text().splitlines() if line.startswith(("from", "import"))]
    assert not any("tpu_fleet" in line or "ansible" in line for line in top)
    assert "hydra" not in sys.modules
