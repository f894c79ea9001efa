"""What the fleet check knows of the roles is what the roles take."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    check_variable_names,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.rules_by_role import ROLE_RULES
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import (
    fleet_options,
    role_names,
    role_options,
)

ROOT = Path(__file__).parents[2]
ROLES = role_keys(fleet_options())


def test_all_roles_are_read() -> None:
    assert role_names() == sorted(path.parent.name for path in ROOT.glob("roles/*/tasks"))
    assert {variable.split("_")[0] for variable in role_options()} == {
        role.split("_")[0] for role in role_names()
    }


def test_rules_of_all_roles_are_applied() -> None:
    """A file of rules that is never called would check nothing."""
    applied = set(ROLE_RULES)
    assert [f"check_{role}" for role in ROLE_RULES] == [r.__name__ for r in ROLE_RULES.values()]
    written = {path.parent.name for path in ROOT.glob("plugins/module_utils/_roles/*/rules.py")}
    assert applied == written
    assert written <= set(role_names())


def test_no_variable_of_a_role_is_taken_for_a_misspelling() -> None:
    assert check_variable_names(ROLES, ROLES) == []


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("fleet_apt_lock_timeout", "10m", None),
        (
            "fleet_apt_lock_timeout",
            "ten",
            "fleet_apt_lock_timeout = 'ten': is not a duration",
        ),
        ("fleet_apt_lock_timeout", True, "fleet_apt_lock_timeout = True: is not a duration"),
        ("fleet_compile_bytecode", "no", None),
        ("fleet_compile_bytecode", "nein", "must be true or false"),
        ("fleet_base_packages", ["tmux", {}], "fleet_base_packages[1] = {}: must be a text"),
        ("fleet_huge_pages", "allways", "Did you mean always?"),
        ("fleet_limits", "nofile", "must be a mapping"),
    ],
)
def test_single_variables_of_roles(variable: str, value: object, problem: str | None) -> None:
    found = [str(wrong) for wrong in check_fleet_file({variable: value}, ROLES)]
    assert len(found) == (problem is not None), found
    assert (problem or "") in "".join(found)


SECRET = {
    "role_sets": {
        "type": "list",
        "elements": "dict",
        "options": {"name": {"type": "str"}, "values": {"type": "dict", "no_log": True}},
    }
}


@pytest.mark.parametrize("entry", [{"values": "hush"}, {"valeus": "hush"}, {"values": ["hush"]}])
def test_secret_values_are_not_shown(entry: dict[str, object]) -> None:
    (problem,) = check_fleet_file({"role_sets": [entry]}, role_keys(SECRET))
    assert "hush" not in str(problem)
    assert problem.field.startswith("role_sets[0].val")
