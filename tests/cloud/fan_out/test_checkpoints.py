"""`tpu-fleet checkpoints` for a folder of a worker, on a real SSH server."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from fleet_folder import Fleet
from json_forms import conforms
from sshd import Farm, Sshd

AT = 1_700_000_000


@pytest.fixture
def fleet(
    farm: Farm, tmp_path: Path, authorized: str, ending: Callable[..., None]
) -> tuple[Fleet, Path]:
    """A fleet with a run, and its checkpoint folder; sudo is one that takes only the run's user."""
    programs, folder = tmp_path / "bin", tmp_path / "ckpt"
    programs.mkdir()
    sudo, user = programs / "sudo", getpass.getuser()
    sudo.write_text(f'#!/bin/sh\n[ "$1 $2 $3" = "-n -u {user}" ] || exit 9\nshift 3\nexec "$@"\n')
    sudo.chmod(0o755)
    path = f"SetEnv SHLVL=2 PATH={programs}:/usr/bin:/bin"
    server = Sshd(tmp_path / "sshd", ["127.77.14.1"], authorized, path)
    ending(server)
    known = tmp_path / "known"
    known.write_text(f"tpu.w0.0 {server.host_key}\n")
    fleet = Fleet(tmp_path / "fleet", farm, {"solo": 1})
    solo = fleet.groups["tpu"]["solo"]
    solo["ansible_host"] = "127.77.14.1"
    solo["tpu_vm_ssh_options"].update(Port=server.port, UserKnownHostsFile=str(known))
    fleet.write()
    run = {"name": "digits", "slices": ["solo"], "user": user, "checkpoint_dir": str(folder)}
    hosts = fleet.folder / "hosts.yml"
    inventory = yaml.safe_load(hosts.read_text())
    inventory["all"]["vars"]["fleet_runs"] = [run]
    hosts.write_text(yaml.safe_dump(inventory))
    return fleet, folder


def step(folder: Path, name: str, at: int) -> None:
    part = folder / name / "d" / "0"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"12345")
    os.utime(part, (at, at))


def test_a_folder_is_listed_and_cleaned_up_by_its_worker(fleet: tuple[Fleet, Path]) -> None:
    one, folder = fleet
    step(folder, "100.orbax-checkpoint-tmp-1", AT)
    step(folder, "200", AT + 60)
    step(folder, "300.orbax-checkpoint-tmp-2", AT + 90)
    done = one.run("checkpoints", "digits", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = conforms(["checkpoints"], done.stdout)["runs"]
    assert [(each["step"], each["state"], each["leftover"]) for each in found["checkpoints"]] == [
        (100, "unfinished", True), (200, "whole", False), (300, "unfinished", False),
    ]  # fmt: skip
    assert (found["worker"], found["usd_per_month"]) == ("solo", None)
    done = one.run("checkpoints", "--delete-leftovers", "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Deleted 1 leftover.")
    assert sorted(path.name for path in folder.iterdir()) == ["200", "300.orbax-checkpoint-tmp-2"]


def test_a_folder_that_is_not_there(fleet: tuple[Fleet, Path]) -> None:
    one, folder = fleet
    done = one.run("checkpoints", "digits")
    assert (done.returncode, f"{folder} is no folder here" in done.stdout) == (1, True)
