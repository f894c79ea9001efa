"""The fleet files of the examples of sweeps are good ones, and lead to files that are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import fleet_options

from tpu_fleet.queue.wanted import Wanted, wanted_of

ROOT = Path(__file__).resolve().parents[2]
SWEEPS = ROOT / "examples/sweeps"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
EXAMPLES = ["optuna", "ray", "wandb"]


def fleet_of(example: str) -> dict[str, Any]:
    text = (SWEEPS / example / "fleet.yml").read_text()
    data: dict[str, Any] = yaml.safe_load(
        re.sub(
            r"\{\{ lookup\(.*?\) \}\}", "0" * 40, text.replace("{{ fleet_ssh_public_key }}", KEY)
        )
    )
    return data


def submissions(text: str) -> list[list[str]]:
    """Return the commands of a text that submit, as words."""
    lines = re.findall(r"(?m)^\$ tpu-fleet (submit (?:[^\n\\]|\\\n)*)", text)
    return [shlex.split(line.replace("\\\n", " ")) for line in lines]


def test_there_are_no_others() -> None:
    assert sorted(path.name for path in SWEEPS.iterdir()) == EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_fleet_file_is_a_good_one(example: str) -> None:
    fleet = fleet_of(example)
    assert [str(p) for p in check_fleet_file(fleet, role_keys(fleet_options()))] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_it_names_is_there(example: str) -> None:
    fleet = fleet_of(example)
    (tree,) = fleet["fleet_code"]
    folder = ROOT / "inventory" / tree["local_path"]
    for run in fleet.get("fleet_runs", ()):
        # The run begins in the tree.
        (program,) = re.findall(r"python (\S+)", run["command"])
        assert (folder / program).is_file()
    for venv in fleet.get("fleet_venvs", ()):
        name, _slash, file = venv["requirements"].partition("/")
        assert name == tree["name"]
        assert (folder / file).is_file()


@pytest.mark.parametrize(
    "page", [SWEEPS / "wandb/README.md", ROOT / "docs/sweeps.md"], ids=["README", "docs"]
)
def test_what_is_submitted_is_there_and_takes_its_values(page: Path) -> None:
    found = [words for words in submissions(page.read_text()) if "--" in words]
    assert len(found) == 1
    for words in found:
        options, command = words[: words.index("--")], words[words.index("--") + 1 :]
        swept = [after for one, after in pairwise(options) if one == "--sweep"]
        names = [one.partition("=")[0] for one in swept]
        check_command(command, options[options.index("--code") + 1], names)


def test_the_file_of_a_grid_is_a_good_one() -> None:
    entry = yaml.safe_load((SWEEPS / "wandb/grid.yml").read_text())
    grid = wanted_of(entry, "grid.yml", Wanted())
    assert grid.sweep == {"hidden": ["32", "128"], "lr": ["1e-3", "1e-2", "1e-1"]}
    check_command(grid.command, str(grid.code), list(grid.sweep))


def check_command(command: Sequence[str], code: str, swept: Sequence[str]) -> None:
    """Check that a command's program is in its code, and that each swept value has its place."""
    (program,) = [word for word in command if word.endswith((".py", ".sh"))]
    assert (ROOT / code / program).is_file()
    assert sorted(re.findall(r"\{(\w+)\}", " ".join(command))) == sorted(swept)
