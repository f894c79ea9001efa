# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what the roles of this collection take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The safe one, in C where there is one: a tenth of the time.
from ansible.module_utils.common.yaml import yaml_load

ROLES = Path(__file__).resolve().parents[2] / "roles"


def role_names() -> list[str]:
    """List the roles."""
    return sorted(path.parents[1].name for path in ROLES.glob("*/meta/argument_specs.yml"))


def role_options() -> dict[str, dict[str, Any]]:
    """Return the options of all roles, by variable, as their argument specifications have them."""
    options: dict[str, dict[str, Any]] = {}
    for name in role_names():
        text = (ROLES / name / "meta" / "argument_specs.yml").read_text(encoding="utf-8")
        options.update(yaml_load(text)["argument_specs"]["main"].get("options", {}))
    return options


def secret_options() -> frozenset[str]:
    """Name the variables of roles that hold secrets, wholly or somewhere in them."""
    return frozenset(name for name, option in role_options().items() if _is_secret(option))


def roles_in(play: Mapping[str, Any]) -> list[str]:
    """Return the roles that a play of this collection applies, in their order."""
    included = (task for task in play.get("tasks", ()) if "ansible.builtin.include_role" in task)
    return [role for task in included for role in task["loop"]]


def _is_secret(option: dict[str, Any]) -> bool:
    inner = option.get("options", {}).values()
    return bool(option.get("no_log")) or any(_is_secret(part) for part in inner)
