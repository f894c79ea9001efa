"""The schema for editors says what the checks of the fleet file say, as far as a schema can."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    check_variable_names,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import fleet_options

from tpu_fleet.begin.files import SCHEMA

ROOT = Path(__file__).resolve().parents[2]
ROLES = role_keys(fleet_options())
VALIDATOR = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text()))
EXAMPLE = yaml.safe_load((ROOT / "docs/fleet-file.example.yml").read_text())
FILES = [
    *(ROOT / "docs/fleet-file.example.yml", ROOT / "inventory/group_vars/all/fleet.yml"),
    *sorted((ROOT / "examples").rglob("fleet.yml")),
]
BLOCKS = [
    pytest.param(yaml.safe_load(block), id=f"{page.name}-{index}")
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for index, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL))
]


def faults(data: Any) -> list[tuple[str, str]]:
    """Return where the schema finds a fault, and which."""
    return [
        (".".join(map(str, error.absolute_path)), error.message)
        for error in VALIDATOR.iter_errors(data)
    ]


def test_it_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(VALIDATOR.schema)


@pytest.mark.parametrize("file", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_fleet_files_are_valid(file: Path) -> None:
    assert faults(yaml.safe_load(file.read_text())) == []


@pytest.mark.parametrize("block", [one for one in BLOCKS if isinstance(one.values[0], dict)])
def test_the_examples_of_the_docs_are_valid(block: Any) -> None:
    if "plugin" not in block:
        assert faults(block) == []


# Where, the value there, and where the fault is found; None removes the key.
MISTAKES: list[tuple[str, Any, str]] = [
    ("fleet_slices.0.tier", "spto", "fleet_slices.0.tier"),
    ("fleet_slices.0.accelerator_tpye", "v4-8", "fleet_slices.0"),
    ("fleet_slices.0.name", None, "fleet_slices.0"),
    ("fleet_slices.0.name", 7, "fleet_slices.0.name"),
    ("fleet_slices.0.queued", "perhaps", "fleet_slices.0.queued"),
    ("fleet_slices.0.zones", "us-central2-b", "fleet_slices.0.zones"),
    ("fleet_slices.0.boot_disk_size", "200GB", "fleet_slices.0.boot_disk_size"),
    ("fleet_slices.0.labels", ["a"], "fleet_slices.0.labels"),
    ("fleet_slices", {"name": "solo"}, "fleet_slices"),
    ("fleet_allocations", "unrestrictd", "fleet_allocations"),
    ("fleet_allocations.0.tier", None, "fleet_allocations.0"),
    ("fleet_allocations.0.generation", "v44", "fleet_allocations.0.generation"),
    ("fleet_apply", "sometimes", "fleet_apply"),
    ("fleet_notify.1.events", ["failed", "exploded"], "fleet_notify.1.events.1"),
    ("fleet_notify.3.webhook", "https://x", "fleet_notify.3"),
    ("fleet_self_setup.buckets", "x", "fleet_self_setup"),
    ("fleet_users.0.uid", "2001x", "fleet_users.0.uid"),
    ("fleet_users.0.keys", "ssh-ed25519 AAAA", "fleet_users.0.keys"),
    ("fleet_venvs.0.python", 3.11, "fleet_venvs.0.python"),
    ("fleet_venvs.0.framework", "tensorflow", "fleet_venvs.0.framework"),
    ("fleet_build_tries", "many", "fleet_build_tries"),
    ("fleet_prune_venvs", "perhaps", "fleet_prune_venvs"),
    ("fleet_runs.0.slices", None, "fleet_runs.0"),
    ("fleet_runs.0.retries", "3x", "fleet_runs.0.retries"),
    ("fleet_disks.0.mnt", "/x", "fleet_disks.0"),
]


def changed(place: str, value: Any) -> dict[str, Any]:
    """Return the example with another value at a place."""
    data: dict[str, Any] = copy.deepcopy(EXAMPLE)
    *way, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    inner: Any = data
    for part in way:
        inner = inner[part]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return data


@pytest.mark.parametrize(("place", "value", "found"), MISTAKES)
def test_mistakes_are_refused_where_they_are_as_by_the_checks(
    place: str, value: Any, found: str
) -> None:
    data = changed(place, value)
    assert [where for where, _message in faults(data)] == [found]
    assert check_fleet_file(data, ROLES)


@pytest.mark.parametrize(
    "name", ["fleet_slcies", "fleet_zones", "training_runs", "python_env_venv"]
)
def test_names_that_are_nearly_ours_are_refused_as_by_the_checks(name: str) -> None:
    assert faults({name: []})
    assert check_variable_names([name], ROLES)


@pytest.mark.parametrize("name", ["my_fleet", "vault_key", "fleet_slices_of_bob", "ansible_user"])
def test_names_of_other_people_are_their_own(name: str) -> None:
    assert faults({name: []}) == []
    assert check_variable_names([name], ROLES) == []


@pytest.mark.parametrize(
    "place",
    [
        *("fleet_slices", "fleet_slices.0", "fleet_slices.0.tier", "fleet_slices.0.queued"),
        *("fleet_allocations", "fleet_build_tries", "fleet_notify.3.events", "fleet_apply"),
        *("fleet_users.0.keys", "fleet_users.0.uid"),
    ],
)
def test_a_template_may_stand_anywhere(place: str) -> None:
    assert faults(changed(place, "{{ vault_something }}")) == []


@pytest.mark.parametrize("name", ["fleet_slices", "fleet_users", "fleet_python"])
def test_a_section_with_nothing_below_it_is_empty(name: str) -> None:
    assert faults({name: None}) == []


def test_a_role_takes_texts_for_numbers_and_flags_as_ansible_does() -> None:
    data = {"fleet_build_tries": "7", "fleet_prune_venvs": "yes", "fleet_python": 3.12}
    assert faults(data) == []
    assert [p for p in check_fleet_file(data, ROLES) if "must be" in p.message] == []


def test_editors_complete_choices_and_show_meanings() -> None:
    """They look into anyOf, and not behind an if."""
    variables = VALIDATOR.schema["properties"]
    tier = variables["fleet_slices"]["else"]["items"]["else"]["properties"]["tier"]
    assert "spot" in tier["anyOf"][0]["enum"]
    assert "how safe it is" in tier["description"]
    lacking = [name for name, one in variables.items() if not one.get("description")]
    assert lacking == []
