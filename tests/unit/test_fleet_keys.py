"""What the fleet check knows must be what the roles take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._fleet import (
    LISTS,
    check_variable_names,
)

ROLES = Path(__file__).parents[2] / "roles"
ROLE_LISTS = [name for name in LISTS if not name.startswith("fleet_")]
TYPES = {"path": "str", "raw": "any"}


def specification() -> dict[str, dict[str, Any]]:
    options: dict[str, dict[str, Any]] = {}
    for file in ROLES.glob("*/meta/argument_specs.yml"):
        options |= yaml.safe_load(file.read_text())["argument_specs"]["main"].get("options", {})
    return options


@pytest.mark.parametrize("variable", ROLE_LISTS)
def test_keys_are_those_of_the_role(variable: str) -> None:
    expected = {
        name: (TYPES.get(option["type"], option["type"]), option.get("required", False))
        for name, option in specification()[variable]["options"].items()
    }
    found = {name: (key.type, key.required) for name, key in LISTS[variable].items()}
    assert found == expected


@pytest.mark.parametrize("variable", ROLE_LISTS)
def test_choices_are_those_of_the_role(variable: str) -> None:
    for name, option in specification()[variable]["options"].items():
        assert LISTS[variable][name].choices == tuple(option.get("choices", ())), name


def test_no_variable_of_a_role_is_taken_for_a_misspelling() -> None:
    assert check_variable_names(specification()) == []
