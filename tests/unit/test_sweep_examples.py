"""The fleet files of the examples of sweeps are good ones, and lead to files that are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import fleet_options

ROOT = Path(__file__).resolve().parents[2]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
EXAMPLES = ["optuna", "ray", "wandb"]


def fleet_of(example: str) -> dict[str, Any]:
    text = (ROOT / "examples/sweeps" / example / "fleet.yml").read_text()
    data: dict[str, Any] = yaml.safe_load(text.replace("{{ fleet_ssh_public_key }}", KEY))
    return data


def test_there_are_no_others() -> None:
    assert sorted(path.name for path in (ROOT / "examples/sweeps").iterdir()) == EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_fleet_file_is_a_good_one(example: str) -> None:
    fleet = fleet_of(example)
    assert [str(p) for p in check_fleet_file(fleet, role_keys(fleet_options()))] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_it_names_is_there(example: str) -> None:
    fleet = fleet_of(example)
    (tree,) = fleet["fleet_code"]
    folder = ROOT / "inventory" / tree["local_path"]
    (run,) = fleet["fleet_runs"]
    # The run begins in the tree.
    inside = re.search(r"cd (\S+)", run["command"])
    (program,) = re.findall(r"python (\S+)", run["command"])
    assert (folder / (inside[1] if inside else "") / program).is_file()
    for venv in fleet.get("fleet_venvs", ()):
        name, _slash, file = venv["requirements"].partition("/")
        assert name == tree["name"]
        assert (folder / file).is_file()
