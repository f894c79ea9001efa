"""docs/guides.md leads to lines that are there."""

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
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import (
    fleet_options,
    role_names,
)

ROOT = Path(__file__).resolve().parents[2]
LAB = yaml.safe_load((ROOT / "examples/lab/fleet.yml").read_text())
PAGE = (ROOT / "docs/guides.md").read_text()
FILES = sorted((ROOT / "tests/machines/lab/guides").glob("*/inventory/group_vars/all/fleet.yml"))
ROWS = [
    line.split("|")[1:3] for line in PAGE.splitlines() if re.match(r"\| (?!---|step|what)", line)
]
VARIABLES = re.compile(rf"`((?:fleet|{'|'.join(role_names())})_[\w\[\].]+)`")
NAMED = sorted({name for _step, here in ROWS for name in VARIABLES.findall(here)})
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def values(data: Any, path: str) -> list[Any]:
    """What is at a path as fleet_users[].keys."""
    found = [data]
    for part in path.split("."):
        name, several = part.removesuffix("[]"), part.endswith("[]")
        found = [item[name] for item in found if name in item]
        found = [one for item in found for one in item] if several else found
    return found


def test_the_page_has_rows_for_everything() -> None:
    assert len(ROWS) > 50
    assert len(NAMED) > 40


@pytest.mark.parametrize("name", NAMED)
def test_each_line_is_in_the_file(name: str) -> None:
    assert values(LAB, name), f"{name} is not in examples/lab/fleet.yml"


def test_every_variable_of_the_file_is_some_step() -> None:
    tops = {name.split("[")[0].split(".")[0] for name in NAMED}
    assert set(LAB) - {"fleet_groups"} <= tops


def filled(value: Any) -> Any:
    """Put something in the place of templates."""
    if isinstance(value, str) and "{{" in value:
        return KEY if "public_key" in value or ".pub" in value else "secret"
    if isinstance(value, list):
        return [filled(item) for item in value]
    return {k: filled(v) for k, v in value.items()} if isinstance(value, dict) else value


def test_the_file_is_a_good_one() -> None:
    assert [str(p) for p in check_fleet_file(filled(LAB), role_keys(fleet_options()))] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parents[3].name)
def test_the_files_of_the_authors_are_good_ones(file: Path) -> None:
    # Where the grant is not in the file, it is made from a mail.
    fleet = {"fleet_allocations": "unrestricted", **filled(yaml.safe_load(file.read_text()))}
    assert [str(p) for p in check_fleet_file(fleet, role_keys(fleet_options()))] == []


def test_there_are_five_authors() -> None:
    assert len(FILES) == 5
