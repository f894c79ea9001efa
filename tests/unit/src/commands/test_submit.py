"""`tpu-fleet submit`: what it prints, and what it refuses before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer
from click.testing import CliRunner, Result
from queue_fleet import FleetInMemory, fleet_in_memory, make_key

import tpu_fleet
from tpu_fleet.commands import submit as command
from tpu_fleet.queue import submit as work


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FleetInMemory:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(tmp_path / "none"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    key = make_key(tmp_path / ".ssh" / "id_ed25519")
    fleet = fleet_in_memory([{"name": "alice", "keys": [key]}])
    monkeypatch.setattr(work, "read_inventory", lambda: None)
    monkeypatch.setattr(work, "queue_of", lambda _inventory: fleet)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path / "code")
    return fleet


def said(*words: str) -> Result:
    return CliRunner().invoke(command.submit, words)


def test_it_says_what_is_frozen_where_it_runs_and_why_it_waits(lab: FleetInMemory) -> None:
    sweep = ["--sweep", "lr=1e-3,3e-4", "--sweep", "seed=1..3"]
    done = said("--name", "lr", *sweep, "--", "python", "train.py", "--lr={lr}", "-s", "{seed}")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("code of code (no commit), ")
    assert lines[1] == (
        "6 runs of alice, as user alice, venv jax, on pair, solo, checkpoints in "
        "gs://lab/queue/checkpoints/NAME"
    )
    assert lines[2].startswith("lr-1: first in turn; idle: solo")
    assert lines[-1] == ("6 runs submitted. Next: tpu-fleet runs --queue, tpu-fleet logs -f lr-1")
    assert len([name for name in lab.bucket.items if name.startswith("runs/")]) == 6


def test_a_sweep_has_a_maximum_at_a_time(lab: FleetInMemory, tmp_path: Path) -> None:
    words = ["--name", "lr", "--sweep", "seed=1..3", "--at-once", "2"]
    done = said(*words, "--", "python", "train.py", "{seed}")
    assert ", at most 2 at once" in done.stdout
    listed = lab.opened().all().states
    assert {(one.sweep, one.at_once) for one in listed} == {("lr", 2)}
    assert [one.parameters for one in listed] == [{"seed": str(seed)} for seed in (1, 2, 3)]
    assert "--at-once 2: it is for a sweep" in said("--at-once", "2", "python", "x.py").stderr
    runs = tmp_path / "runs.yml"
    runs.write_text("{command: 'x {n}', name: n, sweep: {n: [1, 2]}, at_once: 1}")
    assert "at most 1 at once" in said("--file", str(runs)).stdout


def test_a_dry_run_writes_nothing(lab: FleetInMemory) -> None:
    done = said("--dry-run", "python", "train.py")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "Nothing was submitted, because of --dry-run."
    assert lab.bucket.items == {}


def test_everything_wrong_is_said_before_anything_is_written(lab: FleetInMemory) -> None:
    done = said("--name", "digits", "--on", "v9", "--venv", "torch", "--", "python", "train.py")
    assert done.exit_code == 1
    assert "--name digits: digits is a run of fleet_runs." in done.stderr
    assert "--on v9: " in done.stderr
    assert "--venv torch: " in done.stderr
    assert done.stderr.rstrip().endswith("Nothing was submitted.")
    assert lab.bucket.items == {}
    assert "command: it is missing" in said("--name", "x").stderr
    assert "--sweep x: it has no name" in said("--sweep", "x", "python").stderr


def test_runs_of_a_file(lab: FleetInMemory, tmp_path: Path) -> None:
    runs = [
        {"name": "prepare", "command": "python train.py --prepare"},
        {"name": "train", "after": ["prepare"], "hang_after": "30m", "on": ["v4-8"]},
    ]
    (tmp_path / "runs.yml").write_text(json.dumps(runs))
    words = ["--file", str(tmp_path / "runs.yml"), "--priority", "3"]
    done = said(*words, "--json", "--", "python", "train.py")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["submitted"] == ["prepare", "train"]
    first, second = told["runs"]
    assert first["command"] == ["python", "train.py", "--prepare"]
    assert second["command"] == ["python", "train.py"]
    assert second["why"] == "waits for prepare to end"
    assert (first["priority"], second["options"]) == (3, {"hang_after": "30m"})
    (tmp_path / "runs.yml").write_text("- {nam: x}\n- [1]\n")
    done = said("--file", str(tmp_path / "runs.yml"))
    assert "runs.yml[0].nam = 'x': is not a known key. Did you mean name?" in done.stderr
    (tmp_path / "runs.yml").write_text("a: [")
    assert "it cannot be read" in said("--file", str(tmp_path / "runs.yml")).stderr
    said_of = said("--file", str(tmp_path / "none.yml")).stderr
    assert "none.yml: it cannot be read: No such file or directory. Name a file with" in said_of


def test_without_a_key_nothing_is_submitted(lab: FleetInMemory, tmp_path: Path) -> None:
    (tmp_path / ".ssh" / "id_ed25519").unlink()
    done = said("python", "train.py")
    assert done.exit_code == 1
    assert "Add your public key to `keys` of your entry" in done.stderr


def test_the_code_of_another_folder_or_none(lab: FleetInMemory, tmp_path: Path) -> None:
    done = said("--name", "a", "--code", "none", "--json", "hostname")
    assert json.loads(done.stdout)["runs"][0]["code"] is None
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.py").write_text("")
    done = said("--name", "b", "--code", "../other", "--", "python", "x.py")
    assert done.stdout.startswith("code of other (no commit)")
    assert "cannot be packed" in said("--name", "c", "--code", "nowhere", "x").stderr


def test_python_users_get_the_same(lab: FleetInMemory) -> None:
    found = tpu_fleet.submit(
        "python train.py --lr {lr}",
        name="lr",
        sweep={"lr": [1e-3, 3e-4]},
        at_once=1,
        hang_after="30m",
    )
    assert found.names == ["lr-1", "lr-2"]
    assert found.definitions[0].command == ("python", "train.py", "--lr", "0.001")
    assert found.definitions[0].options == {"hang_after": "30m"}
    assert found.definitions[0].at_once == 1
    assert found.places["lr-1"].position == 1
    with pytest.raises(ValueError, match="--on v9"):
        tpu_fleet.submit(["python"], on=["v9"], dry_run=True)
    with pytest.raises(AttributeError, match="has no attribute sumbit"):
        getattr(tpu_fleet, "sumbit")  # noqa: B009


def test_what_the_bucket_does_not_take_is_named(
    lab: FleetInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = lab.bucket.put

    def fails(name: str, *words: Any) -> int | None:
        if name == "runs/lr-2":
            raise NoAnswer("503")
        return put(name, *words)

    monkeypatch.setattr(lab.bucket, "put", fails)
    done = said("--name", "lr", "--sweep", "n=1..2", "--", "python", "train.py", "{n}")
    assert done.exit_code == 1
    assert "1 run submitted." in done.stdout
    assert done.stderr.startswith("lr-2 was not submitted: ")


def test_a_missing_command_is_refused_before_the_fleet_is_read(tmp_path: Path) -> None:
    done = CliRunner().invoke(command.submit, ["--name", "x"])
    assert done.exit_code == 2
    assert "command: it is missing. Write it after --, as -- python train.py" in done.output
