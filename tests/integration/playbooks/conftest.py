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

Play = Callable[..., str]

NOTHING: dict[str, Any] = {
    "fleet_slices": [],
    "user_accounts_users": [],
    "python_env_venvs": [],
    "code_checkout_trees": [],
    "training_run_runs": [],
}


@pytest.fixture
def play(cloud: Emulator, tmp_path: Path) -> Play:
    """Run a command of Ansible for a fleet file; return what it printed."""
    inventory = tmp_path / "inventory"
    shutil.copytree(ROOT / "inventory", inventory)
    where = inventory / "fleet.tpu.yml"
    where.write_text(where.read_text().replace("http://127.0.0.1:8470/", cloud.url))

    def run(*words: str, fleet: dict[str, Any], ok: bool = True, hosts: str = "") -> str:
        story = inventory / "group_vars" / "all" / "story.yml"
        story.write_text(json.dumps({**NOTHING, **fleet}))
        if hosts:
            (inventory / "static.yml").write_text(hosts)
        env = cloud.env(
            ANSIBLE_INVENTORY=str(inventory),
            ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
            TPU_FLEET_STATE_DIR=str(tmp_path / "state"),
            TPU_FLEET_SSH_KEY=str(tmp_path / "state" / "key"),
            PWD=str(tmp_path),
        )
        done = subprocess.run(
            words, cwd=ROOT, env=env, check=False, capture_output=True, text=True, timeout=120
        )
        out = done.stdout + done.stderr
        assert (done.returncode == 0) is ok, out
        return out

    return run
