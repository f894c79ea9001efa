"""Fixtures: the repository's own inventory, for an emulator without machines."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator import ROOT, Emulator
from warm_ansible import run_ansible

Play = Callable[..., str]
Start = Callable[..., "subprocess.Popen[str]"]

NOTHING: dict[str, Any] = {
    "fleet_slices": [],
    "fleet_users": [],
    "fleet_venvs": [],
    "fleet_code": [],
    "fleet_runs": [],
    "fleet_checkpoint_buckets": [],
}


class Ground:
    """The inventory of a test, and the environment in which Ansible reads it."""

    def __init__(self, cloud: Emulator, folder: Path) -> None:
        self.inventory = folder / "inventory"
        shutil.copytree(ROOT / "inventory", self.inventory)
        where = self.inventory / "fleet.tpu.yml"
        where.write_text(where.read_text().replace("http://127.0.0.1:8470/", cloud.url))
        self.cloud = cloud
        self.folder = folder

    @property
    def env(self) -> dict[str, str]:
        """Return the environment, with what the test has set meanwhile."""
        return self.cloud.env(
            ANSIBLE_INVENTORY=str(self.inventory),
            ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
            TPU_FLEET_STATE_DIR=str(self.folder / "state"),
            TPU_FLEET_SSH_KEY=str(self.folder / "state" / "key"),
        )

    def declare(self, fleet: dict[str, Any]) -> None:
        """Write the fleet file."""
        story = self.inventory / "group_vars" / "all" / "story.yml"
        story.write_text(json.dumps({**NOTHING, **fleet}))


@pytest.fixture(scope="session")
def grounds() -> type[Ground]:
    """For those who share an inventory among tests."""
    return Ground


@pytest.fixture
def ground(cloud: Emulator, tmp_path: Path) -> Ground:
    """The repository's own inventory, pointed at the emulator."""
    return Ground(cloud, tmp_path)


@pytest.fixture
def play(ground: Ground) -> Play:
    """Run a command of Ansible for a fleet file; return what it printed."""

    def run(*words: str, fleet: dict[str, Any], ok: bool = True, hosts: str = "") -> str:
        ground.declare(fleet)
        if hosts:
            (ground.inventory / "static.yml").write_text(hosts)
        done = run_ansible(words, ground.env, ROOT)
        out = done.stdout + done.stderr
        assert (done.returncode == 0) is ok, out
        return out

    return run


@pytest.fixture
def start(ground: Ground) -> Start:
    """Begin a command of Ansible for a fleet file."""

    def run(*words: str, fleet: dict[str, Any]) -> subprocess.Popen[str]:
        ground.declare(fleet)
        return subprocess.Popen(
            words,
            cwd=ROOT,
            env=ground.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    return run
