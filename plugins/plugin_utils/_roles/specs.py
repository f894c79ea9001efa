# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what the roles of this collection take."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

# The safe one, in C where there is one: a tenth of the time.
from ansible.module_utils.common.yaml import yaml_load

from ...module_utils._schema.names import PARTS, in_fleet_file

ROLES = Path(__file__).resolve().parents[3] / "roles"


def role_names() -> list[str]:
    """List the roles."""
    return sorted(path.parents[1].name for path in ROLES.glob("*/meta/argument_specs.yml"))


@functools.cache
def options_of(role: str) -> dict[str, dict[str, Any]]:
    """Return the options of a role, by variable, as its argument specification has them."""
    text = (ROLES / role / "meta" / "argument_specs.yml").read_text(encoding="utf-8")
    options: dict[str, dict[str, Any]] = yaml_load(text)["argument_specs"]["main"].get(
        "options", {}
    )
    return options


def role_options() -> dict[str, dict[str, Any]]:
    """Return the options of all roles, by variable."""
    return {name: option for role in role_names() for name, option in options_of(role).items()}


def fleet_options() -> dict[str, dict[str, Any]]:
    """Return the options of all roles, by their names in the fleet file where they have one.

    Variables that say more than is the role's are not the roles'.
    """
    return in_fleet_file({own: o for own, o in role_options().items() if own not in PARTS})


def by_all_names() -> dict[str, dict[str, Any]]:
    """Return the options of all roles, by variable, and by its name in the fleet file."""
    return {**fleet_options(), **role_options()}


def defaults_of_entries(role: str) -> dict[str, dict[str, Any]]:
    """Return the defaults of the keys of entries, for each variable of a role."""
    return {
        variable: {
            key: inner["default"]
            for key, inner in option.get("options", {}).items()
            if "default" in inner
        }
        for variable, option in options_of(role).items()
    }


def secret_options() -> frozenset[str]:
    """Name the variables that hold secrets, wholly or somewhere in them: of roles, of the fleet."""
    return frozenset(name for name, option in by_all_names().items() if _is_secret(option))


def roles_in_order() -> list[str]:
    """List the roles in the order in which the playbooks of this collection apply them."""
    text = (ROLES.parent / "playbooks" / "vars" / "roles.yml").read_text(encoding="utf-8")
    return [role for roles in yaml_load(text).values() for role in roles]


def _is_secret(option: dict[str, Any]) -> bool:
    inner = option.get("options", {}).values()
    return bool(option.get("no_log")) or any(_is_secret(part) for part in inner)
